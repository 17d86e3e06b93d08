//! Draws a race, over the whole screen: a table of the lanes, what each of them says, and in the end the verdict.
//!
//! Side by side where there is room for two columns, one above the other on a screen of medium width, and on a small one
//! the lane alone that the reader looks at.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::race::table::{self, lines};
use crate::race::verdict::{Measure, sentences};
use crate::race::{Order, Racer, Standing, is_loading};

use super::composer_view;
use super::layout::{Layout, Mode};
use super::race::RaceScreen;
use super::skin::{Skin, Text, pad_left, pad_right, width};
use super::state::State;
use super::text::sanitize::{one_line, sanitize};
use super::text::{self, wrap};

/// A column of text that is narrower is hard to read.
const LEAST_COLUMN: u16 = 30;

pub fn draw(state: &mut State, skin: &Skin, frame: &mut Frame<'_>) {
    let most = draw_all(state, skin, frame);
    if let Some(screen) = &mut state.race {
        screen.scroll = screen.scroll.min(most);
    }
}

/// Returns how far the text that the reader looks at can be scrolled.
fn draw_all(state: &State, skin: &Skin, frame: &mut Frame<'_>) -> usize {
    let Some(screen) = &state.race else { return 0 };
    let area = frame.area();
    let buffer = frame.buffer_mut();
    buffer.set_style(area, skin.theme.text);
    let mode = Layout::new(area.width, area.height, 1, 0, true).mode;
    let columns = usize::from(area.width);
    let has_why = area.height >= 12;
    let mut top = vec![title(state, screen, skin, columns, has_why)];
    if let (Order::InTurn { why }, true) = (&screen.race.start.order, has_why) {
        let mut why = format!(" one after the other: {}", one_line(why));
        if text::width(&why) > columns {
            why = " one after the other, for the cores they share".to_owned();
        }
        top.push(skin.fit(Line::from(skin.dim(why)), columns));
    }
    top.extend(table_lines(state, screen, skin, columns));
    let footer = u16::from(area.height > top.len() as u16 + 1);
    let mut rest = below(area, top.len() as u16);
    for (y, line) in (area.y..area.bottom()).zip(&top) {
        buffer.set_line(area.x, y, line, area.width);
    }
    if footer > 0 {
        rest.height -= 1;
        let line = footer_line(state, screen, skin, columns);
        buffer.set_line(area.x, rest.bottom(), &line, area.width);
    }
    let verdict = verdict_lines(screen, skin, columns, usize::from(rest.height) / 2);
    let texts = Rect { height: rest.height - verdict.len() as u16, ..rest };
    for (y, line) in (texts.bottom()..rest.bottom()).zip(&verdict) {
        buffer.set_line(area.x, y, line, area.width);
    }
    let below = (!verdict.is_empty()).then_some(texts.bottom());
    draw_texts(screen, skin, mode, texts, below, buffer)
}

fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

/// Says how the lanes run, unless the line below does.
fn title(state: &State, screen: &RaceScreen, skin: &Skin, columns: usize, has_why: bool) -> Text {
    let start = &screen.race.start;
    let mut left = vec![
        skin.styled(skin.theme.accent, " ortalk"),
        skin.styled(skin.theme.strong, format!("  {}", one_line(&start.model))),
        skin.dot(),
        skin.plain("race"),
        skin.dot(),
        skin.dim(one_line(&start.prompt.chars().take(400).collect::<String>())),
    ];
    if let Some(replay) = &state.replay {
        left.insert(1, skin.styled(skin.theme.warning, format!("  {}", replay.label())));
    }
    let how = match (&start.order, columns) {
        (_, ..60) => "",
        (Order::SideBySide, _) => "side by side ",
        (Order::InTurn { .. }, _) if has_why => "",
        (Order::InTurn { .. }, _) => "one after the other ",
    };
    skin.spread(Line::from(left), Line::from(skin.dim(how)), columns)
}

