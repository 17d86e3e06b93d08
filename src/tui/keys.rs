//! The one table of keys: what a key does, and the line of help that says so.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

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
    Help,
    /// A list of the commands.
    Commands,
    /// Show what the models thought, or fold it away.
    Thinking,
    NextPanel,
    PreviousPanel,
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
    Undo,
    Redo,
    /// A list of the messages sent before.
    History,
    /// Edit what is typed with the reader's own editor.
    Editor,
}

/// Where a key counts. One that has no binding there keeps the one that it has in `Compose`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The composer has the keys: the chat as it opens.
    Compose,
    /// A list to choose from is open; letters filter it.
    List,
    /// A message of the conversation is selected; letters act on it.
    Message,
}

impl Context {
    /// Letters without a binding are typed.
    fn types(self) -> bool {
        self != Self::Message
    }
}

pub struct Binding {
    pub context: Context,
    pub action: Action,
    pub keys: &'static [Chord],
    /// How the keys are written in the help; empty for a binding that is not listed.
    pub shown: &'static str,
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chord(KeyModifiers, KeyCode);

const fn plain(code: KeyCode) -> Chord {
    Chord(KeyModifiers::NONE, code)
}

const fn ctrl(c: char) -> Chord {
    Chord(KeyModifiers::CONTROL, KeyCode::Char(c))
}

const fn alt(code: KeyCode) -> Chord {
    Chord(KeyModifiers::ALT, code)
}

const fn with_ctrl(code: KeyCode) -> Chord {
    Chord(KeyModifiers::CONTROL, code)
}

const fn with_shift(code: KeyCode) -> Chord {
    Chord(KeyModifiers::SHIFT, code)
}

const fn bind(action: Action, keys: &'static [Chord], shown: &'static str, help: &'static str) -> Binding {
    Binding { context: Context::Compose, action, keys, shown, help }
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
    bind(
        Action::ScrollUp,
        &[with_shift(KeyCode::Up), with_ctrl(KeyCode::Up), alt(KeyCode::Up)],
        "Shift-Up",
        "scroll a line up",
    ),
    bind(
        Action::ScrollDown,
        &[with_shift(KeyCode::Down), with_ctrl(KeyCode::Down), alt(KeyCode::Down)],
        "Shift-Down",
        "scroll a line down",
    ),
    bind(Action::Top, &[with_ctrl(KeyCode::Home)], "Ctrl-Home", "go to the first message"),
    bind(Action::Home, &[plain(KeyCode::Home)], "", ""),
    bind(Action::End, &[plain(KeyCode::End)], "End", "follow the newest text"),
    bind(Action::Follow, &[with_ctrl(KeyCode::End)], "", ""),
    bind(Action::NextPanel, &[plain(KeyCode::Tab)], "Tab", "open the next panel that has no room"),
    bind(Action::PreviousPanel, &[plain(KeyCode::BackTab), with_shift(KeyCode::BackTab)], "", ""),
    bind(Action::Thinking, &[ctrl('t')], "Ctrl-T", "show or fold the thinking"),
    bind(Action::Help, &[plain(KeyCode::F(1))], "F1", "this help"),
    bind(Action::Commands, &[plain(KeyCode::F(2))], "F2", "choose a command"),
    bind(Action::Interrupt, &[ctrl('c')], "Ctrl-C", "cancel or clear; twice quits"),
    bind(Action::DeleteOrQuit, &[ctrl('d')], "Ctrl-D", "quit, when nothing is typed"),
    bind(Action::Suspend, &[ctrl('z')], "Ctrl-Z", "back to the shell until 'fg'"),
    bind(Action::Repaint, &[ctrl('l')], "Ctrl-L", "draw the screen anew"),
    bind(Action::Move(Motion::LineStart), &[ctrl('a')], "Ctrl-A", "start of the line"),
    bind(Action::Move(Motion::LineEnd), &[ctrl('e')], "Ctrl-E", "end of the line"),
    bind(Action::Move(Motion::Left), &[plain(KeyCode::Left), ctrl('b')], "", ""),
    bind(Action::Move(Motion::Right), &[plain(KeyCode::Right), ctrl('f')], "", ""),
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
    bind(Action::Move(Motion::Start), &[alt(KeyCode::Char('<'))], "", ""),
    bind(Action::Move(Motion::End), &[alt(KeyCode::Char('>'))], "", ""),
    bind(Action::Delete(Motion::Left), &[plain(KeyCode::Backspace), with_shift(KeyCode::Backspace), ctrl('h')], "", ""),
    bind(Action::Delete(Motion::Right), &[plain(KeyCode::Delete)], "", ""),
    bind(
        Action::Kill(Motion::WordLeft),
        &[ctrl('w'), alt(KeyCode::Backspace), with_ctrl(KeyCode::Backspace)],
        "Ctrl-W",
        "cut the word before",
    ),
    bind(Action::Kill(Motion::WordRight), &[alt(KeyCode::Char('d'))], "", ""),
    bind(Action::Kill(Motion::LineStart), &[ctrl('u')], "Ctrl-U", "cut to the start of the line"),
    bind(Action::Kill(Motion::LineEnd), &[ctrl('k')], "Ctrl-K", "cut to the end of the line"),
    bind(Action::Undo, &[ctrl('7'), ctrl('_'), ctrl('-'), ctrl('/')], "Ctrl-_", "undo"),
    bind(Action::Redo, &[alt(KeyCode::Char('_')), alt(KeyCode::Char('-'))], "Alt-_", "redo"),
    bind(Action::History, &[ctrl('r')], "Ctrl-R", "search the messages sent before"),
    bind(Action::Editor, &[ctrl('g')], "Ctrl-G", "edit in VISUAL or EDITOR"),
    bind(Action::Yank, &[ctrl('y')], "Ctrl-Y", "put back what was cut"),
];

/// What a key means: something to do, or a character to type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Do(Action),
    Type(char),
    Nothing,
}

