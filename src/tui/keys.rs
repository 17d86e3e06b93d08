//! The one table of keys: what a key does where, and the line of help that says so.
//!
//! The settings may give an action other keys (`keymap`); they name it by [`Action::name`].

use crossterm::event::KeyCode;

use super::chord::{Chord, alt, ctrl, plain, with_ctrl, with_shift};
use super::composer::Motion;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Send,
    NewLine,
    /// Close what is open, else cancel the answer.
    Escape,
    Interrupt,
    /// Delete forward; on an empty composer, quit.
    DeleteOrQuit,
    Suspend,
    /// The list of kept conversations.
    OpenChats,
    RenameChat,
    DeleteChat,
    /// Select the message above the selected one, or the last one.
    SelectPrevious,
    SelectNext,
    MessageUp,
    MessageDown,
    CopyMessage,
    EditMessage,
    /// Another answer to the same question.
    AnswerAgain,
    /// Go on with an answer that was cut.
    GoOn,
    /// The next message follows this one.
    Branch,
    DeleteMessage,
    UndoDelete,
    /// Another message in the same place.
    PreviousVersion,
    NextVersion,
    LeaveMessage,
    Help,
    /// A list of the commands.
    Commands,
    /// Show what the models thought, or fold it away.
    Thinking,
    /// Show answers as they were written, or as what their markdown means.
    Source,
    NextPanel,
    PreviousPanel,
    /// The open panel in the place of the conversation, and back.
    ZoomPanel,
    /// The panels away from the conversation, and back.
    HidePanels,
    /// Look at the tokens of an answer one by one, and back.
    Tokens,
    Token(Step),
    Repaint,
    PageUp,
    PageDown,
    ScrollUp,
    ScrollDown,
    Top,
    /// The newest text, and stay with it.
    Follow,
    /// Start of the line, or the top of the conversation while nothing is typed.
    Home,
    /// End of the line, or the newest text while the reader is scrolled up or nothing is typed.
    End,
    Up,
    Down,
    Move(Motion),
    Delete(Motion),
    Kill(Motion),
    Yank,
    /// Stop playing the recording, or go on.
    Pause,
    Undo,
    Redo,
    /// A list of the messages sent before.
    History,
    /// Edit what is typed with the reader's own editor.
    Editor,
    /// Take the chosen row.
    Choose,
    /// Put the chosen row into what is typed, and do no more.
    Complete,
}

impl Action {
    /// What `[keys]` calls it: the variant's name in kebab case, as `kill-line-end`.
    pub fn name(self) -> String {
        kebab(&format!("{self:?}"))
    }
}

/// From a token to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Back,
    On,
    FarBack,
    FarOn,
    First,
    Last,
    StallBefore,
    StallAfter,
    AnswerBefore,
    AnswerAfter,
}

/// Where a key counts. One that has no binding there keeps the one that it has in `Compose`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The composer has the keys: the chat as it opens.
    Compose,
    /// A list to choose from is open; letters filter it.
    List,
    /// The list of conversations is open; letters search them.
    Chats,
    /// A message of the conversation is selected; letters act on it.
    Message,
    /// A token of an answer is looked at; letters act on it.
    Token,
    /// A race has the screen.
    Race,
    /// A recording is played, and nothing can be asked.
    Replay,
}

impl Context {
    /// Letters without a binding are typed.
    pub fn types(self) -> bool {
        !matches!(self, Self::Message | Self::Token | Self::Race | Self::Replay)
    }

    /// What `[keys]` calls it.
    pub fn name(self) -> String {
        kebab(&format!("{self:?}"))
    }

    /// The heading of its keys in the help.
    pub fn title(self) -> &'static str {
        match self {
            Self::Compose => "keys",
            Self::List => "keys in a list and the palette",
            Self::Chats => "keys in the list of conversations",
            Self::Message => "keys on a message",
            Self::Token => "keys on a token",
            Self::Race => "keys in a race",
            Self::Replay => "keys in a replay",
        }
    }
}

