//! Another model in the same conversation: the list of those on this machine, and what loading one does to the state.

use std::time::Instant;

use super::super::backend::ModelEntry;
use super::super::conversation::{Kind, Level};
use super::super::event::{Effect, Event};
use super::super::picker::{Item, Picker, Purpose};
use super::super::state::{EngineState, Overlay, State};
use super::super::text::sanitize::one_line;
use super::commands::absence;
use super::engine;
use crate::engine::{AnswerSettings, EngineSnapshot, Parameter};

/// `/model`: the one of this name, or a list of all.
pub fn model(state: &mut State, name: &str, effects: &mut Vec<Effect>) {
    if name.is_empty() {
        if is_possible(state) {
            state.models.asked = true;
            state.hint = Some("looking for the models on this machine".to_owned());
            effects.push(Effect::ListModels);
        }
    } else {
        open(state, name.to_owned(), effects);
    }
}

pub fn open(state: &mut State, name: String, effects: &mut Vec<Effect>) {
    if state.models.open.as_ref() == Some(&name) && state.snapshot().is_some() {
        state.hint = Some(format!("{} answers already", one_line(&name)));
    } else if is_possible(state) {
        state.hint = Some(format!("{} is being loaded", one_line(&name)));
        state.models.opening = Some(name.clone());
        state.models.since = Some(state.now);
        state.models.stage = None;
        effects.push(Effect::OpenModel(name));
    }
}

/// Says why not.
fn is_possible(state: &mut State) -> bool {
    let reason = match (&state.models.opening, &state.engine) {
        _ if !state.models.are_there => Some("no other model can be loaded here".to_owned()),
        (Some(name), _) => Some(format!("{} is being loaded; one at a time", one_line(name))),
        (None, EngineState::Loading { .. }) => Some("a model is being loaded; one at a time".to_owned()),
        (None, EngineState::Ready(_) | EngineState::Failed(_)) => None,
    };
    let is_possible = reason.is_none();
    state.hint = reason.or(state.hint.take());
    is_possible
}

pub fn on_event(state: &mut State, event: Event, now: Instant, effects: &mut Vec<Effect>) {
    state.dirty = true;
    match event {
        Event::ModelsListed(result) => listed(state, result),
        Event::EngineReleased => {
            let ending = (Level::Warning, "cut: there is no room for two models".to_owned());
            engine::close_answer(state, "cancelled", Some(ending), effects);
            state.engine = EngineState::Loading { since: now };
        }
        Event::ModelStage(stage) => state.models.stage = Some(one_line(&stage)),
        Event::ModelOpened(snapshot, answers) => opened(state, snapshot, *answers, now, effects),
        Event::ModelRefused(error) => {
            let name = state.models.opening.take().unwrap_or_default();
            state.hint = None;
            let goes_on = state.snapshot().map(|snapshot| format!("\n{} goes on.", snapshot.model));
            let text = format!("{name} cannot answer: {error}{}", goes_on.unwrap_or_default());
            state.conversation.add(Kind::Notice(Level::Error), &text);
        }
        _ => {}
    }
}

fn listed(state: &mut State, result: Result<Vec<ModelEntry>, String>) {
    if !std::mem::take(&mut state.models.asked) {
        return;
    }
    state.hint = None;
    match result {
        Err(error) => state.hint = Some(format!("models cannot be listed: {}", one_line(&error))),
        Ok(entries) if entries.is_empty() => state.hint = Some("there is no other model on this machine".to_owned()),
        Ok(entries) => {
            let open = entries.iter().find(|entry| entry.is_open).map(|entry| entry.name.clone());
            let item = |entry: ModelEntry| {
                let detail = if entry.is_open { format!("now; {}", entry.about) } else { entry.about };
                Item { id: entry.name.clone(), label: entry.name, detail }
            };
            let mut picker = Picker::new(Purpose::Model, "model", entries.into_iter().map(item).collect());
            picker.choose(open.as_deref().unwrap_or_default());
            state.models.open = open;
            state.overlay = Some(Overlay::List(picker));
        }
    }
}

