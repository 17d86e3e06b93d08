//! Draws a race, over the whole screen: a table of the lanes, what each of them says, and in the end the verdict.
//!
//! Side by side where there is room for two columns, one above the other on a screen of medium width, and on a small one
//! the lane alone that the reader looks at.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::race::table;
use crate::race::verdict::{Measure, sentences};
use crate::race::{Order, Racer, Standing, is_loading};

use super::composer_view;
use super::keys::{Action, Context};
use super::layout::Mode;
use super::race::RaceScreen;
use super::skin::{Skin, Text, pad_left, pad_right, width};
use super::state::State;
use super::text::sanitize::one_line;
use super::text::{self, wrap};
use super::transcript;

/// A column of text that is narrower is hard to read.
const LEAST_COLUMN: u16 = 30;

pub fn draw(state: &mut State, skin: &Skin, frame: &mut Frame<'_>) {
    let Some(parts) = Parts::new(state, skin, frame.area()) else { return };
    let (unfolded, source) = (state.conversation.is_unfolded(), state.conversation.shows_source());
    if let Some(screen) = &mut state.race {
        state.dirty |= screen.lay_out(&parts.bodies(), unfolded, source);
        let height = usize::from(below(parts.place, 1).height);
        screen.lay_out_verdict(parts.said.len(), parts.is_cut, height);
    }
    parts.draw(state, skin, frame.buffer_mut());
}

/// What stands where.
struct Parts {
    area: Rect,
    /// Title and table.
    top: Vec<Text>,
    /// How each lane stands.
    states: Vec<String>,
    /// All of the verdict.
    said: Vec<Text>,
    /// There is no room for it below the texts.
    is_cut: bool,
    /// What of it stands above the footer, below a rule.
    verdict: Vec<Text>,
    has_footer: bool,
    /// Of the texts, or of the verdict where that is read as a whole.
    place: Rect,
    /// A lane's heading and its text, by the lane's number.
    texts: Vec<(usize, Rect)>,
    /// The texts stand side by side.
    beside: bool,
}

impl Parts {
    fn new(state: &State, skin: &Skin, area: Rect) -> Option<Self> {
        let screen = state.race.as_ref()?;
        let mode = Mode::of(area.width, area.height);
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
        let lines = table::lines(&screen.race);
        top.extend(table_lines(state, screen, &lines, skin, columns));
        let states = lines.into_iter().map(|line| line.state).collect();
        let has_footer = area.height > top.len() as u16 + 1;
        let mut rest = below(area, top.len() as u16);
        rest.height -= u16::from(has_footer);
        let said = verdict_lines(screen, skin, columns);
        let mut verdict = below_texts(&said, usize::from(rest.height) / 2, skin, columns);
        let is_cut = !said.is_empty() && verdict.len() < said.len() + 1;
        let reads_verdict = screen.reads_verdict && is_cut;
        if reads_verdict {
            verdict.clear();
        }
        let place = Rect { height: rest.height - verdict.len() as u16, ..rest };
        let (texts, beside) = if reads_verdict { (Vec::new(), false) } else { divide(place, screen, mode) };
        Some(Self { area, top, states, said, is_cut, verdict, has_footer, place, texts, beside })
    }

    /// Where the texts themselves stand, below their headings.
    fn bodies(&self) -> Vec<(usize, Rect)> {
        let body = |area: Rect| Rect { x: area.x + 1, width: area.width.saturating_sub(3), ..below(area, 1) };
        self.texts.iter().map(|(index, area)| (*index, body(*area))).collect()
    }