/// The measures that there is room for, with their columns.
fn measures(columns: usize) -> Vec<(Measure, usize)> {
    use Measure::{Energy, FirstToken, P50, P99, Rate, Sigma};
    match columns {
        ..40 => vec![(Rate, 9)],
        40..60 => vec![(FirstToken, 9), (Rate, 9), (P99, 7)],
        60..100 => vec![(FirstToken, 9), (Rate, 9), (P50, 7), (P99, 7), (Sigma, 6), (Energy, 12)],
        _ => vec![(FirstToken, 13), (Rate, 11), (P50, 9), (P99, 9), (Sigma, 8), (Energy, 14)],
    }
}

/// Columns of the sign, the lane's name and its mark.
const NAME: usize = 15;

fn table_lines(state: &State, screen: &RaceScreen, skin: &Skin, columns: usize) -> Vec<Text> {
    let measures = measures(columns);
    let heads = measures.iter().map(|(measure, columns)| {
        let head = match (measure, columns) {
            (Measure::FirstToken, ..12) => "first".to_owned(),
            (Measure::Rate, ..10) => "tok/s".to_owned(),
            (measure, _) => measure.head(skin.glyphs.sigma),
        };
        pad_left(&head, *columns)
    });
    let head = format!("{}{}", " ".repeat(NAME), heads.collect::<String>());
    let mut out = vec![skin.fit(Line::from(skin.dim(head)), columns)];
    let over = screen.is_over();
    let is_loading = |lane| state.snapshot().is_some_and(|engine| is_loading(engine, lane));
    for (mut line, racer) in lines(&screen.race).into_iter().zip(&screen.race.racers) {
        if line.standing == Standing::Waiting && is_loading(line.lane) {
            line.state = "loads".to_owned();
        }
        out.push(skin.fit(table_line(&line, racer, &measures, over, skin, columns), columns));
    }
    out
}

fn table_line(
    line: &table::Line,
    racer: &Racer,
    measures: &[(Measure, usize)],
    over: bool,
    skin: &Skin,
    columns: usize,
) -> Text {
    let mut spans = name(line.lane.name(), line.emulated, &line.standing, skin);
    let used = width(&Line::from(spans.clone()));
    spans.push(skin.plain(" ".repeat(NAME.saturating_sub(used))));
    if let Standing::Absent(reason) | Standing::Failed(reason) = &line.standing {
        spans.push(skin.styled(skin.theme.error, format!("  {}: {}", line.state, one_line(reason))));
        return Line::from(spans);
    }
    for (measure, columns) in measures {
        let at = Measure::ALL.iter().position(|known| known == measure).unwrap_or_default();
        spans.extend(number(&line.cells[at], *measure, *columns, racer, over, skin));
    }
    // The state is said beside the text, where there is no room for it here.
    if columns >= 76 {
        let gap = if columns >= 100 { "    " } else { " " };
        let state = if columns < 100 { line.state.replace("finished ", "") } else { line.state.clone() };
        spans.push(skin.dim(format!("{gap}{}", pad_right(&state, if columns < 100 { 7 } else { 16 }))));
    }
    if let Some(lead) = &line.lead {
        spans.push(skin.styled(skin.theme.good, format!(" {} {lead}", skin.glyphs.leads)));
    }
    Line::from(spans)
}

fn number(
    cell: &table::Cell,
    measure: Measure,
    columns: usize,
    racer: &Racer,
    over: bool,
    skin: &Skin,
) -> Vec<Span<'static>> {
    let Some(text) = &cell.text else {
        // Why there is none is in the verdict.
        let is_unknown = measure == Measure::Energy && racer.figures().no_joules.is_some();
        let said = if is_unknown { "unavailable" } else { skin.glyphs.absent };
        return vec![skin.dim(pad_left(said, columns))];
    };
    let best = over && cell.best;
    let sign = if best { skin.glyphs.chosen } else { "" };
    let space = columns.saturating_sub(text::width(text) + text::width(sign));
    let style = if best { skin.theme.good } else { skin.theme.number };
    vec![skin.plain(" ".repeat(space)), skin.styled(skin.theme.good, sign), skin.styled(style, text.clone())]
}

