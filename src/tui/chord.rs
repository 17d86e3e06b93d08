//! A key with its modifiers: as terminals send it, as the settings write it (`ctrl-k`), and as the screen shows it (`Ctrl-K`).
//!
//! Terminals send one byte for some pairs of keys, and differ in whether they tell Shift apart from the character that it
//! makes. What they do not tell apart is one chord here.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chord(KeyModifiers, KeyCode);

pub const fn plain(code: KeyCode) -> Chord {
    Chord(KeyModifiers::NONE, code)
}

pub const fn ctrl(c: char) -> Chord {
    Chord(KeyModifiers::CONTROL, KeyCode::Char(c))
}

pub const fn alt(code: KeyCode) -> Chord {
    Chord(KeyModifiers::ALT, code)
}

pub const fn with_ctrl(code: KeyCode) -> Chord {
    Chord(KeyModifiers::CONTROL, code)
}

pub const fn with_shift(code: KeyCode) -> Chord {
    Chord(KeyModifiers::SHIFT, code)
}

/// Keys by their names in the settings and on the screen; the first name of a key is the one that is shown to people.
const NAMED: &[(&str, &str, KeyCode)] = &[
    ("enter", "Enter", KeyCode::Enter),
    ("return", "Enter", KeyCode::Enter),
    ("esc", "Esc", KeyCode::Esc),
    ("escape", "Esc", KeyCode::Esc),
    ("tab", "Tab", KeyCode::Tab),
    ("backspace", "Backspace", KeyCode::Backspace),
    ("delete", "Del", KeyCode::Delete),
    ("del", "Del", KeyCode::Delete),
    ("insert", "Ins", KeyCode::Insert),
    ("home", "Home", KeyCode::Home),
    ("end", "End", KeyCode::End),
    ("page-up", "PgUp", KeyCode::PageUp),
    ("pgup", "PgUp", KeyCode::PageUp),
    ("page-down", "PgDn", KeyCode::PageDown),
    ("pgdn", "PgDn", KeyCode::PageDown),
    ("up", "Up", KeyCode::Up),
    ("down", "Down", KeyCode::Down),
    ("left", "Left", KeyCode::Left),
    ("right", "Right", KeyCode::Right),
    ("space", "Space", KeyCode::Char(' ')),
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChordError {
    #[error("'{0}' is no key; keys are written as 'ctrl-k', 'alt-enter', 'shift-up' or 'f5'")]
    Unknown(String),
    #[error("'{0}' is sent by most terminals as '{1}'; name that one")]
    SentAs(String, &'static str),
    #[error("'{0}' is sent by most terminals without shift; name it without")]
    ShiftIsLost(String),
}

impl Chord {
    /// What was pressed.
    pub fn of(key: KeyEvent) -> Self {
        Self(key.modifiers, key.code).as_sent()
    }

    /// What terminals do not tell apart made equal.
    pub fn as_sent(self) -> Self {
        let Self(modifiers, code) = self;
        let modifiers = modifiers & (KeyModifiers::SHIFT | KeyModifiers::CONTROL | KeyModifiers::ALT);
        let unshifted = modifiers - KeyModifiers::SHIFT;
        match code {
            KeyCode::Char('-') if modifiers == KeyModifiers::CONTROL | KeyModifiers::SHIFT => ctrl('_'),
            KeyCode::Char(c) if unshifted == KeyModifiers::CONTROL => ctrl(one_byte(c.to_ascii_lowercase())),
            KeyCode::Char(c) => Self(unshifted, KeyCode::Char(c)),
            KeyCode::Tab if modifiers.contains(KeyModifiers::SHIFT) => Self(unshifted, KeyCode::BackTab),
            KeyCode::BackTab => Self(unshifted, KeyCode::BackTab),
            code => Self(modifiers, code),
        }
    }

    /// As the settings write it; `-` and `+` join modifiers and key alike.
    pub fn parse(text: &str) -> Result<Self, ChordError> {
        let unknown = || ChordError::Unknown(text.to_owned());
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        while let Some((modifier, behind)) = modifier(rest) {
            if modifiers.contains(modifier) {
                return Err(unknown());
            }
            (modifiers, rest) = (modifiers | modifier, behind);
        }
        let chord = Self(modifiers, code(rest).ok_or_else(unknown)?);
        let with_ctrl = modifiers.contains(KeyModifiers::CONTROL);
        match chord.1 {
            KeyCode::Char(c) if with_ctrl && !modifiers.contains(KeyModifiers::ALT) => {
                let other = match c.to_ascii_lowercase() {
                    'i' => Some("tab"),
                    'm' => Some("enter"),
                    '[' => Some("esc"),
                    _ => None,
                };
                match other {
                    Some(other) => Err(ChordError::SentAs(text.to_owned(), other)),
                    None if modifiers.contains(KeyModifiers::SHIFT) => Err(ChordError::ShiftIsLost(text.to_owned())),
                    None => Ok(chord.as_sent()),
                }
            }
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::SHIFT) => {
                let upper = c.to_uppercase().next().filter(|upper| *upper != c);
                let upper = upper.ok_or_else(|| ChordError::ShiftIsLost(text.to_owned()))?;
                Ok(Self(modifiers, KeyCode::Char(upper)).as_sent())
            }
            _ => Ok(chord.as_sent()),
        }
    }

    /// The character that the chord types where it is not bound.
    pub fn typed(self) -> Option<char> {
        match self {
            // AltGr arrives as Ctrl-Alt on Windows.
            Self(modifiers, KeyCode::Char(c))
                if modifiers.is_empty() || modifiers == KeyModifiers::CONTROL | KeyModifiers::ALT =>
            {
                Some(c)
            }
            _ => None,
        }
    }

    /// A character without a modifier.
    pub fn is_letter(self) -> bool {
        self.0.is_empty() && matches!(self.1, KeyCode::Char(_))
    }
}

/// Of the keys that one control character stands for, the one that is shown.
fn one_byte(c: char) -> char {
    match c {
        '4' => '\\',
        '5' => ']',
        '6' => '^',
        '7' | '/' => '_',
        c => c,
    }
}

fn modifier(text: &str) -> Option<(KeyModifiers, &str)> {
    let at = text.find(['-', '+'])?;
    let modifier = match text[..at].to_ascii_lowercase().as_str() {
        "ctrl" | "control" => KeyModifiers::CONTROL,
        "alt" | "meta" | "option" => KeyModifiers::ALT,
        "shift" => KeyModifiers::SHIFT,
        _ => return None,
    };
    Some((modifier, &text[at + 1..]))
}

fn code(name: &str) -> Option<KeyCode> {
    let lower = name.to_ascii_lowercase();
    if let Some((_, _, code)) = NAMED.iter().find(|(known, _, _)| *known == lower) {
        return Some(*code);
    }
    if let Some(number) = lower.strip_prefix('f').and_then(|number| number.parse().ok()) {
        return (1..=24).contains(&number).then_some(KeyCode::F(number));
    }
    let mut chars = name.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if !c.is_control() && !c.is_whitespace() => Some(KeyCode::Char(c)),
        _ => None,
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(modifiers, code) = *self;
        let (modifiers, code) = match code {
            KeyCode::BackTab => (modifiers | KeyModifiers::SHIFT, KeyCode::Tab),
            code => (modifiers, code),
        };
        for (modifier, name) in
            [(KeyModifiers::CONTROL, "Ctrl-"), (KeyModifiers::ALT, "Alt-"), (KeyModifiers::SHIFT, "Shift-")]
        {
            if modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        let named = NAMED.iter().find(|(_, _, known)| *known == code);
        match (code, named) {
            (_, Some((_, shown, _))) => f.write_str(shown),
            // As it is printed on keys; without a modifier it is the character itself.
            (KeyCode::Char(c), _) if modifiers.contains(KeyModifiers::CONTROL) => {
                write!(f, "{}", c.to_ascii_uppercase())
            }
            (KeyCode::Char(c), _) if modifiers == KeyModifiers::ALT && c.is_ascii_uppercase() => write!(f, "Shift-{c}"),
            (KeyCode::Char(c), _) if modifiers == KeyModifiers::ALT => write!(f, "{}", c.to_ascii_uppercase()),
            (KeyCode::Char(c), _) => write!(f, "{c}"),
            (KeyCode::F(number), _) => write!(f, "F{number}"),
            (code, _) => write!(f, "{code:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_and_shown() {
        for (written, shown) in [
            ("ctrl-k", "Ctrl-K"),
            ("Ctrl+K", "Ctrl-K"),
            ("ctrl-enter", "Ctrl-Enter"),
            ("alt-shift-x", "Alt-Shift-X"),
            ("alt-x", "Alt-X"),
            ("alt-<", "Alt-<"),
            ("shift-tab", "Shift-Tab"),
            ("pgdn", "PgDn"),
            ("ctrl-alt-up", "Ctrl-Alt-Up"),
            ("f12", "F12"),
            ("ctrl-space", "Ctrl-Space"),
            ("ctrl--", "Ctrl--"),
            ("ctrl-/", "Ctrl-_"),
            ("j", "j"),
            ("shift-g", "G"),
        ] {
            assert_eq!(Chord::parse(written).unwrap().to_string(), shown, "{written}");
        }
    }

    #[test]
    fn what_no_terminal_sends_is_refused() {
        for (written, words) in [
            ("", "'' is no key"),
            ("hyper-x", "'hyper-x' is no key"),
            ("ctrl-", "'ctrl-' is no key"),
            ("ctrl-ctrl-x", "is no key"),
            ("f99", "'f99' is no key"),
            ("ctrl-i", "'ctrl-i' is sent by most terminals as 'tab'"),
            ("ctrl-M", "as 'enter'"),
            ("ctrl-shift-k", "without shift"),
            ("shift-1", "without shift"),
        ] {
            let error = Chord::parse(written).unwrap_err().to_string();
            assert!(error.contains(words), "{written}: {error}");
        }
    }

    #[test]
    fn what_terminals_do_not_tell_apart_is_one_chord() {
        let sent = |code, modifiers| Chord::of(KeyEvent::new(code, modifiers));
        let (none, shift, control) = (KeyModifiers::NONE, KeyModifiers::SHIFT, KeyModifiers::CONTROL);
        assert_eq!(sent(KeyCode::Char('C'), control | shift), ctrl('c'));
        assert_eq!(sent(KeyCode::Char('7'), control), Chord::parse("ctrl-_").unwrap());
        assert_eq!(sent(KeyCode::Char('-'), control | shift), Chord::parse("ctrl-_").unwrap());
        assert_eq!(sent(KeyCode::Tab, shift), sent(KeyCode::BackTab, none));
        assert_eq!(sent(KeyCode::BackTab, shift), Chord::parse("shift-tab").unwrap());
        assert_eq!(sent(KeyCode::Char('A'), shift), sent(KeyCode::Char('A'), none));
    }
}
