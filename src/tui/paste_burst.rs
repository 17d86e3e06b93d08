//! Pastes on terminals that do not say what is one: Windows' console sends their keys one by one.
//!
//! Nobody types several keys within a few milliseconds. Such a run becomes a paste, so that its line ends send nothing;
//! input methods, which give whole words at once, come out the same.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::event::Event;

/// Keys that follow each other faster than this belong together.
pub const GAP: Duration = Duration::from_millis(8);
/// Fewer keys are typed ones that came late.
const FEWEST: usize = 3;

/// Keys that came without a pause.
#[derive(Debug, Default)]
pub struct Burst(Vec<KeyEvent>);

impl Burst {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a key that may be part of a paste. Gives another one back: it ends the run.
    pub fn push(&mut self, key: KeyEvent) -> Option<KeyEvent> {
        if text(key).is_none() {
            return Some(key);
        }
        self.0.push(key);
        None
    }

    /// What the run was, once it is over.
    pub fn end(&mut self) -> Vec<Event> {
        let keys = std::mem::take(&mut self.0);
        if keys.len() < FEWEST {
            return keys.into_iter().map(Event::Key).collect();
        }
        vec![Event::Paste(keys.into_iter().filter_map(text).collect())]
    }
}

/// What a key types.
fn text(key: KeyEvent) -> Option<char> {
    let plain = key.modifiers - KeyModifiers::SHIFT;
    // AltGr is Ctrl-Alt there.
    if !plain.is_empty() && plain != KeyModifiers::CONTROL | KeyModifiers::ALT {
        return None;
    }
    match key.code {
        KeyCode::Char(c) => Some(c),
        KeyCode::Enter if plain.is_empty() => Some('\n'),
        KeyCode::Tab if plain.is_empty() => Some('\t'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(codes: &[KeyCode]) -> Vec<Event> {
        let mut burst = Burst::default();
        for code in codes {
            assert!(burst.push(KeyEvent::new(*code, KeyModifiers::NONE)).is_none());
        }
        burst.end()
    }

    #[test]
    fn a_run_of_keys_is_a_paste_and_its_line_ends_send_nothing() {
        let c = KeyCode::Char;
        match run(&[c('l'), c('s'), KeyCode::Enter, KeyCode::Tab, c('é'), KeyCode::Enter]).as_slice() {
            [Event::Paste(text)] => assert_eq!(text, "ls\n\té\n"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_typed_key_stays_one() {
        for codes in [&[KeyCode::Enter][..], &[KeyCode::Char('y'), KeyCode::Enter]] {
            let events = run(codes);
            assert!(events.len() == codes.len() && events.iter().all(|event| matches!(event, Event::Key(_))));
        }
        let mut burst = Burst::default();
        for key in [
            KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
            KeyEvent::new(KeyCode::Up, KeyModifiers::NONE),
            KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT),
        ] {
            assert_eq!(burst.push(key), Some(key));
        }
        assert!(burst.is_empty() && burst.end().is_empty());
    }
}
