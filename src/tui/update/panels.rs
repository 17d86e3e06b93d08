//! What keys do to the panels: open the next one, zoom it, put them away, and go through an answer token by token.

use super::super::conversation::Block;
use super::super::keys::{Action, Context, Step};
use super::super::panels::{self, Panel, TokenCursor};
use super::super::state::{Overlay, State};
use super::super::trace::stall_threshold;

/// Tokens of a long step.
const FAR: usize = 10;

/// Whether the action was about panels.
pub fn act(state: &mut State, action: Action) -> bool {
    match action {
        Action::NextPanel => cycle(state, 1),
        Action::PreviousPanel => cycle(state, -1),
        Action::ZoomPanel => zoom(state),
        Action::Send if state.open_panel().is_some() && state.composer.text().trim().is_empty() => zoom(state),
        Action::HidePanels => hide(state),
        Action::Tokens if state.token().is_some() => leave_tokens(state),
        Action::Tokens => enter_tokens(state),
        Action::Token(step) => go(state, step),
        Action::Escape if state.is_zoomed() => state.panels.zoomed = false,
        Action::Escape if state.context() == Context::Token => leave_tokens(state),
        _ => return false,
    }
    true
}

/// Opens the next panel, and after the last one none.
fn cycle(state: &mut State, step: isize) {
    let all = panels::ALL;
    let at = state.open_panel().and_then(|panel| all.iter().position(|p| *p == panel));
    if at.is_none() {
        state.panels.zoomed = false;
    }
    let next = match at {
        Some(at) => at as isize + step,
        None if step > 0 => 0,
        None => all.len() as isize - 1,
    };
    state.overlay = usize::try_from(next).ok().and_then(|at| all.get(at)).map(|panel| Overlay::Panel(*panel));
    show_token(state);
}

/// The open panel in the place of the conversation; where none is open, the chart of the token that is looked at, or the
/// first.
fn zoom(state: &mut State) {
    match state.open_panel() {
        Some(_) => state.panels.zoomed = !state.panels.zoomed,
        None => {
            let panel = if state.token().is_some() { Panel::Latency } else { panels::ALL[0] };
            state.overlay = Some(Overlay::Panel(panel));
            state.panels.zoomed = true;
        }
    }
}

fn hide(state: &mut State) {
    state.panels.hidden = !state.panels.hidden;
    if state.panels.hidden {
        state.hint = Some("panels are hidden; F6 shows them, Tab opens one".to_owned());
    }
    show_token(state);
}

/// Begins at the last token of the selected answer; else of the one that is lowest in view, or of the last one.
fn enter_tokens(state: &mut State) {
    state.lay_out();
    let has_tokens = |block: &usize| state.conversation.blocks().get(*block).is_some_and(is_traced);
    let selected = state.chats.selected.take().and_then(|id| state.conversation.block_of(id)).filter(has_tokens);
    let in_view = state.conversation.visible().iter().rev().map(|(block, _)| *block).find(has_tokens);
    let last = || (0..state.conversation.blocks().len()).rev().find(has_tokens);
    let Some(block) = selected.or(in_view).or_else(last) else {
        state.hint = Some("no answer here has tokens to look at yet".to_owned());
        return;
    };
    let followed = state.conversation.is_following();
    state.panels.cursor = Some(TokenCursor { block, token: usize::MAX, followed });
    go(state, Step::Last);
}

fn leave_tokens(state: &mut State) {
    let cursor = state.panels.cursor.take();
    if state.open_panel() == Some(Panel::Latency) {
        state.overlay = None;
    }
    if cursor.is_some_and(|cursor| cursor.followed) {
        state.conversation.follow();
    }
}

fn is_traced(block: &Block) -> bool {
    !block.trace().is_empty()
}

fn go(state: &mut State, step: Step) {
    let (Some((block, at)), Some(cursor)) = (state.token(), state.panels.cursor) else { return };
    let tokens = block.trace().tokens();
    let last = tokens.len() - 1;
    let threshold = stall_threshold(&block.trace().latencies());
    let stalled = |token: &usize| {
        let token = tokens[*token];
        !token.first && threshold.is_some_and(|threshold| token.took > threshold)
    };
    let traced = |block: &usize| state.conversation.blocks().get(*block).is_some_and(is_traced);
    let blocks = state.conversation.blocks().len();
    let (block, token) = match step {
        Step::Back => (None, at.saturating_sub(1)),
        Step::On => (None, at + 1),
        Step::FarBack => (None, at.saturating_sub(FAR)),
        Step::FarOn => (None, at + FAR),
        Step::First => (None, 0),
        Step::Last => (None, last),
        Step::StallBefore => (None, (0..at).rev().find(stalled).unwrap_or(at)),
        Step::StallAfter => (None, (at + 1..=last).find(stalled).unwrap_or(at)),
        Step::AnswerBefore => ((0..cursor.block).rev().find(traced), usize::MAX),
        Step::AnswerAfter => ((cursor.block + 1..blocks).find(traced), usize::MAX),
    };
    let stays = block.is_none() && token == usize::MAX;
    let hint = match step {
        Step::StallBefore | Step::StallAfter if token == at => Some("no stall there"),
        Step::AnswerBefore if stays => Some("this is the first answer with tokens to look at"),
        Step::AnswerAfter if stays => Some("this is the last answer"),
        _ => None,
    };
    state.hint = hint.map(str::to_owned);
    let block = block.unwrap_or(cursor.block);
    let last = state.conversation.blocks()[block].trace().tokens().len() - 1;
    let token = if stays { at } else { token.min(last) };
    state.panels.cursor = Some(TokenCursor { block, token, ..cursor });
    show_token(state);
}

/// The chart and the words of the token that is looked at, if one is, are in view: where the column has no chart, it opens.
pub(super) fn show_token(state: &mut State) {
    let (Some((block, index)), Some(cursor)) = (state.token(), state.panels.cursor) else { return };
    let token = block.trace().tokens()[index];
    let layout = state.layout();
    if state.open_panel() != Some(Panel::Latency)
        && !panels::arrange(state, layout.panels).iter().any(|p| p.panel == Panel::Latency)
    {
        state.overlay = Some(Overlay::Panel(Panel::Latency));
        state.panels.zoomed = false;
    }
    state.lay_out();
    state.conversation.reveal_text(cursor.block, token.text().start, token.thinks);
}
