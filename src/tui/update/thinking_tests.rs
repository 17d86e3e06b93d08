use crossterm::event::KeyCode;
use pretty_assertions::assert_eq;

use super::super::conversation::Block;
use super::super::fixtures::{Desk, snapshot};
use super::*;
use crate::engine::{EngineSnapshot, FinishReason, Role, ThinkingChoice};

#[test]
fn thinking_is_not_sent_again_and_can_be_switched() {
    let thinking = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::Submit(request) => Some(request.thinking),
            _ => None,
        })
    };
    let mut desk = Desk::ready();
    assert_eq!(thinking(&desk.send("one")), Some(None));
    desk.thought("Hm.");
    desk.token("two");
    desk.finish(FinishReason::Stop);
    let texts: Vec<&str> = desk.state.conversation.blocks().iter().map(Block::shown).collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(desk.send("/think hard"), []);
    assert_eq!(desk.state.hint.as_deref(), Some("/think takes on or off; a space in front sends it"));
    desk.ctrl('u');
    desk.send("/think off");
    assert_eq!(desk.state.hint.as_deref(), Some("answers without thinking from now on"));
    let effects = desk.send("three");
    assert_eq!(thinking(&effects), Some(Some(false)));
    let said = effects.iter().find_map(|effect| match effect {
        Effect::Submit(request) => Some(&request.messages),
        _ => None,
    });
    let said: Vec<(Role, &str)> = said.unwrap().iter().map(|m| (m.role, m.content.as_str())).collect();
    assert_eq!(said[..2], [(Role::User, "one"), (Role::Assistant, "two")]);
    desk.finish(FinishReason::Stop);
    desk.send("/think");
    assert_eq!(thinking(&desk.send("four")), Some(Some(true)));
}

#[test]
fn who_wants_thinking_of_a_model_that_has_none_is_told_once() {
    let mut desk = Desk::loading();
    desk.state.settings.thinking = Some(true);
    let plain = EngineSnapshot { thinking: ThinkingChoice::Never, ..snapshot() };
    desk.event(Event::EngineLoaded(plain));
    assert_eq!(desk.state.hint.as_deref(), Some("this model does not think before it answers"));
    desk.key(KeyCode::Left);
    assert_eq!(desk.state.hint, None);
}
