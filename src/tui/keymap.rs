//! The keys in force: the table, with what the settings say in place of its keys.

use crossterm::event::KeyEvent;

use super::chord::{Chord, ChordError};
use super::keys::{Action, BINDINGS, Binding, Context};
use crate::config::{Chords, KeySetting, KeySettings};

/// What a key means: something to do, or a character to type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Do(Action),
    Type(char),
    Nothing,
}

/// A row of the table as it is in force.
#[derive(Debug, Clone)]
pub struct Bound {
    pub context: Context,
    pub action: Action,
    chords: Vec<Chord>,
    /// The keys that the help names first; empty for a row that stands among the further keys.
    pub shown: String,
    /// What the keys do.
    pub help: String,
}

impl Bound {
    /// All of its keys.
    pub fn all(&self) -> String {
        joined(self.chords.iter())
    }

    /// Those that `shown` leaves out.
    pub fn others(&self) -> impl Iterator<Item = String> {
        let named = |chord: &String| self.shown.split(", ").any(|shown| shown == chord);
        self.chords.iter().map(ToString::to_string).filter(move |chord| !named(chord))
    }
}

fn joined<'a>(chords: impl Iterator<Item = &'a Chord>) -> String {
    chords.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Keys of one action beside each other in the help, in columns.
const LONGEST_SHOWN: usize = 18;

#[derive(Debug, Clone)]
pub struct Keymap {
    rows: Vec<Bound>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    #[error("[keys] in the settings names '{name}', which is no action; {remedy}")]
    UnknownAction { name: String, remedy: String },
    #[error("[keys.{context}] in the settings names no context of keys; there are {known}")]
    UnknownContext { context: String, known: String },
    #[error("[keys] in the settings: the keys of '{action}' are not right: {error}")]
    Chord { action: String, error: ChordError },
    #[error("[keys] in the settings gives '{action}' the key '{chord}', which types a character; add ctrl- or alt-")]
    Types { action: String, chord: String },
    #[error("[keys] in the settings: '{chord}' means both '{first}' and '{second}'; give one of them other keys")]
    Conflict { chord: Chord, first: String, second: String },
    #[error("[keys] in the settings leaves 'send' without a key; nothing could be sent")]
    NoSend,
}

impl Default for Keymap {
    fn default() -> Self {
        Self { rows: BINDINGS.iter().map(bound).collect() }
    }
}

fn bound(binding: &Binding) -> Bound {
    let mut chords: Vec<Chord> = binding.keys.iter().map(|chord| chord.as_sent()).collect();
    chords.dedup();
    Bound {
        context: binding.context,
        action: binding.action,
        chords,
        shown: binding.shown.to_owned(),
        help: match binding.help {
            "" => binding.action.name().replace('-', " "),
            help => help.to_owned(),
        },
    }
}

impl Keymap {
    pub fn new(settings: &KeySettings) -> Result<Self, KeysError> {
        let mut keymap = Self::default();
        for (name, setting) in &settings.0 {
            match setting {
                KeySetting::Chords(chords) => {
                    // In the chat itself, else in the one place that knows the action.
                    let row = keymap.find(name, None).ok_or_else(|| keymap.unknown(name))?;
                    keymap.rebind(row, chords)?;
                }
                KeySetting::Context(actions) => {
                    let context = keymap.context(name)?;
                    for (action, chords) in actions {
                        let row = keymap.find(action, Some(context)).ok_or_else(|| keymap.unknown(action))?;
                        keymap.rebind(row, chords)?;
                    }
                }
            }
        }
        keymap.check()?;
        Ok(keymap)
    }

    pub fn meaning(&self, key: KeyEvent, context: Context) -> Meaning {
        let chord = Chord::of(key);
        let bound =
            |context| self.rows.iter().find(|row: &&Bound| row.context == context && row.chords.contains(&chord));
        if let Some(row) = bound(context).or_else(|| bound(Context::Compose)) {
            return Meaning::Do(row.action);
        }
        match chord.typed() {
            Some(_) if chord.is_letter() && !context.types() => Meaning::Nothing,
            Some(c) => Meaning::Type(c),
            None => Meaning::Nothing,
        }
    }

    /// The key that is named on the screen for an action; `None` where it has none.
    pub fn key(&self, context: Context, action: Action) -> Option<String> {
        let row = self.rows.iter().find(|row| row.context == context && row.action == action)?;
        row.chords.first().map(ToString::to_string)
    }

    /// The key of an action of the chat, for a sentence about it.
    pub fn say(&self, action: Action) -> String {
        self.key(Context::Compose, action).unwrap_or_else(|| format!("no key for {}", action.name()))
    }

    /// All rows, those of one context beside each other.
    pub fn rows(&self) -> impl Iterator<Item = &Bound> {
        self.rows.iter()
    }

    fn find(&self, action: &str, context: Option<Context>) -> Option<usize> {
        let at = |context: Option<Context>| {
            self.rows.iter().position(|row| row.action.name() == action && context.is_none_or(|of| of == row.context))
        };
        match context {
            Some(context) => at(Some(context)),
            None => at(Some(Context::Compose)).or_else(|| at(None)),
        }
    }

    fn context(&self, name: &str) -> Result<Context, KeysError> {
        let known = self.rows.iter().map(|row| row.context).find(|context| context.name() == name);
        known.ok_or_else(|| {
            let mut names: Vec<String> = self.rows.iter().map(|row| row.context.name()).collect();
            names.dedup();
            KeysError::UnknownContext { context: name.to_owned(), known: names.join(", ") }
        })
    }

    fn unknown(&self, name: &str) -> KeysError {
        let names = self.rows.iter().map(|row| row.action.name());
        let close = names.map(|known| (strsim::damerau_levenshtein(&known, name), known)).min();
        let remedy = match close {
            // A third of the letters may be wrong.
            Some((distance, known)) if distance <= name.len().div_ceil(3).min(3) && distance < name.len() => {
                format!("did you mean '{known}'?")
            }
            _ => "a search in the help (F1) shows the actions' names".to_owned(),
        };
        KeysError::UnknownAction { name: name.to_owned(), remedy }
    }

    fn rebind(&mut self, row: usize, chords: &Chords) -> Result<(), KeysError> {
        let Some(row) = self.rows.get_mut(row) else { return Ok(()) };
        let action = row.action.name();
        row.chords.clear();
        for written in chords.as_slice() {
            let chord = Chord::parse(written).map_err(|error| KeysError::Chord { action: action.clone(), error })?;
            if chord.is_letter() && row.context.types() {
                return Err(KeysError::Types { action, chord: written.clone() });
            }
            if !row.chords.contains(&chord) {
                row.chords.push(chord);
            }
        }
        row.shown = row.all();
        if row.shown.len() > LONGEST_SHOWN {
            row.shown = joined(row.chords.iter().take(1));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), KeysError> {
        for (index, row) in self.rows.iter().enumerate() {
            for other in self.rows.iter().skip(index + 1).filter(|other| other.context == row.context) {
                if let Some(chord) = row.chords.iter().find(|chord| other.chords.contains(chord)) {
                    let (first, second) = (row.action.name(), other.action.name());
                    return Err(KeysError::Conflict { chord: *chord, first, second });
                }
            }
        }
        match self.key(Context::Compose, Action::Send) {
            Some(_) => Ok(()),
            None => Err(KeysError::NoSend),
        }
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyModifiers};

    use super::*;

    fn keymap(settings: &str) -> Result<Keymap, KeysError> {
        Keymap::new(&toml::from_str(settings).unwrap())
    }

    fn meaning(keymap: &Keymap, code: KeyCode, modifiers: KeyModifiers) -> Meaning {
        keymap.meaning(KeyEvent::new(code, modifiers), Context::Compose)
    }

    /// The actions as the page about the settings lists them: a table for each context.
    fn documented() -> String {
        let keymap = Keymap::default();
        let mut page = String::new();
        let mut context = None;
        for row in keymap.rows() {
            if context.replace(row.context) != Some(row.context) {
                let table = match row.context {
                    Context::Compose => "[keys]".to_owned(),
                    context => format!("[keys.{}]", context.name()),
                };
                let heading = row.context.title();
                page += &format!("\n### `{table}`: {heading}\n\n| action | keys | |\n| --- | --- | --- |\n");
            }
            let keys: Vec<String> = row.chords.iter().map(|chord| format!("`{chord}`")).collect();
            page += &format!("| `{}` | {} | {} |\n", row.action.name(), keys.join(" ").replace('|', "\\|"), row.help);
        }
        page
    }

    #[test]
    fn the_page_about_the_settings_has_every_action_with_its_keys() {
        let page = include_str!("../../docs/settings.md");
        let (_, tables) = page.split_once("by themselves.\n").unwrap();
        assert_eq!(tables, documented(), "the tables in docs/settings.md are to read:\n{}", documented());
    }

    #[test]
    fn the_table_binds_no_key_twice_and_names_only_keys_that_it_binds() {
        Keymap::default().check().unwrap();
        for binding in BINDINGS {
            for shown in binding.shown.split(", ").filter(|shown| !shown.is_empty()) {
                let chords = binding.keys.iter().map(|chord| chord.as_sent().to_string());
                assert!(chords.clone().any(|chord| chord == shown), "{shown} of {:?}", chords.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn every_action_of_a_context_has_a_name_of_its_own() {
        let names: Vec<_> = BINDINGS.iter().map(|b| (b.context.name(), b.action.name())).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[index + 1..].contains(name), "{name:?}");
        }
    }

    #[test]
    fn characters_are_typed_whatever_the_terminal_says_of_shift() {
        let keymap = Keymap::default();
        let key = |code, modifiers| meaning(&keymap, code, modifiers);
        assert_eq!(key(KeyCode::Char('A'), KeyModifiers::SHIFT), Meaning::Type('A'));
        assert_eq!(key(KeyCode::Char('@'), KeyModifiers::CONTROL | KeyModifiers::ALT), Meaning::Type('@'));
        assert_eq!(key(KeyCode::Char('C'), KeyModifiers::CONTROL), Meaning::Do(Action::Interrupt));
        assert_eq!(key(KeyCode::Enter, KeyModifiers::ALT), Meaning::Do(Action::NewLine));
        assert_eq!(key(KeyCode::Char('x'), KeyModifiers::ALT), Meaning::Nothing);
        assert_eq!(key(KeyCode::F(24), KeyModifiers::NONE), Meaning::Nothing);
    }

    #[test]
    fn settings_give_actions_other_keys() {
        let keymap = keymap("send = 'ctrl-enter'\nnew-line = ['enter', 'ctrl-j']\nsuspend = []").unwrap();
        let key = |code, modifiers| meaning(&keymap, code, modifiers);
        assert_eq!(key(KeyCode::Enter, KeyModifiers::CONTROL), Meaning::Do(Action::Send));
        assert_eq!(key(KeyCode::Enter, KeyModifiers::NONE), Meaning::Do(Action::NewLine));
        assert_eq!(key(KeyCode::Enter, KeyModifiers::ALT), Meaning::Nothing);
        assert_eq!(key(KeyCode::Char('z'), KeyModifiers::CONTROL), Meaning::Nothing);
        let shown = |action| keymap.rows().find(|row| row.action == action).unwrap().shown.clone();
        assert_eq!(shown(Action::NewLine), "Enter, Ctrl-J");
        assert_eq!(shown(Action::Suspend), "");
        assert_eq!(keymap.say(Action::Suspend), "no key for suspend");
        assert_eq!(keymap.key(Context::Compose, Action::Send).as_deref(), Some("Ctrl-Enter"));
        // A list has a key of its own for it.
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(keymap.meaning(enter, Context::List), Meaning::Do(Action::Choose));
    }

    #[test]
    fn a_context_s_keys_are_named_in_its_table() {
        let keymap = keymap("[list]\nchoose = 'ctrl-y'").unwrap();
        let key = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::CONTROL);
        assert_eq!(keymap.meaning(key, Context::List), Meaning::Do(Action::Choose));
        assert_eq!(keymap.meaning(key, Context::Compose), Meaning::Do(Action::Yank));
    }

    #[test]
    fn what_is_wrong_is_quoted() {
        for (settings, words) in [
            ("sned = 'ctrl-enter'", "names 'sned', which is no action; did you mean 'send'?"),
            ("foo = 'f5'", "names 'foo', which is no action; a search in the help (F1)"),
            ("fly-to-the-moon = 'f5'", "'fly-to-the-moon', which is no action; a search in the help (F1)"),
            ("send = 'hyper-x'", "the keys of 'send' are not right: 'hyper-x' is no key"),
            ("send = 'ctrl-m'", "'ctrl-m' is sent by most terminals as 'enter'"),
            ("help = '?'", "gives 'help' the key '?', which types a character"),
            ("new-line = 'enter'", "'Enter' means both 'send' and 'new-line'"),
            ("help = 'f5'\nrepaint = 'f5'", "'F5' means both"),
            ("send = []", "leaves 'send' without a key"),
            (
                "[lists]\nchoose = 'f5'",
                "[keys.lists] in the settings names no context of keys; there are compose, list",
            ),
        ] {
            let error = keymap(settings).unwrap_err().to_string();
            assert!(error.contains(words), "{settings}: {error}");
        }
    }
}