/// `Kill(LineEnd)` as `kill-line-end`.
fn kebab(variant: &str) -> String {
    let mut name = String::new();
    for c in variant.chars().filter(char::is_ascii_alphanumeric) {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

pub struct Binding {
    pub context: Context,
    pub action: Action,
    pub keys: &'static [Chord],
    /// Those of the keys that the help names, while they are in force; empty for a binding that is not listed.
    pub shown: &'static str,
    pub help: &'static str,
}

const fn bind(action: Action, keys: &'static [Chord], shown: &'static str, help: &'static str) -> Binding {
    Binding { context: Context::Compose, action, keys, shown, help }
}

const fn letter(c: char) -> Chord {
    plain(KeyCode::Char(c))
}

const fn in_list(action: Action, keys: &'static [Chord], shown: &'static str, help: &'static str) -> Binding {
    Binding { context: Context::List, action, keys, shown, help }
}

const fn in_chats(action: Action, keys: &'static [Chord], shown: &'static str, help: &'static str) -> Binding {
    Binding { context: Context::Chats, action, keys, shown, help }
}

const fn on_message(action: Action, keys: &'static [Chord], shown: &'static str, help: &'static str) -> Binding {
    Binding { context: Context::Message, action, keys, shown, help }
}

const fn token(step: Step, keys: &'static [Chord], shown: &'static str, help: &'static str) -> Binding {
    Binding { context: Context::Token, action: Action::Token(step), keys, shown, help }
}

pub const BINDINGS: &[Binding] = &[
    bind(Action::Send, &[plain(KeyCode::Enter)], "Enter", "send the message"),
    bind(
        Action::NewLine,
        &[alt(KeyCode::Enter), ctrl('j'), with_shift(KeyCode::Enter)],
        "Alt-Enter, Ctrl-J",
        "new line",
    ),
    bind(Action::Escape, &[plain(KeyCode::Esc)], "Esc", "cancel the answer, close a panel"),
    bind(Action::Up, &[plain(KeyCode::Up), ctrl('p')], "Up", "line above, then earlier messages"),
    bind(Action::Down, &[plain(KeyCode::Down), ctrl('n')], "Down", "line below, then later messages"),
    bind(Action::PageUp, &[plain(KeyCode::PageUp), alt(KeyCode::Char('v'))], "PgUp", "scroll a page up"),
    bind(Action::PageDown, &[plain(KeyCode::PageDown), ctrl('v')], "PgDn", "scroll a page down"),
    bind(Action::ScrollUp, &[with_shift(KeyCode::Up), with_ctrl(KeyCode::Up)], "Shift-Up", "scroll a line up"),
    bind(
        Action::ScrollDown,
        &[with_shift(KeyCode::Down), with_ctrl(KeyCode::Down)],
        "Shift-Down",
        "scroll a line down",
    ),
    bind(Action::Top, &[with_ctrl(KeyCode::Home)], "Ctrl-Home", "go to the first message"),
    bind(Action::Home, &[plain(KeyCode::Home)], "", "start of the line, or first message"),
    bind(Action::End, &[plain(KeyCode::End)], "End", "follow the newest text"),
    bind(Action::Follow, &[with_ctrl(KeyCode::End)], "", "follow the newest text"),
    bind(Action::NextPanel, &[plain(KeyCode::Tab)], "Tab", "open the next panel"),
    bind(Action::PreviousPanel, &[plain(KeyCode::BackTab), with_shift(KeyCode::BackTab)], "", "open the panel before"),
    bind(Action::ZoomPanel, &[plain(KeyCode::F(3))], "F3", "the open panel in full, and back"),
    bind(Action::Tokens, &[plain(KeyCode::F(4))], "F4", "look at an answer token by token"),
    bind(Action::HidePanels, &[plain(KeyCode::F(6))], "F6", "hide the panels, and show them"),
    bind(Action::SelectPrevious, &[alt(KeyCode::Up)], "Alt-Up", "select a message"),
    bind(Action::SelectNext, &[alt(KeyCode::Down)], "", "select the message below"),
    bind(Action::OpenChats, &[ctrl('o')], "Ctrl-O", "open another conversation"),
    bind(Action::Thinking, &[ctrl('t')], "Ctrl-T", "show or fold the thinking"),
    bind(Action::Source, &[plain(KeyCode::F(5))], "F5", "show answers as written"),
    bind(Action::Help, &[plain(KeyCode::F(1))], "F1", "this help"),
    bind(Action::Commands, &[plain(KeyCode::F(2))], "F2", "choose a command"),
    bind(Action::Interrupt, &[ctrl('c')], "Ctrl-C", "cancel or clear; twice quits"),
    bind(Action::DeleteOrQuit, &[ctrl('d')], "Ctrl-D", "quit, when nothing is typed"),
    bind(Action::Suspend, &[ctrl('z')], "Ctrl-Z", "back to the shell until 'fg'"),
    bind(Action::Repaint, &[ctrl('l')], "Ctrl-L", "draw the screen anew"),
    bind(Action::Move(Motion::LineStart), &[ctrl('a')], "Ctrl-A", "start of the line"),
    bind(Action::Move(Motion::LineEnd), &[ctrl('e')], "Ctrl-E", "end of the line"),
    bind(Action::Move(Motion::Left), &[plain(KeyCode::Left), ctrl('b')], "", "a character back"),
    bind(Action::Move(Motion::Right), &[plain(KeyCode::Right), ctrl('f')], "", "a character on"),
    bind(
        Action::Move(Motion::WordLeft),
        &[alt(KeyCode::Char('b')), alt(KeyCode::Left), with_ctrl(KeyCode::Left)],
        "Alt-B",
        "a word back",
    ),
    bind(
        Action::Move(Motion::WordRight),
        &[alt(KeyCode::Char('f')), alt(KeyCode::Right), with_ctrl(KeyCode::Right)],
        "Alt-F",
        "a word on",
    ),
    bind(Action::Move(Motion::Start), &[alt(KeyCode::Char('<'))], "", "start of the text"),
    bind(Action::Move(Motion::End), &[alt(KeyCode::Char('>'))], "", "end of the text"),
    bind(
        Action::Delete(Motion::Left),
        &[plain(KeyCode::Backspace), with_shift(KeyCode::Backspace), ctrl('h')],
        "",
        "delete the character before",
    ),
    bind(Action::Delete(Motion::Right), &[plain(KeyCode::Delete)], "", "delete the character here"),
    bind(
        Action::Kill(Motion::WordLeft),
        &[ctrl('w'), alt(KeyCode::Backspace), with_ctrl(KeyCode::Backspace)],
        "Ctrl-W",
        "cut the word before",
    ),
    bind(Action::Kill(Motion::WordRight), &[alt(KeyCode::Char('d'))], "", "cut the word after"),
    bind(Action::Kill(Motion::LineStart), &[ctrl('u')], "Ctrl-U", "cut to the start of the line"),
    bind(Action::Kill(Motion::LineEnd), &[ctrl('k')], "Ctrl-K", "cut to the end of the line"),
    bind(Action::Undo, &[ctrl('_')], "Ctrl-_", "undo"),
    bind(Action::Redo, &[alt(KeyCode::Char('_')), alt(KeyCode::Char('-'))], "Alt-_", "redo"),
    bind(Action::History, &[ctrl('r')], "Ctrl-R", "search the messages sent before"),
    bind(Action::Editor, &[ctrl('g')], "Ctrl-G", "edit in VISUAL or EDITOR"),
    bind(Action::Yank, &[ctrl('y')], "Ctrl-Y", "put back what was cut"),
    in_list(Action::Choose, &[plain(KeyCode::Enter)], "Enter", "take the chosen row"),
    in_list(Action::Complete, &[plain(KeyCode::Tab)], "Tab", "complete what is typed"),
    in_chats(Action::RenameChat, &[ctrl('r')], "Ctrl-R", "rename the conversation"),
    in_chats(Action::DeleteChat, &[ctrl('d'), plain(KeyCode::Delete)], "Ctrl-D", "delete it, or have it back"),
    on_message(Action::MessageUp, &[plain(KeyCode::Up), letter('k')], "Up, k", "the message above"),
    on_message(Action::MessageDown, &[plain(KeyCode::Down), letter('j')], "Down, j", "the message below"),
    on_message(Action::CopyMessage, &[letter('c'), letter('y')], "c", "copy it"),
    on_message(Action::EditMessage, &[letter('e')], "e", "edit it, as another version"),
    on_message(Action::AnswerAgain, &[letter('r')], "r", "answer again"),
    on_message(Action::GoOn, &[letter('m')], "m", "go on with an answer that was cut"),
    on_message(Action::Branch, &[letter('b')], "b", "go on from here"),
    on_message(Action::DeleteMessage, &[letter('d'), plain(KeyCode::Delete)], "d", "delete it and what follows"),
    on_message(Action::UndoDelete, &[letter('u')], "u", "take the last deletion back"),
    on_message(Action::PreviousVersion, &[plain(KeyCode::Left), letter('h')], "Left, h", "the version before"),
    on_message(Action::NextVersion, &[plain(KeyCode::Right), letter('l')], "Right, l", "the next version"),
    on_message(Action::LeaveMessage, &[plain(KeyCode::Enter), letter('q')], "q", "back to typing"),
    token(Step::Back, &[plain(KeyCode::Left), letter('h')], "Left", "the token before"),
    token(Step::On, &[plain(KeyCode::Right), letter('l')], "Right", "the token after"),
    token(Step::FarBack, &[plain(KeyCode::PageUp), with_ctrl(KeyCode::Left)], "PgUp", "ten tokens back"),
    token(Step::FarOn, &[plain(KeyCode::PageDown), with_ctrl(KeyCode::Right)], "PgDn", "ten tokens on"),
    token(Step::First, &[plain(KeyCode::Home), letter('0')], "Home", "the answer's first token"),
    token(Step::Last, &[plain(KeyCode::End), letter('$')], "End", "its last token"),
    token(Step::StallAfter, &[letter('s')], "s", "the next stall"),
    token(Step::StallBefore, &[letter('S')], "S", "the stall before"),
    token(Step::AnswerBefore, &[plain(KeyCode::Up), letter('k')], "Up", "the answer before"),
    token(Step::AnswerAfter, &[plain(KeyCode::Down), letter('j')], "Down", "the answer after"),
    Binding {
        context: Context::Replay,
        action: Action::Pause,
        keys: &[plain(KeyCode::Char(' '))],
        shown: "Space",
        help: "stop, or go on",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_named_after_their_variants() {
        for (action, name) in [
            (Action::Send, "send"),
            (Action::DeleteOrQuit, "delete-or-quit"),
            (Action::Kill(Motion::LineEnd), "kill-line-end"),
        ] {
            assert_eq!(action.name(), name);
        }
        assert_eq!(Context::Message.name(), "message");
    }
}
