//! What is said of the answers that follow: lane, policy, system prompt, numbers.

use std::time::Instant;

use super::super::conversation::{Kind, Level};
use super::super::state::State;
use super::super::text::sanitize::one_line;
use super::commands::absence;
use super::send::typed;
use crate::engine::{LaneId, Parameter, Policy};

/// In place of a value: what it was when the chat began, or what the model suggests.
const DEFAULT: &str = "default";

/// In place of a system prompt.
const NONE: &str = "none";

pub fn set_lane(state: &mut State, lane: Option<LaneId>) {
    let absent = lane.and_then(|id| absence(state, id));
    state.hint = Some(match (lane, &absent) {
        (Some(id), Some(reason)) => format!("no {id} lane: {reason}"),
        (Some(id), None) => format!("{id} answers from now on; /auto lets ortalk choose again"),
        (None, _) => "ortalk chooses where to answer".to_string(),
    });
    if absent.is_none() {
        state.composer.take();
        state.settings.lane = lane;
    }
}

pub fn set_policy(state: &mut State, policy: Option<Policy>, now: Instant) {
    let Some(policy) = policy else {
        state.hint = Some(format!("the policy is {}; /policy NAME changes it", state.settings.policy.name()));
        return;
    };
    state.composer.take();
    state.settings.policy = policy;
    let overridden = state.settings.lane.map(|lane| format!(", once /auto gives up {lane}")).unwrap_or_default();
    state.hint = Some(format!("lanes are chosen by the policy {} from now on{overridden}", policy.name()));
    typed(state, now);
}

/// Without a text, shows the prompt in force.
pub fn set_system(state: &mut State, text: &str) {
    let had_one = state.settings.system.is_some();
    let text = text.to_owned();
    state.composer.take();
    match text.as_str() {
        "" => {
            let shown = match &state.settings.system {
                Some(system) => format!("The system prompt:\n{system}"),
                None => "There is no system prompt; /system TEXT gives one.".to_owned(),
            };
            state.conversation.add(Kind::Notice(Level::Info), &shown);
            state.conversation.follow();
        }
        NONE => {
            state.settings.system = None;
            state.hint = Some("no system prompt from now on".to_owned());
        }
        _ => {
            state.settings.system = Some(text);
            let word = if had_one { "another" } else { "a" };
            state.hint = Some(format!("{word} system prompt holds from the next message on"));
        }
    }
}

/// Without a value, shows the one in force.
pub fn set_parameter(state: &mut State, name: &str, value: &str) {
    let Some(parameter) = Parameter::named(name) else {
        let names: Vec<&str> = Parameter::ALL.iter().map(|parameter| parameter.name()).collect();
        state.hint = Some(match name {
            "" => format!("/set takes a name and a value; there are {}", names.join(", ")),
            name => format!("'{}' is none of {}", one_line(name), names.join(", ")),
        });
        return;
    };
    if state.server.is_some() && !parameter.is_of_openai() {
        state.hint = Some(format!("over --connect the server decides {}", parameter.name()));
        return;
    }
    let result = match value {
        "" => {
            let (name, now) = (parameter.name(), parameter.value(&state.settings));
            state.hint = Some(format!("{name} is {now}; it can be {}", parameter.expected()));
            return;
        }
        DEFAULT => {
            parameter.copy(&state.defaults, &mut state.settings);
            state.changed.retain(|changed| *changed != parameter);
            Ok(())
        }
        value => {
            let result = parameter.set(&mut state.settings, value);
            if result.is_ok() && !state.changed.contains(&parameter) {
                state.changed.push(parameter);
            }
            result
        }
    };
    match result {
        Ok(()) => {
            state.composer.take();
            let value = parameter.value(&state.settings);
            state.hint = Some(format!("{} is {value} from the next message on", parameter.name()));
        }
        Err(error) => state.hint = Some(one_line(&error.to_string())),
    }
}
