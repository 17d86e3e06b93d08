//! The palette of commands: while one is typed, those that fit stand above the composer, then what the chosen one takes.
//!
//! A row's id is the text that it stands for. One that ends with a space wants something behind it.

use clap::ValueEnum;
use ratatui::text::Line;

use super::command::{self, COMMANDS, Command};
use super::picker::{Item, Picker, Purpose};
use super::picker_view;
use super::skin::{Skin, Text};
use super::state::State;
use super::text::width;
use crate::engine::{LaneState, LaneStatus, Parameter, Policy};
use crate::race::{self, Order};

/// Rows of the palette, its heading among them, where there is room.
const MOST_ROWS: usize = 10;

#[derive(Debug, Default)]
pub struct Completion {
    pub list: Option<Picker>,
    /// The reader wants none until the next command.
    pub closed: bool,
}

impl Completion {
    pub fn is_open(&self) -> bool {
        self.list.is_some()
    }

    /// Rows that it would like of a conversation of so many.
    pub fn rows(&self, conversation: u16) -> u16 {
        let Some(list) = &self.list else { return 0 };
        let wanted = (list.rows().0.len() + 1).min(MOST_ROWS);
        u16::try_from(wanted).unwrap_or(u16::MAX).min(conversation / 2)
    }

    /// The heading, then the rows.
    pub fn lines(&self, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
        let Some(list) = &self.list else { return Vec::new() };
        // A choice says more than what it is one of.
        let mut lines = if rows > 1 { vec![heading(list, skin, columns)] } else { Vec::new() };
        let choices = picker_view::choices(list, skin, columns.saturating_sub(2), rows - lines.len());
        lines.extend(choices.into_iter().map(|choice| {
            let margin = std::iter::once(skin.plain(" "));
            Line::from(margin.chain(choice.spans).collect::<Vec<_>>())
        }));
        lines
    }
}

fn heading(list: &Picker, skin: &Skin, columns: usize) -> Text {
    let title = format!(" {} ", list.title);
    let count = format!(" {} ", picker_view::count(list));
    let rule = columns.saturating_sub(width(&title) + width(&count) + 2);
    let border = |count: usize| skin.styled(skin.theme.border, skin.glyphs.rule(count));
    let spans = vec![border(1), skin.styled(skin.theme.accent, title), border(rule), skin.dim(count), border(1)];
    skin.fit(Line::from(spans), columns)
}

/// What fits what is typed behind a slash; `None` where nothing does.
pub fn offered(state: &State, typed: &str) -> Option<Picker> {
    let (title, items, filter) = match command::split(typed) {
        (word, None) => ("commands".to_owned(), commands(), word),
        (word, Some(rest)) => (word.to_owned(), arguments(state, word), rest.trim_start()),
    };
    let mut picker = Picker::new(Purpose::Command, title, items);
    picker.set_filter(filter);
    (!picker.rows().0.is_empty()).then_some(picker)
}

/// All that are listed.
pub fn commands() -> Vec<Item> {
    let item = |command: &Command| Item {
        id: if command.is_run_alone() { command.name.to_owned() } else { format!("{} ", command.name) },
        label: command.name.to_owned(),
        detail: command.help.to_owned(),
    };
    COMMANDS.iter().filter(|command| !command.help.is_empty()).map(item).collect()
}

/// What a command takes, where there is a list of it.
pub fn arguments(state: &State, command: &str) -> Vec<Item> {
    let item = |label: &str, detail: String| Item { id: format!("{command} {label}"), label: label.to_owned(), detail };
    match command {
        "/lane" => {
            let lanes = state.snapshot().map(|snapshot| snapshot.lanes.as_slice()).unwrap_or_default();
            let lanes = lanes.iter().map(|lane| {
                let emulated = if lane.emulated { ", emulated" } else { "" };
                let stands = match &lane.state {
                    LaneState::Ready => "ready".to_owned(),
                    LaneState::Loading { .. } => "loading".to_owned(),
                    LaneState::Absent { reason } => format!("absent: {reason}"),
                    LaneState::Failed { reason } => format!("failed: {reason}"),
                };
                item(lane.id.name(), format!("{stands}{emulated}"))
            });
            lanes.chain([item("auto", "let ortalk choose".to_owned())]).collect()
        }
        "/race" => races(state, command),
        "/policy" => {
            let policies = Policy::value_variants().iter().map(|policy| {
                let help = policy.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
                let now = if *policy == state.settings.policy { "now: " } else { "" };
                item(policy.name(), format!("{now}{}", help.unwrap_or_default()))
            });
            policies.collect()
        }
        "/set" => {
            // What a server does unasked is not known here.
            let is_known = |parameter: &Parameter| state.server.is_none() || state.changed.contains(parameter);
            let all = Parameter::ALL.into_iter().filter(|parameter| state.server.is_none() || parameter.is_of_openai());
            let parameters = all.map(|parameter| {
                let now = is_known(&parameter).then(|| format!("now {}; ", parameter.value(&state.settings)));
                Item {
                    id: format!("{command} {} ", parameter.name()),
                    label: parameter.name().to_owned(),
                    detail: format!("{}{}", now.unwrap_or_default(), parameter.help()),
                }
            });
            parameters.collect()
        }
        _ => {
            let takes = COMMANDS.iter().find(|known| known.name == command).map(|known| known.takes);
            let choices: &[&str] = if takes == Some(command::ON_OR_OFF) { &["on", "off"] } else { &[] };
            choices.iter().map(|choice| item(choice, String::new())).collect()
        }
    }
}

/// Pairs of lanes that can run, and all of them where they are more, with how they would run. A message may follow.
fn races(state: &State, command: &str) -> Vec<Item> {
    let lanes = state.snapshot().map(|snapshot| snapshot.lanes.as_slice()).unwrap_or_default();
    let able: Vec<&LaneStatus> = lanes.iter().filter(|lane| !matches!(lane.state, LaneState::Absent { .. })).collect();
    let pairs = able
        .iter()
        .enumerate()
        .flat_map(|(at, first)| able.iter().skip(at + 1).map(move |second| vec![*first, *second]));
    let mut races: Vec<Vec<&LaneStatus>> = pairs.collect();
    if able.len() > 2 {
        races.push(able.clone());
    }
    let item = |lanes: Vec<&LaneStatus>| {
        let label = lanes.iter().map(|lane| lane.id.name()).collect::<Vec<_>>().join(",");
        let how = match race::order(&lanes) {
            Order::SideBySide => "side by side",
            Order::InTurn { .. } => "in turn",
        };
        let server = if lanes.iter().any(|lane| lane.remote.is_some()) { ", and the server" } else { "" };
        Item { id: format!("{command} {label} "), label, detail: format!("{how}{server}") }
    };
    races.into_iter().map(item).collect()
}