/// ` ● npu emulated`.
fn name(lane: &str, emulated: bool, standing: &Standing, skin: &Skin) -> Vec<Span<'static>> {
    let glyphs = &skin.glyphs;
    let (sign, style) = match standing {
        Standing::Prefill(_) | Standing::Decode => (glyphs.running, skin.theme.lane),
        Standing::Done => (glyphs.chosen, skin.theme.good),
        Standing::Waiting => (glyphs.ready, skin.theme.dim),
        Standing::Absent(_) | Standing::Failed(_) => (glyphs.rejected, skin.theme.error),
        Standing::Cancelled => (glyphs.rejected, skin.theme.dim),
    };
    let mut spans = vec![skin.styled(style, format!(" {sign} {lane}"))];
    if emulated {
        spans.push(skin.styled(skin.theme.warning, " emulated"));
    }
    spans
}

fn verdict_lines(screen: &RaceScreen, skin: &Skin, columns: usize, most: usize) -> Vec<Text> {
    if most < 2 {
        return Vec::new();
    }
    let mut out = vec![Line::from(skin.styled(skin.theme.border, skin.glyphs.rule(columns)))];
    if !screen.is_over() {
        return out;
    }
    for sentence in sentences(&screen.race) {
        let sentence = one_line(&sentence);
        for line in wrap::wrap(&sentence, columns.saturating_sub(2).max(1)) {
            out.push(Line::from(skin.plain(format!(" {}", &sentence[line.start..line.end]))));
        }
    }
    out.truncate(most);
    out
}

fn footer_line(state: &State, screen: &RaceScreen, skin: &Skin, columns: usize) -> Text {
    if let Some(message) = composer_view::message(state, skin) {
        return skin.fit(message, columns);
    }
    let lane = screen.focused().map_or("", |racer| racer.entrant.lane.name());
    let keeps = screen.asks && screen.focused().is_some_and(|racer| racer.done().next().is_some());
    let leave = if keeps { format!("go on with the answer of {lane}") } else { "back to the chat".to_owned() };
    let first = if screen.is_over() { ("Enter", leave) } else { ("Esc", "cancel".to_owned()) };
    let mut line = Line::default();
    for (key, what) in [first, ("Tab", "the other lane".to_owned()), ("PgUp PgDn", "scroll".to_owned())] {
        if width(&line) + key.len() + what.len() + 4 <= columns {
            line.spans.extend([skin.plain(format!("   {key}")), skin.dim(format!(" {what}"))]);
        }
    }
    line
}

/// `rule` is the row of the rule below. Returns as `draw_text`.
fn draw_texts(
    screen: &RaceScreen,
    skin: &Skin,
    mode: Mode,
    area: Rect,
    rule: Option<u16>,
    buffer: &mut Buffer,
) -> usize {
    let count = screen.race.racers.len() as u16;
    if area.is_empty() || count == 0 {
        return 0;
    }
    let mut most = 0;
    match mode {
        Mode::Wide if area.width / count >= LEAST_COLUMN => {
            let each = area.width / count;
            for index in 0..count {
                let x = area.x + index * each;
                let is_last = index + 1 == count;
                let width = if is_last { area.right() - x } else { each };
                let column = Rect { x, width, ..area };
                most = most.max(draw_text(screen, usize::from(index), skin, column, buffer));
                if !is_last {
                    let x = column.right() - 1;
                    for y in area.y + 1..area.bottom() {
                        buffer.set_stringn(x, y, skin.glyphs.vertical, 1, skin.theme.border);
                    }
                    buffer.set_stringn(x, area.y, skin.glyphs.tee_down, 1, skin.theme.border);
                    if let Some(rule) = rule {
                        buffer.set_stringn(x, rule, skin.glyphs.tee_up, 1, skin.theme.border);
                    }
                }
            }
        }
        Mode::Wide | Mode::Medium if area.height / count >= 4 => {
            let each = area.height / count;
            for index in 0..count {
                let y = area.y + index * each;
                let height = if index + 1 == count { area.bottom() - y } else { each };
                let part = Rect { y, height, ..area };
                most = most.max(draw_text(screen, usize::from(index), skin, part, buffer));
            }
        }
        _ => most = draw_text(screen, screen.focus, skin, area, buffer),
    }
    most
}

