//! Draws a race, over the whole screen: a table of the lanes, what each of them says, and in the end the verdict.
//!
//! Side by side where there is room for two columns, one above the other on a screen of medium width, and on a small one
//! the lane alone that the reader looks at. A question or a verdict that is cut there is whole on a page of its own.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::race::table;
use crate::race::verdict::{Measure, sentences};
use crate::race::{Order, Racer, Standing, is_loading};

use super::composer_view;
use super::format;
use super::keys::{Action, Context};
use super::layout::Mode;
use super::race::RaceScreen;
use super::skin::{Skin, Text, pad_left, pad_right, rows_of, width};
use super::state::State;
use super::text::sanitize::{one_line, sanitize};
use super::text::{self, wrap};
use super::transcript;

/// A column of text that is narrower is hard to read.
const LEAST_COLUMN: u16 = 30;

/// Below so many columns the title has no room for more than the race, and keys are named in short.
const NARROW: usize = 60;

/// Characters of the question that its page shows at most: it is wrapped for each frame.
const MOST_ASKED: usize = 10_000;

pub fn draw(state: &mut State, skin: &Skin, frame: &mut Frame<'_>) {
    let Some(parts) = Parts::new(state, skin, frame.area()) else { return };
    let (unfolded, source) = (state.conversation.is_unfolded(), state.conversation.shows_source());
    if let Some(screen) = &mut state.race {
        state.dirty |= screen.lay_out(&parts.bodies(), unfolded, source);
        screen.lay_out_page(parts.page.len(), below(parts.place, 1).height.into());
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
    /// What of the verdict stands above the footer, below a rule.
    verdict: Vec<Text>,
    /// What the page has, and all of it: what there is no room for elsewhere.
    page_name: &'static str,
    page: Vec<Text>,
    has_footer: bool,
    /// Of the texts, or of the page where that is read.
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
        let (title, is_asked_whole) = title(state, screen, skin, columns, has_why);
        let mut top = vec![title];
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
        let is_said_whole = said.len() < verdict.len().max(1);
        let page_name = match (is_asked_whole, is_said_whole) {
            (false, false) => "question, verdict",
            (false, true) => "question",
            (true, _) => "verdict",
        };
        let mut page = Vec::new();
        if !is_asked_whole {
            page.extend(question_lines(&screen.race.start.prompt, skin, columns));
        }
        if !is_said_whole {
            let gap = if page.is_empty() { None } else { Some(Line::default()) };
            page.extend(gap.into_iter().chain(said));
        }
        let reads_page = screen.reads_page && !page.is_empty();
        if reads_page && !is_said_whole {
            verdict.clear();
        }
        let place = Rect { height: rest.height - verdict.len() as u16, ..rest };
        let (texts, beside) = if reads_page { (Vec::new(), false) } else { divide(place, screen, mode) };
        Some(Self { area, top, states, verdict, page_name, page, has_footer, place, texts, beside })
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
        let footer = self.has_footer.then(|| footer_line(state, screen, self.page_name, skin, area.width.into()));
        for (y, line) in (self.place.bottom()..area.bottom()).zip(self.verdict.iter().chain(&footer)) {
            buffer.set_line(area.x, y, line, area.width);
        }
        if screen.reads_page {
            self.draw_page(screen, skin, buffer);
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

    /// What is cut elsewhere, in place of the texts.
    fn draw_page(&self, screen: &RaceScreen, skin: &Skin, buffer: &mut Buffer) {
        let (area, body) = (self.place, below(self.place, 1));
        let top = screen.page_top();
        let heading = Line::from(vec![
            skin.styled(skin.theme.border, skin.glyphs.rule(1)),
            skin.styled(skin.theme.accent, format!("{} {} ", skin.glyphs.prompt, self.page_name)),
        ]);
        let more = rows_below(self.page.len().saturating_sub(top + usize::from(body.height)), skin);
        buffer.set_line(area.x, area.y, &rule_before(heading, more, skin, area.width.into()), area.width);
        for (y, line) in (body.y..body.bottom()).zip(self.page.iter().skip(top)) {
            buffer.set_line(body.x, y, line, body.width);
        }
    }
}

fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

/// Says how the lanes run, unless the line below does; and whether all of the question stands in it.
fn title(state: &State, screen: &RaceScreen, skin: &Skin, columns: usize, has_why: bool) -> (Text, bool) {
    let start = &screen.race.start;
    let mut left = Vec::new();
    if columns >= NARROW {
        left.push(skin.styled(skin.theme.accent, " ortalk"));
    }
    if let Some(replay) = &state.replay {
        let space = if left.is_empty() { " " } else { "  " };
        left.push(skin.styled(skin.theme.warning, format!("{space}{}", replay.label())));
    }
    if columns >= NARROW {
        left.extend([skin.styled(skin.theme.strong, format!("  {}", one_line(&start.model))), skin.dot()]);
    } else {
        left.push(if left.is_empty() { skin.plain(" ") } else { skin.dot() });
    }
    let question = one_line(&start.prompt.chars().take(columns * 2).collect::<String>());
    left.extend([skin.plain("race"), skin.dot(), skin.dim(question)]);
    let how = match (&start.order, columns) {
        (_, ..NARROW) => "",
        (Order::SideBySide, _) => "side by side ",
        (Order::InTurn { .. }, _) if has_why => "",
        (Order::InTurn { .. }, _) => "one after the other ",
    };
    let left = Line::from(left);
    let gap = if how.is_empty() { 0 } else { 2 };
    let is_one_line = !start.prompt.trim().contains('\n') && start.prompt.chars().nth(columns * 2).is_none();
    let is_whole = is_one_line && width(&left) + gap + how.len() <= columns;
    (skin.spread(left, Line::from(skin.dim(how)), columns), is_whole)
}

/// What was asked, as it was written.
fn question_lines(prompt: &str, skin: &Skin, columns: usize) -> Vec<Text> {
    let shown: String = prompt.chars().take(MOST_ASKED).collect();
    let rows = rows_of(sanitize(&shown).trim(), columns.saturating_sub(2));
    let mut lines: Vec<Text> = rows.into_iter().map(|row| Line::from(skin.plain(format!(" {row}")))).collect();
    if shown.len() < prompt.len() {
        let more = format::bytes((prompt.len() - shown.len()) as u64);
        lines.push(Line::from(skin.dim(format!(" and {more} more"))));
    }
    lines
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
    }
    // What a lane leads in.
    let lead = "  tok/s";
    if is_narrow && text::width(&head) + lead.len() <= columns && lines.iter().any(|line| line.lead.is_some()) {
        head += lead;
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

fn footer_line(state: &State, screen: &RaceScreen, page_name: &str, skin: &Skin, columns: usize) -> Text {
    if let Some(message) = composer_view::message(state, skin) {
        return skin.fit(message, columns);
    }
    let is_narrow = columns < NARROW;
    let gap = " ".repeat(if is_narrow { 2 } else { 3 });
    let next = match (screen.turns_to_page(), is_narrow) {
        (true, true) => page_name.to_owned(),
        (true, false) => format!("the whole {page_name}"),
        (false, true) => "other lane".to_owned(),
        (false, false) => "the other lane".to_owned(),
    };
    if let Some(replay) = &state.replay {
        let key = |context, action| state.keys.key(context, action);
        let keys = [
            (
                key(Context::Replay, Action::Pause).filter(|_| !replay.over),
                if replay.paused { "go on" } else { "stop" },
            ),
            (key(Context::Compose, Action::NextPanel), &next),
            (key(Context::Compose, Action::PageUp), "scroll"),
            (key(Context::Compose, Action::Interrupt), "twice: leave"),
        ];
        let keys = keys.into_iter().filter_map(|(key, what)| Some((key?, what.to_owned())));
        return keys_line(keys, &gap, skin, columns);
    }
    let lane = screen.focused().map_or("", |racer| racer.entrant.lane.name());
    let keeps = screen.asks && screen.focused().is_some_and(|racer| racer.done().next().is_some());
    let leave = match (keeps, is_narrow) {
        (true, false) => format!("go on with the answer of {lane}"),
        (true, true) => format!("keep {lane}"),
        (false, _) => "back to the chat".to_owned(),
    };
    let first = if screen.is_over() { ("Enter", leave) } else { ("Esc", "cancel".to_owned()) };
    let scroll = if is_narrow { "PgDn" } else { "PgUp PgDn" };
    let others = [("Tab".to_owned(), next), (scroll.to_owned(), "scroll".to_owned())];
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
