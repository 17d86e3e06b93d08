//! Marks the token that a reader looks at in the conversation: its words, and a sign in the margin of their row.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::conversation::Row;
use super::skin::Skin;
use super::state::State;
use super::text::rows::Content;
use super::text::width;

/// Marks it on rows that were drawn from the area's top on.
pub fn draw(state: &State, skin: &Skin, rows: &[(usize, Row<'_>)], area: Rect, buffer: &mut Buffer) {
    let (Some((block, index)), Some(cursor)) = (state.token(), state.panels.cursor) else { return };
    let token = block.trace().tokens()[index];
    let range = token.text();
    // The sign stands beside the first character that is seen.
    let text = if token.thinks { block.thought() } else { block.shown() };
    let words = text.get(range.clone()).unwrap_or_default();
    let first = range.start + if words.trim().is_empty() { 0 } else { words.len() - words.trim_start().len() };
    let mut marked = None;
    for (y, (number, row)) in (area.y..area.bottom()).zip(rows) {
        if *number != cursor.block {
            continue;
        }
        // Where the row's text begins and ends, and which columns of it are the token's.
        let (start, end, columns) = match row {
            Row::Text(row) if !token.thinks => (row.start, row.end(), text_columns(row, block.shown(), &range, skin)),
            Row::Thought(line) if token.thinks => {
                let part = range.start.clamp(line.start, line.end)..range.end.clamp(line.start, line.end);
                let text = block.thought();
                let from = line.indent + width(text.get(line.start..part.start).unwrap_or_default());
                let columns = from..from + width(text.get(part).unwrap_or_default());
                (line.start, line.end, Vec::from([columns]))
            }
            _ => continue,
        };
        for columns in columns.into_iter().filter(|columns| !columns.is_empty()) {
            let x = area.x.saturating_add(u16::try_from(columns.start).unwrap_or(u16::MAX));
            let part = Rect { x, y, width: u16::try_from(columns.len()).unwrap_or(u16::MAX), height: 1 };
            buffer.set_style(part.intersection(area), skin.theme.selection);
        }
        // A token without a word of its own, such as a line's end, has a row all the same.
        if (start..=end).contains(&first) {
            marked = Some(y);
        }
    }
    if let (Some(y), Some(x)) = (marked, area.x.checked_sub(1)) {
        buffer.set_stringn(x, y, skin.glyphs.open, 1, skin.theme.accent);
    }
}

/// The columns of a row on which this part of the text stands.
fn text_columns(
    row: &super::text::rows::TextRow<'_>,
    shown: &str,
    range: &Range<usize>,
    skin: &Skin,
) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut x = 0;
    for piece in row.pieces {
        let text = piece.text(shown, &skin.glyphs);
        let columns = width(&text);
        let (start, end) = (piece.source.start.max(range.start), piece.source.end.min(range.end));
        if start < end {
            found.push(match piece.content {
                Content::Source => {
                    let before = width(shown.get(piece.source.start..start).unwrap_or_default());
                    x + before..x + before + width(shown.get(start..end).unwrap_or_default())
                }
                // It says what the source says in other words, which are one.
                _ => x..x + columns,
            });
        }
        x += columns;
    }
    found
}
