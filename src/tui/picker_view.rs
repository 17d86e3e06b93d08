//! Draws a list to choose from: what is typed, then the rows that match, as many as there is room for.

use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::picker::{Item, Picker, matched};
use super::skin::{Skin, Text};
use super::text::{truncate_middle, width};

/// Columns of the sign before a row, and between its label and its detail.
const SIGN: usize = 2;
const GAP: usize = 2;

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
    if picker.rows().0.is_empty() {
        lines.push(skin.fit(Line::from(skin.dim("Nothing here has that in it.")), columns));
    }
    lines.extend(choices(picker, skin, columns, rows.saturating_sub(1)));
    lines
}

/// `2 of 9`: which row is chosen, of those that match.
pub fn count(picker: &Picker) -> String {
    let (items, chosen) = picker.rows();
    format!("{} of {}", if items.is_empty() { 0 } else { chosen + 1 }, items.len())
}

/// The rows alone.
pub fn choices(picker: &Picker, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let (items, chosen) = picker.rows();
    let first = (chosen + 1).saturating_sub(rows);
    let longest = items.iter().map(|item| width(&item.label)).max().unwrap_or(0);
    // A list without details has all of the columns for its labels.
    let has_details = items.iter().any(|item| !item.detail.is_empty());
    let label_columns = longest.min(if has_details { columns / 2 } else { columns.saturating_sub(SIGN) });
    let shown = items.iter().enumerate().skip(first).take(rows);
    shown.map(|(index, item)| row(picker, item, index == chosen, label_columns, skin, columns)).collect()
}

fn row(picker: &Picker, item: &Item, is_chosen: bool, label_columns: usize, skin: &Skin, columns: usize) -> Text {
    let (style, sign) = match is_chosen {
        true => (skin.theme.strong, skin.glyphs.prompt),
        false => (skin.theme.text, " "),
    };
    let label = truncate_middle(&item.label, label_columns, skin.glyphs.ellipsis);
    let mut spans = vec![skin.styled(skin.theme.accent, sign), skin.plain(" ")];
    let at = if picker.filter().is_empty() { Vec::new() } else { matched(picker.filter(), &label) };
    spans.extend(label.graphemes(true).enumerate().map(|(index, letter)| {
        Span::styled(letter.to_owned(), if at.contains(&index) { skin.theme.accent } else { style })
    }));
    if !item.detail.is_empty() {
        let space = label_columns.saturating_sub(width(&label)) + GAP;
        let room = columns.saturating_sub(SIGN + label_columns + GAP);
        spans.extend([skin.plain(" ".repeat(space)), skin.dim(brief(&item.detail, room))]);
    }
    skin.fit(Line::from(spans), columns)
}

/// Where the whole has no room: without the parts behind a semicolon that come last.
fn brief(detail: &str, columns: usize) -> &str {
    let mut brief = detail;
    while width(brief) > columns
        && let Some((before, _)) = brief.rsplit_once("; ")
    {
        brief = before;
    }
    if width(brief) > columns { detail } else { brief }
}

#[cfg(test)]
mod tests {
    use super::super::picker::Purpose;
    use super::super::skin::test_skin;
    use super::*;

    fn rows(items: &[(&str, &str)], columns: usize) -> Vec<String> {
        let item = |(label, detail): &(&str, &str)| Item {
            id: String::new(),
            label: (*label).to_owned(),
            detail: (*detail).to_owned(),
        };
        let picker = Picker::new(Purpose::Model, "model", items.iter().map(item).collect());
        let shown = |line: Text| line.spans.iter().map(|span| span.content.as_ref()).collect();
        choices(&picker, &test_skin(), columns, 9).into_iter().map(shown).collect()
    }

    #[test]
    fn nothing_is_cut_that_has_room() {
        assert_eq!(rows(&[("twelve chars", ""), ("two", "")], 14), ["› twelve chars", "  two"]);
        assert_eq!(rows(&[("top-k", "now 40; 0 is all")], 24), ["› top-k  now 40"]);
        assert_eq!(rows(&[("top-k", "now 40; 0 is all")], 25), ["› top-k  now 40; 0 is all"]);
    }

    #[test]
    fn names_are_told_apart_by_their_ends() {
        let names = [("smollm2-135m-instruct-q4-aaaa", "built"), ("smollm2-135m-instruct-q4-bbbb", "built")];
        assert_eq!(rows(&names, 30), ["› smollm2…q4-aaaa  built", "  smollm2…q4-bbbb  built"]);
    }
}
