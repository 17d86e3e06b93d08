//! What a conversation says of its answers: instructions, numbers, whether they think. It is kept with it and comes back with
//! it. Model, lane and policy are of the session: they say where this machine answers, not how.

use std::collections::BTreeMap;

use crate::engine::{EngineSnapshot, Parameter};
use crate::store::{Record, Tree};

use super::super::super::chats::{Brought, Given};
use super::super::super::conversation::{Kind, Level};
use super::super::super::state::State;
use super::super::super::text::sanitize::one_line;
use super::super::super::text::truncate;

/// Among the numbers, whether answers think.
const THINKING: &str = "thinking";

/// What is new of it since the last answer.
pub(super) fn changes(state: &State) -> Vec<Record> {
    let tree = &state.chats.tree;
    let system = state.settings.system.as_deref();
    let system = (tree.system() != system).then(|| Record::System(system.map(str::to_owned)));
    let numbers = numbers(state);
    let numbers = (*tree.numbers() != numbers).then_some(Record::Set(numbers));
    system.into_iter().chain(numbers).collect()
}

/// What was set by hand.
fn numbers(state: &State) -> BTreeMap<String, String> {
    let value = |parameter: &Parameter| (parameter.name().to_owned(), parameter.value(&state.settings));
    let mut numbers: BTreeMap<String, String> = state.changed.iter().map(value).collect();
    if let Some(thinks) = state.settings.thinking.filter(|_| state.settings.thinking != state.defaults.thinking) {
        numbers.insert(THINKING.to_owned(), on_or_off(thinks).to_owned());
    }
    numbers
}

fn on_or_off(thinks: bool) -> &'static str {
    if thinks { "on" } else { "off" }
}

/// Puts in force what the conversation that was opened says, but for what the command line says, and tells of it.
pub(super) fn bring(state: &mut State, given: &Given) {
    let own = (state.settings.clone(), state.changed.clone());
    let mut told = Vec::new();
    let (settings, tree) = (&mut state.settings, &state.chats.tree);
    let mut brought = Vec::new();
    for (name, value) in tree.numbers() {
        let Some(parameter) = Parameter::named(name) else { continue };
        let is_ours = given.parameters.contains(&parameter) || (state.server.is_some() && !parameter.is_of_openai());
        if is_ours || parameter.set(settings, value).is_err() {
            continue;
        }
        brought.push(parameter);
        if !state.changed.contains(&parameter) {
            state.changed.push(parameter);
        }
        let now = parameter.value(settings);
        if now != parameter.value(&own.0) {
            told.push(format!("{} {now}", parameter.name()));
        }
    }
    if let Some(thinks) = thinking(tree).filter(|_| !given.thinking) {
        settings.thinking = Some(thinks);
        if settings.thinking != own.0.thinking {
            told.push(format!("thinking {}", on_or_off(thinks)));
        }
    }
    if let Some(system) = tree.system().filter(|_| !given.system) {
        settings.system = Some(system.to_owned());
        if settings.system != own.0.system {
            let words: String = system.chars().take(200).collect();
            told.push(format!("the system prompt '{}'", truncate(&one_line(&words), 60, "...")));
        }
    }
    state.chats.brought =
        Some(Box::new(Brought { own: own.0, own_changed: own.1, theirs: state.settings.clone(), parameters: brought }));
    if !told.is_empty() {
        let text = format!("With this conversation come back: {}.", told.join(", "));
        state.conversation.add(Kind::Notice(Level::Info), &text);
    }
    if let Some(snapshot) = state.snapshot()
        && let Some(text) = other_model(state, snapshot)
    {
        state.conversation.add(Kind::Notice(Level::Info), &text);
    }
}

fn thinking(tree: &Tree) -> Option<bool> {
    match tree.numbers().get(THINKING)?.as_str() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// What is of the opened conversation alone is left with it, unless a person changed it since.
pub(super) fn give_back(state: &mut State) {
    let Some(brought) = state.chats.brought.take() else { return };
    let Brought { own, own_changed, theirs, parameters } = *brought;
    let settings = &mut state.settings;
    if settings.system == theirs.system {
        settings.system = own.system.clone();
    }
    if settings.thinking == theirs.thinking {
        settings.thinking = own.thinking;
    }
    for parameter in parameters {
        if parameter.value(settings) != parameter.value(&theirs) {
            continue;
        }
        if own_changed.contains(&parameter) {
            parameter.copy(&own, settings);
        } else {
            // Those of the model, which may be another one by now.
            parameter.copy(&state.defaults, settings);
            state.changed.retain(|changed| *changed != parameter);
        }
    }
}

/// Another model answered in this conversation than the one that will.
pub(in super::super) fn other_model(state: &State, snapshot: &EngineSnapshot) -> Option<String> {
    let path = state.chats.tree.path();
    let last = path.into_iter().rev().find_map(|message| message.answer.as_ref())?;
    let (before, now) = (one_line(&last.model), one_line(&snapshot.model));
    let way = if state.models.are_there { "; /model loads another one" } else { "" };
    (!before.is_empty() && before != now)
        .then(|| format!("{before} answered here last; {now} answers from now on{way}."))
}
