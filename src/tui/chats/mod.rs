//! The conversation as a tree, and the other conversations that are kept: what the screen knows of both.
//!
//! `update::chats` changes it, `view` here draws it, `desk` performs its effects on threads of its own. The blocks of
//! `conversation` are the way through the tree from its beginning to its head.

mod desk;
mod list;
pub mod view;

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::engine::{AnswerSettings, ChatMessage, LaneId, Parameter, Role};
use crate::store::keeper::Report;
use crate::store::{Made, Message, Piece, Record, Store, Tree, export};

use super::command;
use super::composer::Draft;
use super::conversation::{AnswerHeader, Conversation, Kind, Level, Words};
use super::trace::Took;

pub use desk::Shelf;
pub use list::{ChatList, Mode, Row};

/// Where conversations are kept, and what to begin with.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    pub store: Store,
    /// What is said is written down.
    pub saves: bool,
    /// The conversation to go on with.
    pub resume: Option<String>,
    pub given: Given,
}

/// What the command line says of the answers: it holds, whatever the conversation to go on with says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    pub system: bool,
    pub thinking: bool,
    pub parameters: Vec<Parameter>,
}

/// What an opened conversation brought along.
#[derive(Debug, Clone, PartialEq)]
pub struct Brought {
    /// As it was before, and what of it was set by hand.
    pub own: AnswerSettings,
    pub own_changed: Vec<Parameter>,
    pub theirs: AnswerSettings,
    /// Those that it brought.
    pub parameters: Vec<Parameter>,
}

/// What the screen asks of the disk.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
    /// Append to the open conversation; where there is none, begin one.
    Keep(Record),
    /// What comes next begins a new conversation.
    Close,
    /// Go on with another one; without `writes`, only read it.
    Open {
        id: String,
        writes: bool,
    },
    Rename {
        id: String,
        title: String,
    },
    Delete(String),
    Undelete(String),
    /// Search all conversations; answered by `News::Found`.
    Find(String),
    /// Write a file that is not there yet; answered by `News::Exported`.
    Export {
        file: String,
        text: String,
    },
}

/// What the disk has to say.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    Kept(Report),
    Found {
        words: String,
        rows: Result<Vec<Row>, String>,
    },
    /// The file's whole name.
    Exported(Result<String, String>),
}

/// What the next message does instead of following the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redo {
    /// It stands beside this question.
    Edit(u32),
    /// What is typed is kept in the place of this answer, beside it; nobody is asked.
    Rewrite(u32),
    /// This question gets another answer.
    Again(u32),
    /// This answer goes on.
    Continue(u32),
}

/// What was deleted, and can be had back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    Message(u32),
    Conversation(String),
}

#[derive(Debug)]
pub struct Chats {
    pub tree: Tree,
    /// The name of the conversation's file, once it has one.
    pub id: Option<String>,
    /// There is a place for conversations.
    pub has_store: bool,
    /// What is said is written down.
    pub saves: bool,
    pub given: Given,
    /// The clock on the wall, as the driver read it last.
    pub wall: DateTime<Utc>,
    /// The answer that is being written.
    pub answering: Option<u32>,
    /// The answer that was written last, whose numbers the panels show.
    pub answered: Option<u32>,
    /// The message that the reader chose.
    pub selected: Option<u32>,
    pub redo: Option<Redo>,
    /// To be given back when it is left.
    pub brought: Option<Box<Brought>>,
    /// The last deletion is the last one here.
    pub deleted: Vec<Deleted>,
    /// Another conversation is being read; nothing is said until it is here.
    pub is_opening: bool,
}

impl Default for Chats {
    fn default() -> Self {
        Self {
            tree: Tree::default(),
            id: None,
            has_store: false,
            saves: false,
            given: Given::default(),
            wall: DateTime::UNIX_EPOCH,
            answering: None,
            answered: None,
            selected: None,
            redo: None,
            brought: None,
            deleted: Vec::new(),
            is_opening: false,
        }
    }
}

impl Chats {
    pub fn new(options: &ChatOptions) -> Self {
        Self { has_store: true, saves: options.saves, given: options.given.clone(), ..Self::default() }
    }

    /// The start of a new conversation.
    pub fn begin_anew(&mut self) {
        *self = Self {
            has_store: self.has_store,
            saves: self.saves,
            wall: self.wall,
            deleted: std::mem::take(&mut self.deleted),
            ..Self::default()
        };
        // Messages of the old conversation are none of the new one.
        self.deleted.retain(|deleted| matches!(deleted, Deleted::Conversation(_)));
    }

