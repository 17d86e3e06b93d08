//! The instrument panels, one file each, and how they share the column beside the conversation.
//!
//! Every panel answers one question and is a function from the state to lines; it never draws outside them. `view` puts
//! them on the screen, `shown` says which of them a reader wants to see.

pub mod context;
pub mod cost;
pub mod device;
pub mod lane;
pub mod latency;
pub mod route;
mod shown;
pub mod speed;
pub mod view;

use ratatui::layout::Rect;

use super::skin::{Skin, Text};
use super::state::State;

pub use shown::{Past, Sampled, Shown, TokenCursor};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panel {
    /// Which silicon?
    Lane,
    /// How fast?
    Speed,
    /// How steady?
    Latency,
    /// Why there?
    Route,
    /// How full?
    Context,
    /// What does it cost the machine?
    Device,
    /// What did it take?
    Cost,
}

/// From the top down.
pub const ALL: [Panel; 7] =
    [Panel::Lane, Panel::Speed, Panel::Latency, Panel::Route, Panel::Context, Panel::Device, Panel::Cost];

/// What folds away first when the screen is low.
const FOLD: [Panel; 6] = [Panel::Cost, Panel::Device, Panel::Context, Panel::Route, Panel::Latency, Panel::Speed];

/// Rows of the latency chart that are worth a panel, and those beyond which it grows no more.
const CHART_ROWS: (usize, usize) = (2, 7);

impl Panel {
    pub fn title(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Speed => "speed",
            Self::Latency => "token latency, ms",
            Self::Route => "route",
            Self::Context => "context",
            Self::Device => "device",
            Self::Cost => "cost",
        }
    }

    /// The panel's lines, at most `columns` wide and `rows` in number.
    pub fn lines(self, state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
        let lines = match self {
            Self::Lane => lane::lines(state, skin, columns, rows),
            Self::Speed => speed::lines(state, skin, columns, rows),
            Self::Latency => latency::lines(state, skin, columns, rows),
            Self::Route => route::lines(state, skin, columns),
            Self::Context => context::lines(state, skin, columns, rows),
            Self::Device => device::lines(state, skin, columns, rows),
            Self::Cost => cost::lines(state, skin, columns, rows),
        };
        lines.into_iter().take(rows).map(|line| skin.fit(line, columns)).collect()
    }

    /// What the panel has to explain, at the right of its heading.
    fn legend(self, state: &State, skin: &Skin) -> Option<Text> {
        match self {
            Self::Latency => latency::legend(state, skin),
            Self::Context if state.assumes_context() => Some(Text::from(skin.dim("limit est."))),
            Self::Route | Self::Context => route::legend(state, skin),
            Self::Lane | Self::Speed | Self::Device | Self::Cost => None,
        }
    }

    /// Rows that the panel wants besides its heading, whatever it shows now: panels that stand still are easier to read.
    fn wanted(self, state: &State) -> usize {
        match self {
            Self::Lane => lane::rows(state),
            Self::Speed => speed::ROWS,
            Self::Latency => CHART_ROWS.0 + 1,
            Self::Route => route::rows(state),
            Self::Context => context::ROWS,
            Self::Device => device::ROWS,
            Self::Cost => cost::rows(state),
        }
    }

    /// Rows with which it makes do where room is short.
    fn least(self, state: &State, columns: usize) -> usize {
        match self {
            Self::Device => device::least_rows(state, columns),
            Self::Cost => 1,
            panel => panel.wanted(state),
        }
    }
}

/// One panel in the column: its heading stands in row `y`, `rows` lines follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub panel: Panel,
    pub y: u16,
    pub rows: u16,
}

/// Shares the column: what does not fit makes do with less, then folds away, but not the panel that is open; what is left
/// over makes the chart higher and then lets the panels breathe.
pub fn arrange(state: &State, area: Rect) -> Vec<Place> {
    if area.is_empty() {
        return Vec::new();
    }
    let columns = usize::from(area.width).saturating_sub(2);
    let height = usize::from(area.height);
    let open = state.open_panel();
    let mut shown: Vec<(Panel, usize)> = ALL.map(|panel| (panel, panel.wanted(state))).to_vec();
    // The column's first heading stands in the rule above it.
    let need = |shown: &[(Panel, usize)]| shown.iter().map(|(_, rows)| 1 + rows).sum::<usize>().saturating_sub(1);
    if need(&shown) > height {
        shown.iter_mut().for_each(|(panel, rows)| *rows = panel.least(state, columns));
    }
    for panel in FOLD {
        if need(&shown) > height && open != Some(panel) {
            shown.retain(|(shown, _)| *shown != panel);
        }
    }
    let mut spare = height.saturating_sub(need(&shown));
    let mut give = |rows: &mut usize, wanted: usize| {
        let given = spare.min(wanted);
        *rows += given;
        spare -= given;
    };
    for (panel, rows) in &mut shown {
        give(rows, panel.wanted(state).saturating_sub(*rows));
    }
    let chart = shown.iter().position(|(panel, _)| *panel == Panel::Latency);
    if let Some(chart) = chart {
        give(&mut shown[chart].1, 2);
    }
    // An empty row after each panel, as far as there are enough for all of them.
    let between = shown.len().saturating_sub(1);
    let gaps = usize::from(between > 0 && spare >= between);
    spare -= gaps * between;
    if let Some(chart) = chart {
        let most = CHART_ROWS.1.max(height / 4) + 1;
        shown[chart].1 += spare.min(most.saturating_sub(shown[chart].1));
    }
    let mut y = area.y.saturating_sub(1);
    let mut places = Vec::new();
    for (panel, rows) in shown {
        let rows = u16::try_from(rows).unwrap_or(u16::MAX).min((area.bottom() - 1).saturating_sub(y));
        places.push(Place { panel, y, rows });
        y = y.saturating_add(1 + rows + gaps as u16).min(area.bottom() - 1);
    }
    places
}
