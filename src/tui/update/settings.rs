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
            let Some(system) = &state.settings.system else {
                state.hint = Some("there is no system prompt; /system TEXT gives one".to_owned());
                return;
            };
            state.conversation.add(Kind::Notice(Level::Info), &format!("The system prompt:\n{system}"));
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
            "" => values(state),
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
            let caution = caution(state, parameter).map(|caution| format!("; {caution}")).unwrap_or_default();
            state.hint = Some(format!("{} is {value} from the next message on{caution}", parameter.name()));
        }
        // It must not read as if it were set.
        Err(error) => {
            let (value, name) = (one_line(&error.value), error.name);
            state.hint = Some(format!("'{value}' is no value for {name}; it must be {}", error.expected));
        }
    }
}

/// All that can be set here, with what holds. What a server does unasked is not known.
fn values(state: &State) -> String {
    let all = Parameter::ALL.into_iter().filter(|parameter| state.server.is_none() || parameter.is_of_openai());
    let each = all.map(|parameter| match state.server.is_none() || state.changed.contains(&parameter) {
        true => format!("{} {}", parameter.name(), parameter.value(&state.settings)),
        false => parameter.name().to_owned(),
    });
    format!("{}; /set NAME VALUE changes one", each.collect::<Vec<_>>().join(", "))
}

/// Above it the draw is nearly even, and OpenAI's interface takes no more.
const HOT: f32 = 2.0;

/// What a value means that is allowed, but hardly wanted.
fn caution(state: &State, parameter: Parameter) -> Option<String> {
    let lanes = || state.snapshot().into_iter().flat_map(|snapshot| &snapshot.lanes);
    match parameter {
        Parameter::Temperature if state.settings.sampling.temperature > HOT => {
            Some("above 2 the words come nearly at random".to_owned())
        }
        Parameter::MaxTokens => {
            let most = lanes().map(|lane| lane.context_limit).max().filter(|most| *most > 0)?;
            (state.settings.max_tokens > most).then(|| format!("no lane holds more than {most}"))
        }
        _ => None,
    }
}
