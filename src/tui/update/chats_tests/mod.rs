//! What is done to conversations: the desk and the file that the tests share.

mod kept;
mod list;
mod messages;
mod own;
mod screens;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pretty_assertions::assert_eq;

use super::super::chats::{Given, News, Redo, Row, Wish};
use super::super::conversation::{Block, Kind};
use super::super::event::{Effect, Event, Exit};
use super::super::fixtures::{
    Desk, decision, lane_change, short_decision, snapshot, snapshot_with, snapshot_with_server,
};
use super::super::keys::Context;
use super::super::skin::test_skin;
use super::super::state::Overlay;
use super::super::title;
use crate::engine::{
    AnswerSettings, ChatRequest, EngineSnapshot, FinishReason, GenerationEvent, LaneId, LaneState, Parameter, Role,
};
use crate::store::keeper::{Opened, Report};
use crate::store::{Found, LeftOut, Record, Stored, Tree};

/// What would be in the file: the records that were kept, one after the other.
#[derive(Default)]
struct File {
    records: Vec<Record>,
}

impl File {
    fn take(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Chats(Wish::Keep(record)) => self.records.push(record.clone()),
                Effect::Chats(Wish::Close) => self.records.clear(),
                _ => {}
            }
        }
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        self.records.iter().for_each(|record| tree.apply(record));
        tree
    }
}

/// A chat that is kept.
struct Kept {
    desk: Desk,
    file: File,
}

impl Kept {
    fn new() -> Self {
        let mut desk = Desk::ready();
        (desk.state.chats.has_store, desk.state.chats.saves) = (true, true);
        Self { desk, file: File::default() }
    }

    fn done(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        self.file.take(&effects);
        assert_eq!(self.file.tree(), self.desk.state.chats.tree, "the file is behind");
        effects
    }

    fn send(&mut self, text: &str) -> Vec<Effect> {
        for c in text.chars() {
            let effects = self.desk.key(KeyCode::Char(c));
            self.done(effects);
        }
        self.key(KeyCode::Enter)
    }

    fn key(&mut self, code: KeyCode) -> Vec<Effect> {
        let effects = self.desk.key(code);
        self.done(effects)
    }

    fn press(&mut self, c: char) -> Vec<Effect> {
        self.key(KeyCode::Char(c))
    }

    fn alt_up(&mut self) {
        let effects = self.desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
        self.done(effects);
    }

    fn answer(&mut self, text: &str, reason: FinishReason) -> Vec<Effect> {
        let mut effects = Vec::new();
        for piece in text.split_inclusive(' ') {
            let token = self.desk.token(piece);
            effects = self.done(token);
        }
        let finished = self.desk.finish(reason);
        effects.extend(self.done(finished));
        effects
    }

    fn ask(&mut self, question: &str, answer: &str) {
        self.send(question);
        self.answer(answer, FinishReason::Stop);
    }

    fn news(&mut self, news: News) -> Vec<Effect> {
        let effects = self.desk.event(Event::Chats(news));
        self.done(effects)
    }

    /// The conversation on the screen, without ortalk's own lines.
    fn shown(&self) -> Vec<&str> {
        let blocks = self.desk.state.conversation.blocks().iter();
        blocks.filter(|block| !matches!(block.kind, Kind::Notice(_))).map(Block::shown).collect()
    }

    fn hint(&self) -> &str {
        self.desk.state.hint.as_deref().unwrap_or_default()
    }
}

fn submitted(effects: &[Effect]) -> Option<&ChatRequest> {
    effects.iter().find_map(|effect| match effect {
        Effect::Submit(request) => Some(request),
        _ => None,
    })
}

fn said(effects: &[Effect]) -> Vec<(Role, &str)> {
    let request = submitted(effects).expect("nothing was submitted");
    request.messages.iter().map(|message| (message.role, message.content.as_str())).collect()
}

const USER: Role = Role::User;

const ASSISTANT: Role = Role::Assistant;

fn opened(id: &str, tree: Tree) -> Opened {
    Opened { stored: Stored { id: id.into(), tree, left_out: LeftOut::default() }, is_copy: false }
}

/// The last line of ortalk's own.
fn notice(kept: &Kept) -> &str {
    let mut blocks = kept.desk.state.conversation.blocks().iter().rev();
    blocks.find(|block| matches!(block.kind, Kind::Notice(_))).map_or("", Block::shown)
}
