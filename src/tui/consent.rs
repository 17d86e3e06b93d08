//! The question before a conversation goes to a server for the first time, where the settings want one.
//!
//! A message that may need it waits at the head of the queue: first the router is asked whether it would send the
//! conversation there, then, where it would, the person. The answer holds until the conversation is cleared.

use std::time::Instant;

use crate::engine::{ChatRequest, LaneId, LaneState, Privacy, RemoteStatus, RoutingDecision};

use super::composer::Draft;
use super::conversation::{Kind, Level};
use super::event::Effect;
use super::keys::Action;
use super::state::State;
use super::text::sanitize::one_line;
use super::update::{refuse, return_queue, submit_now, too_long};

/// What the message at the head of the queue waits for. The router is asked also where it may be too long for its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gate {
    /// Nothing, besides the engine.
    #[default]
    Open,
    /// What the router says of it.
    Weighing,
    /// What the person says.
    Asking,
}

/// What a person said of this conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consent {
    /// `--allow-remote`, which holds for every conversation.
    pub always: bool,
    pub declined: bool,
}

/// The server that wants to be asked about.
fn server(state: &State) -> Option<&RemoteStatus> {
    let lane = state.snapshot()?.lanes.iter().find(|lane| lane.id == LaneId::Remote)?;
    lane.remote.as_ref().filter(|server| {
        server.privacy == Privacy::Ask && matches!(lane.state, LaneState::Ready | LaneState::Loading { .. })
    })
}

/// Nobody has said yet whether this conversation may go to a server.
pub fn is_undecided(state: &State) -> bool {
    !state.settings.allow_remote && !state.consent.declined && server(state).is_some()
}

/// Keeps a message back that may need the question. False where it can go.
pub fn hold(state: &mut State, typed: &Draft, effects: &mut Vec<Effect>) -> bool {
    if state.settings.allow_remote || server(state).is_none() {
        return false;
    }
    let request = state.request(typed);
    match request.lane {
        Some(LaneId::Remote) => {
            state.queue.insert(0, typed.clone());
            ask(state);
            true
        }
        None if !state.consent.declined => {
            state.queue.insert(0, typed.clone());
            state.gate = Gate::Weighing;
            effects.push(Effect::Weigh(ChatRequest { allow_remote: true, ..request }));
            true
        }
        _ => false,
    }
}

/// The router has said where the message would go.
pub fn weighed(state: &mut State, result: Result<RoutingDecision, String>, now: Instant, effects: &mut Vec<Effect>) {
    // It may have been taken back in the meantime.
    if state.gate != Gate::Weighing {
        return;
    }
    match result {
        Ok(decision) => match too_long(&decision) {
            Some(objection) => refuse(state, objection, now),
            None if decision.lane == LaneId::Remote && is_undecided(state) => ask(state),
            None => release(state, now, effects),
        },
        // What is wrong with it, the engine will say.
        Err(_) => release(state, now, effects),
    }
}

fn ask(state: &mut State) {
    let Some(server) = server(state) else { return };
    let about = about(server);
    state.gate = Gate::Asking;
    let text = format!("May this conversation be sent to {about}?");
    state.conversation.add(Kind::Notice(Level::Warning), &text);
    state.conversation.follow();
}

/// Host, model and price, as far as they are known.
fn about(server: &RemoteStatus) -> String {
    let price = server.price.as_ref().map(|price| {
        let currency = price.currency.as_ref().map(|currency| format!(" {currency}")).unwrap_or_default();
        let (input, output) = (price.per_million.input, price.per_million.output);
        format!("{input} in and {output} out{currency} for a million tokens")
    });
    let open = (!server.is_private).then(|| "not encrypted on its way".to_owned());
    let known: Vec<String> = [server.model.as_deref().map(one_line), price, open].into_iter().flatten().collect();
    match known.is_empty() {
        true => server.host.clone(),
        false => format!("{} ({})", server.host, known.join("; ")),
    }
}

/// What the footer says while the question stands.
pub fn keys(state: &State) -> String {
    format!("y sends it there, n keeps it on this machine, {} takes it back", state.keys.say(Action::Escape))
}

/// A letter while the question stands.
pub fn answer(state: &mut State, letter: char, now: Instant, effects: &mut Vec<Effect>) {
    let wants_server = state.queue.first().is_some_and(|typed| state.request(typed).lane == Some(LaneId::Remote));
    match letter {
        'y' | 'Y' => {
            state.settings.allow_remote = true;
            state.conversation.add(Kind::Notice(Level::Info), "It may, until /clear.");
            release(state, now, effects);
        }
        'n' | 'N' if wants_server => {
            return_queue(state, now);
            state.hint = Some("not sent; /auto lets ortalk choose a lane of this machine".to_owned());
        }
        'n' | 'N' => {
            state.consent.declined = true;
            state.conversation.add(Kind::Notice(Level::Info), "It stays on this machine, until /clear.");
            release(state, now, effects);
        }
        _ => {}
    }
}

/// Another conversation, of which nobody has said anything.
pub fn forget(state: &mut State) {
    state.gate = Gate::Open;
    state.consent.declined = false;
    state.settings.allow_remote = state.consent.always;
}

