//! The key `editing`.

use serde::Deserialize;

/// Whose keys edit what is typed in the chat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Editing {
    #[default]
    Emacs,
    Vim,
}
