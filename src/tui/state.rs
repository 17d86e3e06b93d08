//! Everything the screen knows. Plain data with questions that need no I/O; `update` changes it, `view` draws it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bill::Bill;
use crate::engine::{AnswerSettings, ChatRequest, EngineSnapshot, LaneState, LaneStatus, Parameter, RoutingDecision};
use crate::ledger::{Prices, Total};
use crate::telemetry::device::DeviceSample;

use super::answer::Answer;
use super::chats::{Ask, ChatList, Chats};
use super::clipboard::Connection;
use super::completion::Completion;
use super::composer::{Composer, Draft};
use super::composer_view;
use super::consent::{Consent, Gate};
use super::conversation::{Block, Conversation};
use super::frames::Pace;
use super::held::Held;
use super::keymap::Keymap;
use super::keys::Context;
use super::layout::{Layout, Wants};
use super::looks::Looks;
use super::page::Page;
use super::palette::Depth;
use super::panels::{self, Panel, Shown};
use super::picker::Picker;
use super::race::RaceScreen;
use super::replay::Replay;
use super::standing::Standing;
use super::text::sanitize::one_line;
use super::writing::Writing;

/// Ctrl-C quits when it is pressed again within this time.
pub const QUIT_WINDOW: Duration = Duration::from_secs(2);
/// The router is asked when nothing was typed for this long.
pub const PREVIEW_DELAY: Duration = Duration::from_millis(150);
/// Between two looks at lanes that are loading.
pub const REFRESH_PERIOD: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, PartialEq)]
pub enum EngineState {
    Loading { since: Instant },
    Ready(EngineSnapshot),
    Failed(String),
}

/// What covers the conversation.
#[derive(Debug)]
pub enum Overlay {
    Page(Page),
    Panel(Panel),
    List(Picker),
    /// Over the whole screen.
    Race,
    Chats(ChatList),
}

impl Overlay {
    pub fn panel(&self) -> Option<Panel> {
        match self {
            Self::Panel(panel) => Some(*panel),
            Self::Page(_) | Self::List(_) | Self::Chats(_) | Self::Race => None,
        }
    }
}

#[derive(Debug, Default)]
pub struct Preview {
    /// When to ask.
    pub due: Option<Instant>,
    /// The revision that was asked about.
    pub asked: Option<u64>,
    pub shown: Option<Result<RoutingDecision, String>>,
}

/// The models that could answer in place of the one that does.
#[derive(Debug, Default)]
pub struct ModelsState {
    /// Whether others can be loaded at all.
    pub are_there: bool,
    /// The reader waits for the list.
    pub asked: bool,
    /// The name of the one that answers, where it is known.
    pub open: Option<String>,
    /// The name of the one that is being loaded, and since when it is.
    pub opening: Option<String>,
    pub since: Option<Instant>,
    /// What of it takes its time.
    pub stage: Option<String>,
}

impl ModelsState {
    /// `other: building for the CPU 42 % · 3 s`, while one is being loaded.
    pub fn progress(&self, dot: &str, now: Instant) -> Option<String> {
        let name = self.opening.as_ref()?;
        let stage = self.stage.clone().unwrap_or_else(|| format!("{} is being loaded", one_line(name)));
        let seconds = self.since.map_or(0, |since| now.saturating_duration_since(since).as_secs());
        Some(format!("{stage} {dot} {seconds} s"))
    }
}

#[derive(Debug)]
pub struct State {
    pub engine: EngineState,
    pub settings: AnswerSettings,
    /// What they were at first, or what the model suggests.
    pub defaults: AnswerSettings,
    /// What `/set` has changed since.
    pub changed: Vec<Parameter>,
    pub log_file: PathBuf,
    /// The host of the server that the whole chat is over.
    pub server: Option<String>,
    pub columns: u16,
    pub rows: u16,
    pub conversation: Conversation,
    pub chats: Chats,
    pub composer: Composer,
    pub writing: Writing,
    /// Messages that wait for the engine or for the running answer.
    pub queue: Vec<Draft>,
    pub gate: Gate,
    pub consent: Consent,
    /// The running answer, or the last one.
    pub answer: Option<Answer>,
    pub device: Option<DeviceSample>,
    /// What the last answer took; none while one is running.
    pub bill: Option<Box<Bill>>,
    /// What the conversation took.
    pub spent: Total,
    /// Those in force.
    pub prices: Option<Prices>,
    pub preview: Preview,
    pub standing: Standing,
    /// When to look at the engine again.
    pub refresh: Option<Instant>,
    pub overlay: Option<Overlay>,
    pub panels: Shown,
    /// The race on the screen, and how many there were.
    pub race: Option<RaceScreen>,
    pub races: u64,
    /// The recording that is played in place of an engine.
    pub replay: Option<Replay>,
    pub completion: Completion,
    pub models: ModelsState,
    /// Those in force.
    pub keys: Keymap,
    pub looks: Looks,
    pub pace: Pace,
    pub held: Held,
    /// The program has the mouse.
    pub mouse: bool,
    /// Where the reader sits.
    pub connection: Connection,
    /// A short message in the footer, gone with the next key.
    pub hint: Option<String>,
    /// When Ctrl-C was pressed.
    pub quit_armed: Option<Instant>,
    /// When it was changed last: what durations on the screen are counted to.
    pub now: Instant,
    /// Something on the screen is older than the state.
    pub dirty: bool,
}

