//! What concerns kept conversations: the chat's options, and `ortalk chats`.

use clap::{Args, Subcommand, ValueEnum};

/// What becomes of what is said in the chat.
#[derive(Debug, Clone, Default, Args)]
pub struct KeepArgs {
    /// Go on with a conversation: the latest one, or the one with this ID, which `ortalk chats` lists.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub resume: Option<String>,
    /// Do not write down what is said.
    #[arg(long)]
    pub no_save: bool,
}

#[derive(Debug, Args)]
pub struct ChatsArgs {
    #[command(subcommand)]
    pub command: Option<ChatsCommand>,
    /// List those that were deleted, which can be had back for 30 days.
    #[arg(long)]
    pub deleted: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A part of an ID that no other conversation has will do.
#[derive(Debug, Subcommand)]
pub enum ChatsCommand {
    /// Print a conversation.
    Show {
        /// An ID, or a part of it; the default is the latest conversation.
        id: Option<String>,
        /// Print one JSON object, with the messages beside the way that is shown.
        #[arg(long)]
        json: bool,
    },
    /// Look for words in all that was said.
    Search {
        /// All of them must be there, in any case of letters.
        #[arg(required = true)]
        words: Vec<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Call a conversation by another title.
    Rename { id: String, title: String },
    /// Delete conversations; `undelete` takes it back for 30 days.
    Delete {
        #[arg(required = true)]
        ids: Vec<String>,
        /// Remove them for good; those that were deleted before, too.
        #[arg(long)]
        forever: bool,
    },
    /// Take a deletion back.
    Undelete {
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Write a conversation as Markdown or JSON.
    Export {
        id: String,
        /// A new file, whose ending says the format; without one, standard output.
        file: Option<String>,
        /// In place of what the file's ending says; the default is Markdown.
        #[arg(long, value_name = "FORMAT")]
        format: Option<FormatName>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    Markdown,
    Json,
}