/// A rule with the lane's name, and its text below. Returns how far it can be scrolled, where the reader looks at it.
fn draw_text(screen: &RaceScreen, index: usize, skin: &Skin, area: Rect, buffer: &mut Buffer) -> usize {
    let Some(racer) = screen.race.racers.get(index) else { return 0 };
    let is_focused = index == screen.focus;
    let lines = lines(&screen.race);
    let state = lines.get(index).map(|line| line.state.as_str()).unwrap_or_default();
    let style = if is_focused { skin.theme.accent } else { skin.theme.dim };
    let sign = if is_focused { skin.glyphs.prompt } else { skin.glyphs.horizontal };
    let mut heading = vec![
        skin.styled(skin.theme.border, skin.glyphs.rule(1)),
        skin.styled(if is_focused { skin.theme.accent } else { skin.theme.border }, sign),
        skin.styled(style, format!(" {} ", racer.entrant.lane)),
    ];
    if racer.entrant.emulated {
        heading.push(skin.styled(skin.theme.warning, "emulated "));
    }
    let tokens = racer.shown().map_or(0, |run| run.tokens);
    let said = if tokens > 0 { format!("{state}, {tokens} tokens ") } else { format!("{state} ") };
    heading.push(skin.dim(said));
    let used = width(&Line::from(heading.clone()));
    heading.push(skin.styled(skin.theme.border, skin.glyphs.rule(usize::from(area.width).saturating_sub(used))));
    buffer.set_line(area.x, area.y, &skin.fit(Line::from(heading), area.width.into()), area.width);
    let body = Rect { x: area.x + 1, width: area.width.saturating_sub(3), ..below(area, 1) };
    if body.is_empty() {
        return 0;
    }
    let (shown, style) = match racer.standing(screen.race.over) {
        Standing::Absent(reason) | Standing::Failed(reason) => (sanitize(&reason), skin.theme.error),
        _ => (racer.shown().map(|run| sanitize(&run.text)).unwrap_or_default(), skin.theme.text),
    };
    let shown = shown.trim_end();
    let wrapped = wrap::wrap(shown, body.width.into());
    let rows = usize::from(body.height);
    let last = wrapped.len().saturating_sub(rows);
    let scroll = if is_focused { screen.scroll.min(last) } else { 0 };
    let first = if screen.is_over() { scroll } else { last - scroll };
    for (y, line) in (body.y..body.bottom()).zip(&wrapped[first..]) {
        let text = format!("{}{}", " ".repeat(line.indent), &shown[line.start..line.end]);
        buffer.set_line(body.x, y, &Line::from(skin.styled(style, text)), body.width);
    }
    let runs = matches!(racer.standing(screen.race.over), Standing::Decode);
    if let Some(line) = wrapped.last().filter(|_| runs && scroll == 0) {
        let x = body.x + (line.indent + text::width(&shown[line.start..line.end])) as u16;
        let y = body.y + (wrapped.len() - 1 - first) as u16;
        if y < body.bottom() && x < body.right() + 1 {
            buffer.set_stringn(x, y, skin.glyphs.caret, 1, skin.theme.accent);
        }
    }
    if is_focused { last } else { 0 }
}
