//! Draws a list to choose from: what is typed, then the rows that match, as many as there is room for.

use ratatui::text::Line;

use super::picker::Picker;
use super::skin::{Skin, Text, pad_right};
use super::text;

/// The list's lines, at most `rows` of `columns`; the chosen row is always among them.
pub fn lines(picker: &Picker, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let (items, chosen) = picker.rows();
    let input = Line::from(vec![
        skin.styled(skin.theme.strong, picker.title.clone()),
        skin.plain(" "),
        skin.styled(skin.theme.accent, skin.glyphs.prompt),
        skin.plain(format!(" {}", picker.filter())),
        skin.styled(skin.theme.accent, skin.glyphs.caret),
    ]);
    let count = skin.dim(format!("{} of {}", if items.is_empty() { 0 } else { chosen + 1 }, items.len()));
    let mut lines = vec![skin.spread(input, Line::from(count), columns)];
    let room = rows.saturating_sub(lines.len());
    let first = (chosen + 1).saturating_sub(room);
    let label_columns = items.iter().map(|item| text::width(&item.label)).max().unwrap_or(0).min(columns / 2);
    for (index, item) in items.iter().enumerate().skip(first).take(room) {
        let style = if index == chosen { skin.theme.strong } else { skin.theme.text };
        let sign = if index == chosen { skin.glyphs.prompt } else { " " };
        lines.push(skin.fit(
            Line::from(vec![
                skin.styled(skin.theme.accent, sign),
                skin.styled(style, format!(" {}  ", pad_right(&item.label, label_columns))),
                skin.dim(item.detail.clone()),
            ]),
            columns,
        ));
    }
    lines
}