fn release(state: &mut State, now: Instant, effects: &mut Vec<Effect>) {
    state.gate = Gate::Open;
    if !state.queue.is_empty() {
        let message = state.queue.remove(0);
        submit_now(state, &message, now, effects);
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;

    use super::super::event::Event;
    use super::super::fixtures::{Desk, decision, outgrown_decision, snapshot, snapshot_with_server};
    use super::*;
    use crate::engine::{FinishReason, GenerationEvent};

    fn desk() -> Desk {
        let mut desk = Desk::ready();
        desk.event(Event::EngineLoaded(snapshot_with_server()));
        desk
    }

    /// Whether something was sent, and then whether a server may have it.
    fn sent(effects: &[Effect]) -> Option<bool> {
        effects.iter().find_map(|effect| match effect {
            Effect::Submit(request) => Some(request.allow_remote),
            _ => None,
        })
    }

    fn weighs(effects: &[Effect]) -> bool {
        effects.iter().any(|effect| matches!(effect, Effect::Weigh(request) if request.allow_remote))
    }

    fn notices(desk: &Desk) -> Vec<&str> {
        let blocks = desk.state.conversation.blocks().iter();
        blocks.filter(|block| matches!(block.kind, Kind::Notice(_))).map(|block| block.shown()).collect()
    }

    fn answer(desk: &mut Desk) {
        desk.generation(GenerationEvent::Routed(outgrown_decision()));
        desk.token("yes");
        desk.finish(FinishReason::Stop);
    }

    #[test]
    fn what_stays_here_asks_nobody() {
        let mut desk = desk();
        let effects = desk.send("short");
        assert!(weighs(&effects) && sent(&effects).is_none());
        assert_eq!(desk.state.queue, ["short"]);
        assert_eq!(sent(&desk.event(Event::Weighed(Ok(decision())))), Some(false));
        assert!(notices(&desk).is_empty() && desk.state.queue.is_empty());
        // A router that failed is no reason to keep the message: the engine says what is wrong.
        let mut desk = self::desk();
        desk.send("short");
        assert_eq!(sent(&desk.event(Event::Weighed(Err("no template".into())))), Some(false));
    }

    #[test]
    fn a_yes_holds_for_the_conversation() {
        let mut desk = desk();
        desk.send("long");
        assert!(sent(&desk.event(Event::Weighed(Ok(outgrown_decision())))).is_none());
        let expected = "May this conversation be sent to api.example.com (far-model; 0.5 in and 2 out EUR for a million \
                        tokens)?";
        assert_eq!(notices(&desk), [expected]);
        // Other keys say nothing, and are not typed.
        assert!(sent(&desk.send("x")).is_none() && desk.state.composer.is_empty());
        assert_eq!(sent(&desk.key(KeyCode::Char('y'))), Some(true));
        answer(&mut desk);
        assert_eq!(sent(&desk.send("more")), Some(true));
        answer(&mut desk);
        desk.send("/clear");
        assert!(weighs(&desk.send("another conversation")));
    }

    #[test]
    fn a_no_keeps_the_conversation_here() {
        let mut desk = desk();
        desk.send("long");
        desk.event(Event::Weighed(Ok(outgrown_decision())));
        assert_eq!(sent(&desk.key(KeyCode::Char('n'))), Some(false));
        answer(&mut desk);
        assert_eq!(sent(&desk.send("more")), Some(false));
        answer(&mut desk);
        // Who names the server is asked again, and a no sends nothing.
        assert!(sent(&desk.send("/remote more")).is_none());
        assert_eq!(notices(&desk).len(), 3);
        assert!(sent(&desk.key(KeyCode::Char('n'))).is_none());
        assert_eq!(desk.state.composer.text(), "/remote more");
        desk.key(KeyCode::Enter);
        assert_eq!(sent(&desk.key(KeyCode::Char('Y'))), Some(true));
    }

    #[test]
    fn escape_takes_the_message_back() {
        let mut desk = desk();
        desk.send("long");
        desk.key(KeyCode::Esc);
        assert_eq!((desk.state.composer.text(), desk.state.gate), ("long", Gate::Open));
        // What the router says then comes too late.
        assert!(sent(&desk.event(Event::Weighed(Ok(outgrown_decision())))).is_none() && notices(&desk).is_empty());
        desk.key(KeyCode::Enter);
        desk.event(Event::Weighed(Ok(outgrown_decision())));
        desk.key(KeyCode::Esc);
        assert_eq!((desk.state.composer.text(), desk.state.gate), ("long", Gate::Open));
        desk.state.composer.clear();
        // Letters are typed again.
        desk.type_text("yes");
        assert_eq!(desk.state.composer.text(), "yes");
    }

    #[test]
    fn messages_that_follow_wait_behind_the_question() {
        let mut desk = desk();
        desk.send("one");
        desk.send("two");
        assert_eq!(desk.state.queue, ["one", "two"]);
        desk.event(Event::Weighed(Ok(outgrown_decision())));
        assert_eq!(sent(&desk.key(KeyCode::Char('y'))), Some(true));
        assert_eq!(desk.state.queue, ["two"]);
        desk.token("yes");
        assert_eq!(sent(&desk.finish(FinishReason::Stop)), Some(true));
    }

    #[test]
    fn nobody_is_asked_where_everything_is_allowed_or_there_is_no_server() {
        let mut desk = Desk::ready();
        desk.event(Event::EngineLoaded(snapshot()));
        assert_eq!(sent(&desk.send("short")), Some(false));
        let mut desk = self::desk();
        (desk.state.settings.allow_remote, desk.state.consent.always) = (true, true);
        assert_eq!(sent(&desk.send("short")), Some(true));
        answer(&mut desk);
        desk.send("/clear");
        assert_eq!(sent(&desk.send("short")), Some(true));
        let mut snapshot = snapshot_with_server();
        snapshot.lanes[2].remote.as_mut().unwrap().privacy = Privacy::Allow;
        let mut desk = self::desk();
        desk.event(Event::Snapshot(snapshot));
        assert_eq!(sent(&desk.send("short")), Some(false));
    }
}
