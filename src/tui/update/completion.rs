//! What keys do while the palette is open, and in the list of all commands.

use std::time::Instant;

use super::super::command::{self, Typed};
use super::super::completion::{self, Completion};
use super::super::composer::Motion;
use super::super::consent::Gate;
use super::super::event::Effect;
use super::super::keymap::Meaning;
use super::super::keys::Action;
use super::super::picker::{Picker, Purpose};
use super::super::state::{Overlay, State};
use super::commands::{is_for_the_screen, run_command};
use super::replay;
use super::send::{send, typed};

/// The composer's text is another one since this key: what was typed opens the palette, what was put there does not.
pub fn follow(state: &mut State, meaning: Meaning) {
    match meaning {
        Meaning::Type(_) | Meaning::Do(Action::Delete(_) | Action::Kill(_) | Action::DeleteOrQuit) => refresh(state),
        // It has looked itself.
        Meaning::Do(Action::Choose | Action::Complete) => {}
        Meaning::Do(_) | Meaning::Nothing => state.completion = Completion::default(),
    }
}

fn refresh(state: &mut State) {
    let typed = state.composer.text();
    if !typed.starts_with('/') {
        state.completion = Completion::default();
    } else {
        let is_free = !state.completion.closed && state.gate != Gate::Asking;
        state.completion.list = if is_free { completion::offered(state, typed) } else { None };
    }
}

/// Whether the open palette takes the action.
pub fn act(state: &mut State, action: Action, now: Instant, effects: &mut Vec<Effect>) -> bool {
    if state.overlay.as_ref().is_some_and(|overlay| overlay.panel().is_none()) {
        return false;
    }
    let Some(list) = &mut state.completion.list else { return false };
    match action {
        Action::Up | Action::PreviousPanel => list.move_by(-1),
        Action::Down => list.move_by(1),
        Action::Complete => complete(state, now),
        Action::Choose | Action::Send => enter(state, now, effects),
        Action::Escape => state.completion = Completion { list: None, closed: true },
        _ => return false,
    }
    true
}

/// Puts the chosen row in place of what is typed.
fn complete(state: &mut State, now: Instant) {
    if let Some(item) = state.completion.list.as_ref().and_then(Picker::chosen) {
        let text = item.id.clone();
        state.composer.replace(text);
        typed(state, now);
        refresh(state);
    }
}

/// Runs what is typed where that is a command as it stands, else the chosen row.
fn enter(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    let is_whole = !matches!(command::parse(state.composer.text()), Typed::Unknown(_) | Typed::Misused { .. });
    let has_moved = state.completion.list.as_ref().is_some_and(Picker::has_moved);
    if !is_whole || has_moved {
        complete(state, now);
        if state.composer.text().ends_with(' ') {
            return;
        }
    }
    state.completion = Completion::default();
    send(state, now, effects);
}

/// The list of all commands, whatever is typed.
pub fn open_commands(state: &mut State) {
    state.completion = Completion::default();
    state.overlay = Some(Overlay::List(Picker::new(Purpose::Command, "command", completion::commands())));
}

/// A row of that list: what is typed stays as it is, but for a command that takes a text, which comes before it.
pub fn choose(state: &mut State, id: &str, now: Instant, effects: &mut Vec<Effect>) {
    let Some(command) = id.strip_suffix(' ') else { return run_beside(state, id, now, effects) };
    if state.replay.is_some() && !is_for_the_screen(&command::parse(command)) {
        return replay::say_that_nobody_answers(state);
    }
    let items = completion::arguments(state, command.split(' ').next().unwrap_or(command));
    if !items.is_empty() && !command.contains(' ') {
        state.overlay = Some(Overlay::List(Picker::new(Purpose::Command, command, items)));
        return;
    }
    state.composer.move_cursor(Motion::Start);
    state.composer.insert(id);
    state.composer.move_cursor(Motion::End);
    typed(state, now);
}