    fn draw(&self, state: &State, skin: &Skin, buffer: &mut Buffer) {
        let Some(screen) = &state.race else { return };
        let area = self.area;
        buffer.set_style(area, skin.theme.text);
        for (y, line) in (area.y..area.bottom()).zip(&self.top) {
            buffer.set_line(area.x, y, line, area.width);
        }
        let footer = self.has_footer.then(|| footer_line(state, screen, skin, area.width.into()));
        for (y, line) in (self.place.bottom()..area.bottom()).zip(self.verdict.iter().chain(&footer)) {
            buffer.set_line(area.x, y, line, area.width);
        }
        if screen.reads_verdict {
            draw_verdict(screen, &self.said, skin, self.place, buffer);
        }
        let unfolded = state.conversation.is_unfolded();
        for (index, area) in &self.texts {
            let state = self.states.get(*index).map_or("", String::as_str);
            draw_text(screen, *index, state, unfolded, skin, *area, buffer);
        }
        let dividers = self.texts.iter().skip(1).filter(|_| self.beside).map(|(_, area)| area);
        for area in dividers {
            let x = area.x - 1;
            for y in area.y + 1..area.bottom() {
                buffer.set_stringn(x, y, skin.glyphs.vertical, 1, skin.theme.border);
            }
            buffer.set_stringn(x, area.y, skin.glyphs.tee_down, 1, skin.theme.border);
            if !self.verdict.is_empty() {
                buffer.set_stringn(x, self.place.bottom(), skin.glyphs.tee_up, 1, skin.theme.border);
            }
        }
    }
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
        ..40 => vec![(Rate, 11)],
        40..60 => vec![(FirstToken, 8), (Rate, 11), (P99, 7)],
        60..100 => vec![(FirstToken, 8), (Rate, 10), (P50, 7), (P99, 7), (Sigma, 6), (Energy, 11)],
        _ => vec![(FirstToken, 13), (Rate, 11), (P50, 9), (P99, 9), (Sigma, 8), (Energy, 14)],
    }
}

/// Columns of how a lane stands, where that is in the table at all and has a head.
const STATE: usize = 8;

/// The state is said beside the text, where there is no room for it in the table.
fn has_state(columns: usize) -> bool {
    columns >= 76
}

/// Columns of the sign, the lane's name and its mark.
const NAME: usize = 15;

