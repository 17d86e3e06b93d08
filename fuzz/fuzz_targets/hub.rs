//! Any bytes as what the Hub answers, and any text as a model's name: what is taken for good stays below the folder that it is
//! joined to.
#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use ortalk::hub::{Listing, ModelRef, RepoId};

fn stays_below(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fuzz_target!(|data: &[u8]| {
    let Ok(repo) = RepoId::parse("owner/name") else { return };
    if let Ok(listing) = Listing::parse(data, &repo, "https://hub") {
        for file in listing.files {
            assert!(stays_below(&file.path) && file.etag.is_none_or(|etag| stays_below(&etag)));
        }
    }
    let Ok(text) = str::from_utf8(data) else { return };
    if let Ok(model) = ModelRef::parse(text) {
        assert!(stays_below(&model.repo.folder_name()));
    }
    if let Some(repo) = RepoId::of_folder(text) {
        assert_eq!(repo.folder_name(), text);
    }
});
