//! The Hugging Face Hub: which files of a repository make a model for this machine, how they come into the Hub's cache, and
//! what that cache has, whoever filled it.
//!
//! `settings` reads the environment by the same variables as `huggingface_hub`; `client` and `transfer` speak the Hub's HTTP
//! interface; `variants` and `choose` know which files make a model and which one to take; `blob` and `cache` write the
//! cache as other programs do, so that each finds what the other fetched; `pull` puts them in order. `snapshot` reads the
//! cache and removes from it. `catalogue` names a few models that run well.
//!
//! Left to others: opening what was pulled (`model`, `builder`), drawing the progress, asking people (`commands`).

mod blob;
mod cache;
mod catalogue;
mod choose;
mod client;
mod error;
mod names;
mod progress;
mod pull;
mod settings;
mod snapshot;
mod transfer;
mod variants;

pub use catalogue::{Entry, catalogue, entry};
pub use choose::{ChoiceError, Purpose};
pub use client::{Listing, RemoteFile};
pub use error::{Fault, HubError};
pub use names::{ModelRef, NameError, RepoId};
pub use progress::{PullProgress, PullReport, PullStage};
pub use pull::{Plan, PullRequest, Pulled, Suits, pull};
pub use settings::{HubSettings, HubSettingsError, Token};
pub use snapshot::{CachedRepo, Found, bytes_below, find, remove, repositories, repository};
pub use variants::{FileEntry, Format, Variant};