pub fn meaning(key: KeyEvent, context: Context) -> Meaning {
    let modifiers = key.modifiers & (KeyModifiers::SHIFT | KeyModifiers::CONTROL | KeyModifiers::ALT);
    let chord = match key.code {
        // Terminals differ in whether Shift is told apart from the character it makes.
        KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => {
            Chord(modifiers - KeyModifiers::SHIFT, KeyCode::Char(c.to_ascii_lowercase()))
        }
        KeyCode::Char(c) => Chord(modifiers - KeyModifiers::SHIFT, KeyCode::Char(c)),
        code => Chord(modifiers, code),
    };
    let bound = |context| BINDINGS.iter().find(|b: &&Binding| b.context == context && b.keys.contains(&chord));
    let is_letter = matches!(chord, Chord(modifiers, KeyCode::Char(_)) if modifiers.is_empty());
    if let Some(binding) = bound(context).or_else(|| bound(Context::Compose)) {
        return Meaning::Do(binding.action);
    }
    if is_letter && !context.types() {
        return Meaning::Nothing;
    }
    match chord {
        // AltGr arrives as Ctrl-Alt on Windows.
        Chord(modifiers, KeyCode::Char(c))
            if modifiers.is_empty() || modifiers == KeyModifiers::CONTROL | KeyModifiers::ALT =>
        {
            Meaning::Type(c)
        }
        _ => Meaning::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_bound_twice() {
        let mut seen: Vec<(Context, Chord)> = Vec::new();
        for (context, chord) in BINDINGS.iter().flat_map(|b| b.keys.iter().map(|chord| (b.context, *chord))) {
            assert!(!seen.contains(&(context, chord)), "{context:?} {chord:?}");
            seen.push((context, chord));
        }
    }

    #[test]
    fn characters_are_typed_whatever_the_terminal_says_of_shift() {
        let key = |code, modifiers| meaning(KeyEvent::new(code, modifiers), Context::Compose);
        assert_eq!(key(KeyCode::Char('A'), KeyModifiers::SHIFT), Meaning::Type('A'));
        assert_eq!(key(KeyCode::Char('@'), KeyModifiers::CONTROL | KeyModifiers::ALT), Meaning::Type('@'));
        assert_eq!(key(KeyCode::Char('C'), KeyModifiers::CONTROL), Meaning::Do(Action::Interrupt));
        assert_eq!(key(KeyCode::Enter, KeyModifiers::ALT), Meaning::Do(Action::NewLine));
        assert_eq!(key(KeyCode::Char('x'), KeyModifiers::ALT), Meaning::Nothing);
        assert_eq!(key(KeyCode::F(9), KeyModifiers::NONE), Meaning::Nothing);
    }
}