fn table_lines(state: &State, screen: &RaceScreen, lines: &[table::Line], skin: &Skin, columns: usize) -> Vec<Text> {
    let measures = measures(columns);
    let is_narrow = columns < 100;
    let heads = measures.iter().map(|(measure, columns)| {
        let head = match (measure, columns) {
            (Measure::FirstToken, ..12) => "first".to_owned(),
            (Measure::Rate, _) if is_narrow => "tok/s".to_owned(),
            (measure, _) => measure.head(skin.glyphs.sigma),
        };
        pad_left(&head, *columns)
    });
    let mut head = format!("{}{}", " ".repeat(NAME), heads.collect::<String>());
    if has_state(columns) && is_narrow {
        head += &pad_left("took", STATE);
        head += if lines.iter().any(|line| line.lead.is_some()) { "  tok/s" } else { "" };
    }
    let mut out = vec![skin.fit(Line::from(skin.dim(head)), columns)];
    let over = screen.is_over();
    let is_loading = |lane| state.snapshot().is_some_and(|engine| is_loading(engine, lane));
    for (line, racer) in lines.iter().zip(&screen.race.racers) {
        let mut line = line.clone();
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
        // What there is no room for here is said below.
        let reason = if columns < 80 { String::new() } else { format!(": {}", one_line(reason)) };
        spans.push(skin.styled(skin.theme.error, format!("  {}{reason}", line.state)));
        return Line::from(spans);
    }
    for (measure, columns) in measures {
        let at = Measure::ALL.iter().position(|known| known == measure).unwrap_or_default();
        spans.extend(number(&line.cells[at], *measure, *columns, racer, over, skin));
    }
    let is_wide = columns >= 100;
    if has_state(columns) {
        let state = match is_wide {
            true => format!("    {}", pad_right(&line.state, 16)),
            false if line.standing == Standing::Cancelled => pad_left("stopped", STATE),
            false => pad_left(line.state.trim_start_matches("finished "), STATE),
        };
        spans.push(skin.dim(state));
    }
    if let Some(lead) = &line.lead {
        let what = if is_wide { " tok/s" } else { "" };
        spans.push(skin.styled(skin.theme.good, format!(" {} {lead}{what}", skin.glyphs.leads)));
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
        let said = match is_unknown {
            true if columns > 12 => "unavailable",
            true => "unknown",
            false => skin.glyphs.absent,
        };
        return vec![skin.dim(pad_left(said, columns))];
    };
    let best = over && cell.best;
    let sign = if best { skin.glyphs.best } else { "" };
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

/// Nothing before the race is over.
fn verdict_lines(screen: &RaceScreen, skin: &Skin, columns: usize) -> Vec<Text> {
    let sentences = if screen.is_over() { sentences(&screen.race) } else { Vec::new() };
    let rows = sentences.iter().map(|sentence| one_line(sentence)).flat_map(|sentence| {
        let lines = wrap::wrap(&sentence, columns.saturating_sub(2).max(1)).into_iter();
        lines.map(|line| Line::from(skin.plain(format!(" {}", &sentence[line.start..line.end])))).collect::<Vec<_>>()
    });
    rows.collect()
}

/// A rule, and of the verdict what there is room for in so many rows.
fn below_texts(said: &[Text], most: usize, skin: &Skin, columns: usize) -> Vec<Text> {
    if most < 2 {
        return Vec::new();
    }
    let shown = said.len().min(most - 1);
    let more = rows_below(said.len() - shown, skin);
    let rule = rule_before(Line::default(), more, skin, columns);
    std::iter::once(rule).chain(said[..shown].iter().cloned()).collect()
}

/// All of the verdict, in place of the texts.
fn draw_verdict(screen: &RaceScreen, said: &[Text], skin: &Skin, area: Rect, buffer: &mut Buffer) {
    let body = below(area, 1);
    let top = screen.verdict_top();
    let heading = Line::from(vec![
        skin.styled(skin.theme.border, skin.glyphs.rule(1)),
        skin.styled(skin.theme.accent, format!("{} verdict ", skin.glyphs.prompt)),
    ]);
    let more = rows_below(said.len().saturating_sub(top + usize::from(body.height)), skin);
    buffer.set_line(area.x, area.y, &rule_before(heading, more, skin, area.width.into()), area.width);
    for (y, line) in (body.y..body.bottom()).zip(said.iter().skip(top)) {
        buffer.set_line(body.x, y, line, body.width);
    }
}

/// How many rows there are below those in view.
fn rows_below(rows: usize, skin: &Skin) -> String {
    if rows == 0 { String::new() } else { format!(" {} {rows} ", skin.glyphs.down) }
}

/// A heading, and a rule that ends with what is below.
fn rule_before(mut heading: Text, more: String, skin: &Skin, columns: usize) -> Text {
    let used = width(&heading) + text::width(&more) + 1;
    heading.spans.push(skin.styled(skin.theme.border, skin.glyphs.rule(columns.saturating_sub(used))));
    heading.spans.extend([skin.styled(skin.theme.accent, more), skin.styled(skin.theme.border, skin.glyphs.rule(1))]);
    skin.fit(heading, columns)
}

fn footer_line(state: &State, screen: &RaceScreen, skin: &Skin, columns: usize) -> Text {
    if let Some(message) = composer_view::message(state, skin) {
        return skin.fit(message, columns);
    }
    let gap = " ".repeat(if columns < 60 { 2 } else { 3 });
    if let Some(replay) = &state.replay {
        let key = |context, action| state.keys.key(context, action);
        let keys = [
            (
                key(Context::Replay, Action::Pause).filter(|_| !replay.over),
                if replay.paused { "go on" } else { "stop" },
            ),
            (key(Context::Compose, Action::NextPanel), "other lane"),
            (key(Context::Compose, Action::PageUp), "scroll"),
            (key(Context::Compose, Action::Interrupt), "twice: leave"),
        ];
        let keys = keys.into_iter().filter_map(|(key, what)| Some((key?, what.to_owned())));
        return keys_line(keys, &gap, skin, columns);
    }
    let lane = screen.focused().map_or("", |racer| racer.entrant.lane.name());
    let keeps = screen.asks && screen.focused().is_some_and(|racer| racer.done().next().is_some());
    let is_narrow = columns < 60;
    let leave = match (keeps, is_narrow) {
        (true, false) => format!("go on with the answer of {lane}"),
        (true, true) => format!("keep {lane}"),
        (false, _) => "back to the chat".to_owned(),
    };
    let first = if screen.is_over() { ("Enter", leave) } else { ("Esc", "cancel".to_owned()) };
    let next = match (screen.turns_to_verdict(), is_narrow) {
        (true, true) => "verdict",
        (true, false) => "the whole verdict",
        (false, true) => "other lane",
        (false, false) => "the other lane",
    };
    let others = [("Tab", next), (if is_narrow { "PgDn" } else { "PgUp PgDn" }, "scroll")];
    let others = others.map(|(key, what)| (key.to_owned(), what.to_owned()));
    keys_line(std::iter::once((first.0.to_owned(), first.1)).chain(others), &gap, skin, columns)
}

/// As many keys as there is room for.
fn keys_line(keys: impl Iterator<Item = (String, String)>, gap: &str, skin: &Skin, columns: usize) -> Text {
    let mut line = Line::default();
    for (key, what) in keys {
        if width(&line) + gap.len() + key.len() + what.len() < columns {
            line.spans.extend([skin.plain(format!("{gap}{key}")), skin.dim(format!(" {what}"))]);
        }
    }
    line
}

/// The places of the lanes' texts, and whether they are side by side.
fn divide(area: Rect, screen: &RaceScreen, mode: Mode) -> (Vec<(usize, Rect)>, bool) {
    let count = screen.race.racers.len() as u16;
    if area.is_empty() || count == 0 {
        return (Vec::new(), false);
    }
    let numbers = 0..count;
    match mode {
        Mode::Wide if area.width / count >= LEAST_COLUMN => {
            let each = area.width / count;
            let columns = numbers.map(|index| {
                let x = area.x + index * each;
                // A line stands between it and the next one.
                let width = if index + 1 == count { area.right() - x } else { each };
                (usize::from(index), Rect { x, width, ..area })
            });
            (columns.collect(), true)
        }
        Mode::Wide | Mode::Medium if area.height / count >= 4 => {
            let each = area.height / count;
            let parts = numbers.map(|index| {
                let y = area.y + index * each;
                let height = if index + 1 == count { area.bottom() - y } else { each };
                (usize::from(index), Rect { y, height, ..area })
            });
            (parts.collect(), false)
        }
        _ => (vec![(screen.focus, area)], false),
    }
}

/// A rule with the lane's name, and its text below.
fn draw_text(
    screen: &RaceScreen,
    index: usize,
    state: &str,
    unfolded: bool,
    skin: &Skin,
    area: Rect,
    buffer: &mut Buffer,
) {
    let (Some(racer), Some(text)) = (screen.race.racers.get(index), screen.texts.get(index)) else { return };
    let is_focused = index == screen.focus;
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
    let said = if tokens > 0 {
        format!("{state}, {tokens} {} ", if tokens == 1 { "token" } else { "tokens" })
    } else {
        format!("{state} ")
    };
    heading.push(skin.dim(said));
    let more = rows_below(text.rows_below(), skin);
    let heading = rule_before(Line::from(heading), more, skin, area.width.into());
    buffer.set_line(area.x, area.y, &heading, area.width);
    let body = text.area;
    for (y, row) in (body.y..body.bottom()).zip(text.visible()) {
        // The caret may stand behind a full row.
        if let Some(line) = transcript::answer_row(text.block(), row, unfolded, skin, body.width.into()) {
            buffer.set_line(body.x, y, &line, body.width + 1);
        }
    }
}