/// Runs a command and puts back what was being typed.
fn run_beside(state: &mut State, command: &str, now: Instant, effects: &mut Vec<Effect>) {
    let draft = state.composer.clone();
    state.composer.replace(command.to_owned());
    run_command(state, now, effects);
    if state.composer.is_empty() || state.composer.text() == command {
        state.composer = draft;
    }
    typed(state, now);
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;
    use pretty_assertions::assert_eq;

    use super::super::super::event::Event;
    use super::super::super::fixtures::Desk;
    use super::*;
    use crate::engine::{FinishReason, LaneId, Policy};

    fn offered(desk: &Desk) -> Vec<&str> {
        let list = desk.state.completion.list.iter().flat_map(|list| list.rows().0);
        list.map(|item| item.label.as_str()).collect()
    }

    fn typed(desk: &Desk) -> &str {
        desk.state.composer.text()
    }

    #[test]
    fn a_slash_opens_it_and_letters_narrow_it() {
        let mut desk = Desk::ready();
        desk.type_text("/");
        assert!(offered(&desk).starts_with(&["/help", "/clear"]));
        desk.type_text("thk");
        assert_eq!(offered(&desk), ["/think"]);
        desk.key(KeyCode::Tab);
        assert_eq!((typed(&desk), offered(&desk)), ("/think ", vec!["on", "off"]));
        desk.key(KeyCode::Down);
        desk.key(KeyCode::Enter);
        assert_eq!((desk.state.settings.thinking, typed(&desk)), (Some(false), ""));
        assert!(!desk.state.completion.is_open());
        // Within a text a slash is a slash.
        desk.type_text("and/or");
        assert!(!desk.state.completion.is_open());
    }

    #[test]
    fn enter_runs_what_is_a_command_as_it_stands_and_else_the_chosen_row() {
        let mut desk = Desk::ready();
        desk.send("/clr");
        assert_eq!((typed(&desk), desk.state.completion.is_open()), ("", false));
        assert!(desk.send("/npu").is_empty());
        assert_eq!(desk.state.settings.lane, Some(LaneId::Npu));
        // What takes something waits for it.
        desk.send("/polic");
        assert_eq!((typed(&desk), offered(&desk)[0]), ("/policy ", "auto"));
        desk.send("fast");
        assert_eq!((desk.state.settings.policy, typed(&desk)), (Policy::Fastest, ""));
        desk.send("/sys");
        assert_eq!((typed(&desk), offered(&desk)), ("/system ", vec![]));
        desk.send("Be brief.");
        assert_eq!(desk.state.settings.system.as_deref(), Some("Be brief."));
    }

    #[test]
    fn escape_closes_it_until_the_next_command_and_history_does_not_open_it() {
        let mut desk = Desk::ready();
        desk.type_text("/th");
        desk.key(KeyCode::Esc);
        assert_eq!((typed(&desk), offered(&desk)), ("/th", vec![]));
        desk.type_text("i");
        assert_eq!(offered(&desk), [""; 0]);
        desk.ctrl('u');
        desk.send("/npu one");
        desk.token("two");
        desk.finish(FinishReason::Stop);
        desk.send("/think");
        desk.key(KeyCode::Up);
        assert_eq!((typed(&desk), offered(&desk)), ("/think", vec![]));
        desk.key(KeyCode::Up);
        assert_eq!(typed(&desk), "/npu one");
        desk.ctrl('u');
        desk.type_text("/think");
        assert_eq!(offered(&desk), ["/think"]);
        desk.event(Event::Paste("ere is a path\n".into()));
        assert!(!desk.state.completion.is_open());
    }

    #[test]
    fn the_list_of_commands_leaves_what_is_typed() {
        let mut desk = Desk::ready();
        desk.type_text("a question");
        desk.key(KeyCode::F(2));
        desk.type_text("think");
        desk.key(KeyCode::Enter);
        desk.type_text("off");
        desk.key(KeyCode::Enter);
        assert_eq!((desk.state.settings.thinking, typed(&desk)), (Some(false), "a question"));
        desk.key(KeyCode::F(2));
        desk.type_text("/npu");
        desk.key(KeyCode::Enter);
        assert_eq!(typed(&desk), "/npu a question");
        desk.key(KeyCode::F(2));
        desk.key(KeyCode::Esc);
        assert!(desk.state.overlay.is_none());
    }

    #[test]
    fn numbers_are_set_as_the_settings_take_them() {
        let mut desk = Desk::ready();
        desk.type_text("/set tempr");
        assert_eq!(offered(&desk), ["temperature"]);
        desk.key(KeyCode::Tab);
        assert_eq!(typed(&desk), "/set temperature ");
        desk.send("0.7");
        assert_eq!((desk.state.settings.sampling.temperature, typed(&desk)), (0.7, ""));
        assert_eq!(desk.state.hint.as_deref(), Some("temperature is 0.7 from the next message on"));
        desk.send("/set top-p 3");
        assert_eq!(desk.state.hint.as_deref(), Some("'3' is no value for top-p; it must be between 0 and 1"));
        assert_eq!(typed(&desk), "/set top-p 3");
        desk.ctrl('u');
        desk.send("/set heat 3");
        assert!(desk.state.hint.as_deref().unwrap().starts_with("'heat' is none of temperature, top-k"));
        desk.ctrl('u');
        desk.send("/set");
        let all = "temperature 0.7, top-k 0, top-p 1, min-p 0, repetition-penalty 1, max-tokens 500, seed random; \
                   /set NAME VALUE changes one";
        assert_eq!(desk.state.hint.as_deref(), Some(all));
        desk.ctrl('u');
        desk.send("/set max-tokens 8001");
        let said = "max-tokens is 8001 from the next message on; no lane holds more than 8000";
        assert_eq!(desk.state.hint.as_deref(), Some(said));
        desk.send("/set temperature 9");
        assert!(desk.state.hint.as_deref().unwrap().ends_with("on; above 2 the words come nearly at random"));
        desk.send("/set temperature 0.7");
        desk.send("/set temperature");
        assert_eq!(desk.state.hint.as_deref(), Some("temperature is 0.7; it can be 0 or more"));
        desk.send(" default");
        assert_eq!((desk.state.settings.sampling.temperature, typed(&desk)), (0.0, ""));
    }

    #[test]
    fn over_a_server_only_what_any_server_takes_can_be_set() {
        let mut desk = Desk::ready();
        desk.state.server = Some("example.com".into());
        desk.type_text("/set ");
        assert_eq!(offered(&desk), ["temperature", "top-p", "max-tokens", "seed"]);
        desk.send("top-k 3");
        assert_eq!(desk.state.hint.as_deref(), Some("over --connect the server decides top-k"));
    }

    #[test]
    fn the_system_prompt_is_sent_from_then_on() {
        let mut desk = Desk::ready();
        desk.send("/system Be brief.");
        let effects = desk.send("hello");
        let Some(Effect::Submit(request)) = effects.iter().find(|effect| matches!(effect, Effect::Submit(_))) else {
            panic!("{effects:?}")
        };
        assert_eq!(request.messages[0].content, "Be brief.");
        desk.token("hi");
        desk.finish(FinishReason::Stop);
        desk.send("/system");
        assert_eq!(desk.state.conversation.blocks().last().unwrap().shown(), "The system prompt:\nBe brief.");
        desk.send("/system none");
        assert_eq!(desk.state.settings.system, None);
    }
}
