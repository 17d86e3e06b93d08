//! Draws a list to choose from: what is typed, then the rows that match, as many as there is room for.

use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::picker::{Item, Picker, matched};
use super::skin::{Skin, Text};
use super::text::wrap::wrap;
use super::text::{truncate, width};

/// The list's lines, at most `rows` of `columns`; the chosen row is always among them.
pub fn lines(picker: &Picker, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let input = Line::from(vec![
        skin.styled(skin.theme.strong, picker.title.clone()),
        skin.plain(" "),
        skin.styled(skin.theme.accent, skin.glyphs.prompt),
        skin.plain(format!(" {}", picker.filter())),
        skin.styled(skin.theme.accent, skin.glyphs.caret),
    ]);
    let mut lines = vec![skin.spread(input, Line::from(skin.dim(count(picker))), columns)];
    lines.extend(choices(picker, skin, columns, rows.saturating_sub(1)));
    lines
}

/// `2 of 9`: which row is chosen, of those that match.
pub fn count(picker: &Picker) -> String {
    let (items, chosen) = picker.rows();
    format!("{} of {}", if items.is_empty() { 0 } else { chosen + 1 }, items.len())
}

/// The rows alone, the chosen one of them as a whole where that leaves room for another.
pub fn choices(picker: &Picker, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let (items, chosen) = picker.rows();
    let longest = items.iter().map(|item| width(&item.label)).max().unwrap_or(0);
    // A list without details has all of the columns for its labels.
    let has_details = items.iter().any(|item| !item.detail.is_empty());
    let label_columns = longest.min(if has_details { columns / 2 } else { columns.saturating_sub(2) });
    let whole =
        |item| skin.wrap(row(picker, item, true, label_columns, skin), columns, label_columns.min(columns / 3) + 4);
    let mut open = items.get(chosen).map(|item| whole(item)).unwrap_or_default();
    if open.len() > rows.saturating_sub(1).max(1) {
        open = items.get(chosen).map(|item| vec![row(picker, item, true, label_columns, skin)]).unwrap_or_default();
    }
    let first = (chosen + open.len()).saturating_sub(rows);
    let before = (first..chosen).filter_map(|at| items.get(at).copied());
    let behind = items.iter().copied().skip(chosen + 1);
    let closed = |item| row(picker, item, false, label_columns, skin);
    let shown = before.map(closed).chain(open).chain(behind.map(closed));
    shown.take(rows).map(|line| skin.fit(line, columns)).collect()
}

/// Rows that the chosen row needs besides its first.
pub fn more_rows(picker: &Picker, columns: usize) -> usize {
    let (items, chosen) = picker.rows();
    let longest = items.iter().map(|item| width(&item.label)).max().unwrap_or(0).min(columns / 2);
    let rest = |item: &&Item| wrap(&item.detail, columns.saturating_sub(longest + 4)).len() - 1;
    items.get(chosen).map_or(0, rest)
}

fn row(picker: &Picker, item: &Item, is_chosen: bool, label_columns: usize, skin: &Skin) -> Text {
    let (style, sign) = match is_chosen {
        true => (skin.theme.strong, skin.glyphs.prompt),
        false => (skin.theme.text, " "),
    };
    let label = truncate(&item.label, label_columns, skin.glyphs.ellipsis);
    let space = label_columns.saturating_sub(width(&label)) + 2;
    let mut spans = vec![skin.styled(skin.theme.accent, sign), skin.plain(" ")];
    let at = if picker.filter().is_empty() { Vec::new() } else { matched(picker.filter(), &item.label) };
    spans.extend(label.graphemes(true).enumerate().map(|(index, letter)| {
        Span::styled(letter.to_owned(), if at.contains(&index) { skin.theme.accent } else { style })
    }));
    spans.push(skin.plain(" ".repeat(space)));
    spans.push(skin.dim(item.detail.clone()));
    Line::from(spans)
}