impl State {
    pub fn new(settings: AnswerSettings, log_file: PathBuf, now: Instant) -> Self {
        let consent = Consent { always: settings.allow_remote, declined: false };
        Self {
            engine: EngineState::Loading { since: now },
            defaults: settings.clone(),
            changed: Vec::new(),
            settings,
            log_file,
            server: None,
            columns: 80,
            rows: 24,
            conversation: Conversation::default(),
            chats: Chats::default(),
            composer: Composer::default(),
            writing: Writing::default(),
            queue: Vec::new(),
            gate: Gate::Open,
            consent,
            answer: None,
            device: None,
            bill: None,
            spent: Total::default(),
            prices: None,
            preview: Preview::default(),
            standing: Standing::default(),
            refresh: None,
            overlay: None,
            panels: Shown::default(),
            race: None,
            races: 0,
            replay: None,
            completion: Completion::default(),
            models: ModelsState::default(),
            keys: Keymap::default(),
            looks: Looks::new(Depth::Full),
            pace: Pace::Full,
            held: Held::default(),
            mouse: true,
            connection: Connection::default(),
            hint: None,
            quit_armed: None,
            now,
            dirty: true,
        }
    }

    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        self.conversation.move_in_steps(pace == Pace::Low);
    }

    pub fn snapshot(&self) -> Option<&EngineSnapshot> {
        match &self.engine {
            EngineState::Ready(snapshot) => Some(snapshot),
            EngineState::Loading { .. } | EngineState::Failed(_) => None,
        }
    }

    /// An answer is on its way.
    pub fn busy(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.over)
    }

    /// The help or the log, which cover panels and conversation.
    pub fn page(&self) -> Option<&Page> {
        match &self.overlay {
            Some(Overlay::Page(page)) => Some(page),
            _ => None,
        }
    }

    /// Whose keys they are.
    pub fn context(&self) -> Context {
        match self.overlay {
            Some(Overlay::List(_) | Overlay::Page(_)) => Context::List,
            Some(Overlay::Chats(_)) => Context::Chats,
            Some(Overlay::Panel(_)) | None if self.completion.is_open() || self.writing.offers() => Context::List,
            Some(Overlay::Panel(_)) | None if self.token().is_some() => Context::Token,
            None if self.chats.selected.is_some() => Context::Message,
            _ if self.replay.is_some() => Context::Replay,
            Some(Overlay::Race) => Context::Race,
            Some(Overlay::Panel(_)) | None => Context::Compose,
        }
    }

    /// The lane of the running or last answer; before the first, the one that was asked for or that the router would take.
    /// Never one that is absent or broke, whoever asked for it.
    pub fn active_lane(&self) -> Option<&LaneStatus> {
        let lanes = &self.snapshot()?.lanes;
        let previewed = || self.preview.shown.as_ref()?.as_ref().ok().map(|decision| decision.lane);
        let id = self.answer.as_ref().and_then(|answer| answer.lane);
        // That of an earlier session may not be there in this one.
        let is_here = |id: &_| lanes.iter().any(|lane| lane.id == *id && is_there(&lane.state));
        let is_kept = self.answer.as_ref().is_some_and(Answer::is_kept);
        let id = id.filter(|id| !is_kept || is_here(id)).or_else(previewed).or(self.settings.lane);
        match id {
            // One that is loading is waited for, once it was chosen.
            Some(id) => lanes.iter().find(|lane| lane.id == id && is_there(&lane.state)),
            // What is emulated is never chosen by itself.
            None => lanes.iter().filter(|lane| lane.state == LaneState::Ready).min_by_key(|lane| lane.emulated),
        }
    }

    /// The running or last answer, if the model that answers now gave it.
    pub fn own_answer(&self) -> Option<&Answer> {
        let model = self.snapshot().map(|snapshot| &snapshot.model);
        let kept = self.chats.answered.and_then(|id| self.chats.tree.message(id)?.answer.as_ref());
        let is_own = |answer: &&Answer| !answer.is_kept() || kept.map(|kept| &kept.model) == model;
        self.answer.as_ref().filter(is_own)
    }

    /// Nobody has said how long the context of the lane that answers is.
    pub fn assumes_context(&self) -> bool {
        let server = self.active_lane().and_then(|lane| lane.remote.as_ref());
        server.is_some_and(|server| server.context_is_assumed)
    }

    pub fn open_panel(&self) -> Option<Panel> {
        self.overlay.as_ref().and_then(Overlay::panel)
    }

    /// The open panel stands in the place of the conversation.
    pub fn is_zoomed(&self) -> bool {
        self.panels.zoomed && self.open_panel().is_some()
    }

    /// The decision that panels are about: that on what is typed, where the router was asked and no answer runs; else that
    /// of the running or last answer, which comes with it.
    pub fn decision(&self) -> Option<(&RoutingDecision, Option<&Answer>)> {
        match &self.preview.shown {
            Some(Ok(decision)) if !self.busy() => Some((decision, None)),
            _ => self.answer.as_ref().and_then(|answer| Some((answer.decision.as_ref()?, Some(answer)))),
        }
    }

    /// The block and the number of the token that the reader looks at.
    pub fn token(&self) -> Option<(&Block, usize)> {
        let cursor = self.panels.cursor?;
        let block = self.conversation.blocks().get(cursor.block)?;
        let last = block.trace().tokens().len().checked_sub(1)?;
        Some((block, cursor.token.min(last)))
    }

    pub fn composer_columns(&self) -> usize {
        Layout::composer_columns(self.columns)
    }

    pub fn layout(&mut self) -> Layout {
        let wants = Wants {
            typed: self.composer.lines(self.composer_columns()).len(),
            queued: composer_view::queue_rows(self),
            said: composer_view::said_rows(self),
            has_panels: !self.panels.hidden,
        };
        let mut layout = Layout::new(self.columns, self.rows, wants);
        if self.page().is_none() {
            let rows = layout.conversation.height;
            let offered = self.writing.offer.as_ref().map_or(0, |offer| offer.rows(rows));
            layout.make_room(self.completion.rows(rows).max(offered));
        }
        layout
    }

    /// What the conversation is called.
    pub fn title(&self) -> Option<String> {
        self.chats.tree.title().map(|title| one_line(&title)).or_else(|| self.conversation.title())
    }

    /// Brings the wrapped lines up to date with the text and the size.
    pub fn lay_out(&mut self) -> Layout {
        let layout = self.layout();
        let rows = panels::view::conversation_rows(self, &layout);
        self.conversation.lay_out(layout.text().width.into(), rows.into());
        layout
    }

    /// What would be sent to answer what was typed.
    pub fn request(&self, typed: &Draft) -> ChatRequest {
        let Ask { turns, continues, lane } = self.chats.ask(&self.conversation, typed);
        let request = self.settings.request(turns);
        ChatRequest { lane: lane.unwrap_or(request.lane), continue_last: continues, ..request }
    }

    /// When `update` wants a `Tick`, if nothing else happens before.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let second_model = self.models.since.filter(|_| self.models.opening.is_some());
        let since = match self.engine {
            EngineState::Loading { since } => Some(since),
            EngineState::Ready(_) | EngineState::Failed(_) => second_model,
        };
        let loading = match since {
            Some(since) => {
                let seconds = now.saturating_duration_since(since).as_secs() + 1;
                Some(since + Duration::from_secs(seconds))
            }
            None => None,
        };
        let quit = self.quit_armed.map(|at| at + QUIT_WINDOW);
        [loading, quit, self.preview.due, self.refresh, self.held.due()].into_iter().flatten().min()
    }
}

/// Ready, or about to be.
fn is_there(state: &LaneState) -> bool {
    matches!(state, LaneState::Ready | LaneState::Loading { .. })
}