    /// Which of how many messages in one place this is, where there are several.
    pub fn place(&self, id: u32) -> Option<(usize, usize)> {
        let siblings = self.tree.siblings(id);
        let at = siblings.iter().position(|sibling| *sibling == id)?;
        (siblings.len() > 1).then_some((at + 1, siblings.len()))
    }

    /// What would be sent, and the lane that it names.
    pub fn ask(&self, conversation: &Conversation, typed: &Draft) -> Ask {
        let blocks = conversation.blocks().len();
        let place = |id: u32| conversation.block_of(id).unwrap_or(blocks);
        let (message, lane) = command::message(typed);
        // A question that is not typed again names no lane.
        let (above, question, lane) = match self.redo {
            None => (blocks, Some(message), lane),
            Some(Redo::Edit(id) | Redo::Rewrite(id)) => (place(id), Some(message), lane),
            Some(Redo::Again(id)) => (place(id), Some(typed.clone()), None),
            Some(Redo::Continue(id)) => (place(id) + 1, None, None),
        };
        let mut turns = conversation.messages_above(above);
        let continues = question.is_none();
        turns.extend(question.map(|question| ChatMessage::new(Role::User, question.sent())));
        Ask { turns, continues, lane }
    }
}

/// How an answer ended that a person wrote.
pub const EDITED: &str = "edited";
/// What is said of it.
pub const EDITED_BY_YOU: &str = "edited by you";

/// What is asked of the engine.
pub struct Ask {
    /// To be answered, or where `continues`, to be gone on with.
    pub turns: Vec<ChatMessage>,
    pub continues: bool,
    /// In place of what holds for all messages, `None` within being the router's choice.
    pub lane: Option<Option<LaneId>>,
}

/// Makes the blocks the way through the tree. What both have in common stays as it is.
pub fn show(conversation: &mut Conversation, tree: &Tree) {
    let path = tree.path();
    let mut next = path.iter().peekable();
    let mut kept = conversation.blocks().len();
    for (number, block) in conversation.blocks().iter().enumerate() {
        let Some(message) = block.message else { continue };
        if next.next_if(|next| next.id == message).is_none() {
            kept = number;
            break;
        }
    }
    conversation.truncate(kept);
    for message in next {
        let Some(answer) = &message.answer else {
            let block = conversation.ask(message.shown(), message.text.clone());
            conversation.set_message(block, message.id);
            continue;
        };
        let end = answer.end.as_ref();
        let level = match end.map(|end| end.finish.as_str()) {
            Some("error") => Level::Error,
            Some(EDITED) => Level::Info,
            _ => Level::Warning,
        };
        let header = AnswerHeader {
            model: answer.model.clone(),
            lane: answer.lane().and_then(LaneId::named),
            emulated: answer.is_emulated(),
            ttft: end.and_then(|end| end.ttft),
            tokens_per_second: end.and_then(|end| end.tokens_per_second),
            thinking_tokens: end.map_or(0, |end| end.thinking_tokens),
            ending: export::note(message).map(|note| (level, super::text::sanitize::sanitize(&note))),
            ..AnswerHeader::default()
        };
        let block = conversation.add(Kind::Answer(header), "");
        conversation.set_message(block, message.id);
        show_pieces(conversation, block, message);
    }
}

/// An answer as it came: token by token where their times are known.
fn show_pieces(conversation: &mut Conversation, block: usize, message: &Message) {
    let mut at = None;
    // What follows a token without a time of its own was held back with it.
    let mut follows_token = false;
    let mut tokens = 0;
    for Piece { made, text, thinking } in message.pieces() {
        let token = match made {
            Made::Token { took, thinks, first } => at.map(|lane| (*took, *thinks, *first, lane)),
            Made::Text | Made::GoesOn => None,
            Made::Lane { lane, why, .. } => {
                at = LaneId::named(lane);
                if let Some(why) = why {
                    conversation.add_mark(block, super::text::sanitize::one_line(why));
                }
                None
            }
        };
        match token {
            Some((took, thinks, first, lane)) => {
                tokens = if first { 1 } else { tokens + 1 };
                if let Some(header) = conversation.header_mut(block).filter(|_| thinks) {
                    header.thinking_tokens = header.thinking_tokens.max(tokens);
                    header.thinking_time += if first { Duration::ZERO } else { took };
                }
                conversation.add_token(block, Words { text, thinking, thinks }, Took { time: took, first }, lane);
            }
            None if follows_token => conversation.add_trailing(block, thinking, text),
            None => {
                conversation.think(block, thinking);
                conversation.append(block, text);
            }
        }
        follows_token = token.is_some();
    }
}