fn opened(
    state: &mut State,
    snapshot: EngineSnapshot,
    answers: AnswerSettings,
    now: Instant,
    effects: &mut Vec<Effect>,
) {
    (state.models.open, state.hint) = (state.models.opening.take(), None);
    // What was set by hand stays.
    for parameter in Parameter::ALL.into_iter().filter(|parameter| !state.changed.contains(parameter)) {
        parameter.copy(&answers, &mut state.settings);
    }
    state.defaults = answers;
    let text = format!("{} answers from now on.", snapshot.model);
    state.conversation.add(Kind::Notice(Level::Info), &text);
    engine::ready(state, snapshot, now, effects);
    if let Some(lane) = state.settings.lane
        && let Some(reason) = absence(state, lane)
    {
        state.settings.lane = None;
        state.hint = Some(format!("no {lane} lane any more: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;
    use pretty_assertions::assert_eq;

    use super::super::super::conversation::Block;
    use super::super::super::fixtures::{Desk, snapshot};
    use super::*;
    use crate::engine::{FinishReason, LaneId, LaneState};

    fn desk() -> Desk {
        let mut desk = Desk::ready();
        desk.state.models.are_there = true;
        desk
    }

    fn entry(name: &str, is_open: bool) -> ModelEntry {
        ModelEntry { name: name.into(), about: "GGUF".into(), is_open }
    }

    fn other() -> (EngineSnapshot, AnswerSettings) {
        let mut answers = Desk::loading().state.settings;
        (answers.sampling.temperature, answers.sampling.top_k) = (0.6, 20);
        (EngineSnapshot { model: "other".into(), ..snapshot() }, answers)
    }

    fn shown(desk: &Desk) -> Vec<&str> {
        desk.state.conversation.blocks().iter().map(Block::shown).collect()
    }

    #[test]
    fn a_model_is_chosen_from_the_list_and_the_conversation_goes_on() {
        let mut desk = desk();
        desk.send("one");
        desk.token("two");
        desk.finish(FinishReason::Stop);
        desk.send("/set top-k 7");
        assert_eq!(desk.send("/model"), [Effect::ListModels]);
        desk.event(Event::ModelsListed(Ok(vec![entry("test-model", true), entry("other", false)])));
        desk.key(KeyCode::Down);
        assert_eq!(desk.key(KeyCode::Enter), [Effect::OpenModel("other".into())]);
        // The old one answers until then.
        assert!(desk.send("three").iter().any(|effect| matches!(effect, Effect::Submit(_))));
        desk.token("four");
        desk.finish(FinishReason::Stop);
        let (snapshot, answers) = other();
        desk.event(Event::ModelOpened(snapshot, Box::new(answers)));
        assert_eq!(shown(&desk), ["one", "two", "three", "four", "other answers from now on."]);
        assert_eq!(desk.send("/model other"), []);
        assert_eq!(desk.state.hint.as_deref(), Some("other answers already"));
        // Its numbers hold, but for what was set by hand.
        let sampling = &desk.state.settings.sampling;
        assert_eq!((sampling.temperature, sampling.top_k), (0.6, 7));
        let effects = desk.send("five");
        let request = effects.iter().find_map(|effect| match effect {
            Effect::Submit(request) => Some(request),
            _ => None,
        });
        assert_eq!(request.unwrap().messages.len(), 5);
    }

    #[test]
    fn how_far_a_model_is_that_is_being_loaded() {
        let mut desk = desk();
        let progress = |desk: &Desk| desk.state.models.progress(".", desk.state.now);
        assert_eq!(progress(&desk), None);
        desk.send("/model other");
        assert_eq!(progress(&desk).as_deref(), Some("other is being loaded . 0 s"));
        desk.wait(2000);
        desk.event(Event::ModelStage("other: building for the CPU 42 %".into()));
        assert_eq!(progress(&desk).as_deref(), Some("other: building for the CPU 42 % . 2 s"));
        // It is counted on while nothing else happens.
        let due = desk.state.deadline(desk.now).unwrap();
        assert!(due <= desk.now + std::time::Duration::from_secs(1));
        let shown = crate::tui::view::tests::text(&crate::tui::view::tests::render(&mut desk, 80, 24));
        assert!(shown.contains("Message; other: building for the CPU 42 % \u{b7} 2 s"), "{shown}");
        let (snapshot, answers) = other();
        desk.event(Event::ModelOpened(snapshot, Box::new(answers)));
        assert_eq!(progress(&desk), None);
    }

    #[test]
    fn an_answer_that_runs_is_finished_by_its_own_model() {
        let mut desk = desk();
        desk.send("one");
        desk.send("/model other");
        desk.token("two");
        let (snapshot, answers) = other();
        assert_eq!(desk.event(Event::ModelOpened(snapshot, Box::new(answers))), []);
        assert!(desk.state.busy());
        desk.send("waits");
        desk.token(" three");
        let effects = desk.finish(FinishReason::Stop);
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Submit(_))));
        assert_eq!(shown(&desk)[1], "two three");
    }

    #[test]
    fn where_there_is_no_room_for_two_the_old_one_goes_first() {
        let mut desk = desk();
        desk.send("one");
        desk.token("two");
        desk.send("/model other");
        desk.event(Event::EngineReleased);
        assert!(!desk.state.busy() && desk.state.snapshot().is_none());
        assert_eq!(desk.send("three"), []);
        desk.event(Event::EngineLoaded(snapshot()));
        desk.event(Event::ModelRefused("no such file".into()));
        let last = shown(&desk).last().unwrap().to_string();
        assert_eq!(last, "other cannot answer: no such file\ntest-model goes on.");
        assert_eq!(desk.state.models.opening, None);
    }

    #[test]
    fn one_is_loaded_at_a_time_and_a_lane_that_is_gone_is_given_up() {
        let mut desk = desk();
        desk.send("/npu");
        desk.send("/model other");
        assert_eq!(desk.send("/model third"), []);
        assert_eq!(desk.state.hint.as_deref(), Some("other is being loaded; one at a time"));
        let (mut snapshot, answers) = other();
        snapshot.lanes[0].state = LaneState::Absent { reason: "not built for it".into() };
        desk.event(Event::ModelOpened(snapshot, Box::new(answers)));
        assert_eq!(desk.state.settings.lane, None::<LaneId>);
        assert_eq!(desk.state.hint.as_deref(), Some("no npu lane any more: not built for it"));
        let mut desk = Desk::ready();
        assert_eq!(desk.send("/model"), []);
        assert_eq!(desk.state.hint.as_deref(), Some("no other model can be loaded here"));
    }
}
