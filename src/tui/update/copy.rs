//! `/copy`: what is copied, and what is said of the way it took.

use super::super::clipboard::{LONGEST_FOR_TERMINAL, Outcome, Way, harmless};
use super::super::command::Copying;
use super::super::conversation::Kind;
use super::super::event::Effect;
use super::super::markdown::code_blocks;
use super::super::state::State;

pub fn copy(state: &mut State, what: Copying, effects: &mut Vec<Effect>) {
    match chosen(state, what) {
        Ok(text) => effects.push(Effect::Copy(harmless(&text))),
        Err(reason) => state.hint = Some(reason),
    }
}

fn chosen(state: &State, what: Copying) -> Result<String, String> {
    let mut blocks = state.conversation.blocks().iter().rev();
    let answer = blocks
        .find(|block| matches!(block.kind, Kind::Answer(_)) && !block.is_empty())
        .ok_or("there is no answer to copy")?;
    let Copying::Code(number) = what else { return Ok(answer.raw.clone()) };
    let mut codes = code_blocks(&answer.raw);
    let count = codes.len();
    match number.unwrap_or(count).checked_sub(1) {
        Some(at) if at < count => Ok(codes.swap_remove(at)),
        _ if count == 0 => Err("the last answer has no block of code".to_owned()),
        _ => Err(format!("the last answer has {count} blocks of code")),
    }
}

/// What became of a copy.
pub fn on_outcome(state: &mut State, outcome: Outcome, effects: &mut Vec<Effect>) {
    state.dirty = true;
    state.hint = Some(match outcome {
        Outcome::Copied { way, characters } => {
            let size = format!("{characters} {}", if characters == 1 { "character" } else { "characters" });
            match way {
                Way::System => format!("{size} in the clipboard"),
                Way::Terminal { through_tmux: false } => format!("{size} sent to the terminal's clipboard (OSC 52)"),
                Way::Terminal { through_tmux: true } => {
                    format!("{size} sent by OSC 52; tmux passes it on with 'set -g set-clipboard on'")
                }
            }
        }
        Outcome::TooLong(bytes) => {
            format!("{bytes} bytes are too many for OSC 52 ({LONGEST_FOR_TERMINAL}); /export writes a file")
        }
        Outcome::NoSystem(text) => {
            effects.push(Effect::CopyByTerminal(text));
            return;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::super::event::Event;
    use super::super::super::fixtures::Desk;
    use super::*;
    use crate::engine::FinishReason;

    const ANSWER: &str =
        "Two ways:\n\n```sh\nls -l\n```\n\n1. or\n\n   ```make\n   all:\n   \tcc\n   ```\n\nand `inline`.";

    fn answered() -> Desk {
        let mut desk = Desk::ready();
        desk.send("how?");
        desk.route();
        desk.token(ANSWER);
        desk.finish(FinishReason::Stop);
        desk
    }

    #[test]
    fn the_answer_or_its_code_is_copied() {
        let mut desk = answered();
        for (typed, expected) in [
            ("/copy", ANSWER),
            ("/copy code", "all:\n\tcc\n"),
            ("/copy code 1", "ls -l\n"),
            ("/copy code 2", "all:\n\tcc\n"),
        ] {
            assert_eq!(desk.send(typed), [Effect::Copy(expected.to_owned())], "{typed}");
            assert!(desk.state.composer.is_empty());
        }
        assert_eq!(desk.send("/copy code 3"), []);
        assert_eq!(desk.state.hint.as_deref(), Some("the last answer has 2 blocks of code"));
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut desk = Desk::ready();
        assert_eq!(desk.send("/copy"), []);
        assert_eq!(desk.state.hint.as_deref(), Some("there is no answer to copy"));
        desk.send("x");
        desk.route();
        desk.token("plain");
        assert_eq!(desk.send("/copy code"), []);
        assert_eq!(desk.state.hint.as_deref(), Some("the last answer has no block of code"));
        // A running answer is copied as far as it is.
        assert_eq!(desk.send("/copy"), [Effect::Copy("plain".to_owned())]);
    }

    #[test]
    fn the_hint_says_which_way_it_went() {
        let mut desk = Desk::ready();
        let mut hint = |outcome| {
            let effects = desk.event(Event::Clipboard(outcome));
            (desk.state.hint.take().unwrap_or_default(), effects)
        };
        let copied = |way| Outcome::Copied { way, characters: 1234 };
        assert_eq!(hint(copied(Way::System)).0, "1234 characters in the clipboard");
        let (text, _) = hint(copied(Way::Terminal { through_tmux: false }));
        assert_eq!(text, "1234 characters sent to the terminal's clipboard (OSC 52)");
        assert!(hint(copied(Way::Terminal { through_tmux: true })).0.contains("set-clipboard on"));
        let (text, _) = hint(Outcome::TooLong(80_000));
        assert_eq!(text, "80000 bytes are too many for OSC 52 (74994); /export writes a file");
        let text = "kept".to_owned();
        assert_eq!(hint(Outcome::NoSystem(text.clone())).1, [Effect::CopyByTerminal(text)]);
    }
}
