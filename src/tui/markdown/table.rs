//! Tables: columns as wide as what stands in them, cells wrapped where there is less room, and one record below the other
//! where there is no room for columns at all.

use pulldown_cmark::Alignment;

use super::super::text::rows::{Content, Piece, Role, Sign};
use super::inline::Inline;

/// Between two columns: a space, a line, a space.
const BETWEEN: usize = 3;
/// A column is not made narrower for the sake of others, unless it needs no more.
const NARROWEST: usize = 4;
/// Longer words are cut rather than have a table fall apart.
const LONGEST_WORD: usize = 12;

#[derive(Debug, Default)]
pub struct Table {
    pub alignments: Vec<Alignment>,
    /// The heading first.
    pub rows: Vec<TableRow>,
}

#[derive(Debug, Default)]
pub struct TableRow {
    /// Where it begins in the source.
    pub at: usize,
    pub cells: Vec<Inline>,
}

/// A row of the screen, and where it begins in the source.
pub type Line = (usize, Vec<Piece>);

impl Table {
    pub fn lines(&self, columns: usize) -> Vec<Line> {
        match self.widths(columns) {
            Some(widths) => self.grid(&widths),
            None => self.records(columns),
        }
    }

    /// `None` where not even the narrowest columns fit.
    fn widths(&self, columns: usize) -> Option<Vec<usize>> {
        let count = self.alignments.len();
        let room = columns.checked_sub(BETWEEN * count.saturating_sub(1))?;
        let of = |measure: fn(&Inline) -> usize| -> Vec<usize> {
            let cells = |column| self.rows.iter().filter_map(move |row: &TableRow| row.cells.get(column));
            (0..count).map(|column| cells(column).map(measure).max().unwrap_or(0).max(1)).collect()
        };
        let natural = of(Inline::width);
        if natural.iter().sum::<usize>() <= room {
            return Some(natural);
        }
        let words = of(Inline::longest_word);
        let mut widths: Vec<usize> =
            natural.iter().zip(words).map(|(n, word)| (*n).min(word.clamp(NARROWEST, LONGEST_WORD))).collect();
        let mut left = room.checked_sub(widths.iter().sum())?;
        // The narrowest one first, so that all that are short of room get equally wide.
        while left > 0 {
            let short = (0..count).filter(|column| widths[*column] < natural[*column]);
            let Some(narrowest) = short.min_by_key(|column| widths[*column]) else { break };
            widths[narrowest] += 1;
            left -= 1;
        }
        Some(widths)
    }

    fn grid(&self, widths: &[usize]) -> Vec<Line> {
        let wraps = self.rows.iter().any(|row| row.cells.iter().zip(widths).any(|(cell, width)| cell.width() > *width));
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            // Below the heading, and between rows of several lines, which could not be told apart without.
            if index == 1 || wraps && index > 1 {
                lines.push((row.at, rule(widths, row.at)));
            }
            lines.extend(self.row_lines(row, widths));
        }
        if let [heading] = self.rows.as_slice() {
            lines.push((heading.at, rule(widths, heading.at)));
        }
        lines
    }

    fn row_lines(&self, row: &TableRow, widths: &[usize]) -> Vec<Line> {
        let empty = Inline::default();
        let cells: Vec<&Inline> = (0..widths.len()).map(|column| row.cells.get(column).unwrap_or(&empty)).collect();
        let wrapped: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| cell.wrap(*width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        let line = |index: usize| {
            let mut pieces: Vec<Piece> = Vec::new();
            let mut at = row.at;
            for (column, width) in widths.iter().enumerate() {
                if column > 0 {
                    pieces.extend([
                        Piece::blank(1, at),
                        Piece::sign(Sign::Column, 1, Role::Border, at),
                        Piece::blank(1, at),
                    ]);
                }
                let line = wrapped[column].get(index);
                let used = line.map_or(0, |line| cells[column].line_width(line));
                let free = width.saturating_sub(used);
                let before = match self.alignments[column] {
                    Alignment::Right => free,
                    Alignment::Center => free / 2,
                    Alignment::Left | Alignment::None => 0,
                };
                pieces.extend((before > 0).then(|| Piece::blank(before, at)));
                let cell = line.map(|line| cells[column].pieces(line)).unwrap_or_default();
                at = cell.last().map_or(at, |piece| piece.source.end);
                pieces.extend(cell);
                // Nothing stands right of the last column.
                let after = if column + 1 < widths.len() { free - before } else { 0 };
                pieces.extend((after > 0).then(|| Piece::blank(after, at)));
            }
            while pieces.last().is_some_and(|piece| matches!(piece.content, Content::Blank(_))) {
                pieces.pop();
            }
            (row.at, pieces)
        };
        (0..height).map(line).collect()
    }

    /// Each row's cells one below the other, behind their column's name.
    fn records(&self, columns: usize) -> Vec<Line> {
        let Some((heading, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines: Vec<Line> = Vec::new();
        // As long as there are no rows, the columns' names.
        let shown = if rows.is_empty() { std::slice::from_ref(heading) } else { rows };
        for row in shown {
            if !lines.is_empty() {
                lines.push((row.at, vec![Piece::sign(Sign::Rule, columns, Role::Border, row.at)]));
            }
            for (column, cell) in row.cells.iter().enumerate() {
                let name = heading.cells.get(column).filter(|name| !rows.is_empty() && !name.is_empty());
                for inline in name.into_iter().chain([cell]).filter(|inline| !inline.is_empty()) {
                    lines.extend(inline.wrap(columns).iter().map(|line| (row.at, inline.pieces(line))));
                }
            }
        }
        lines
    }
}

fn rule(widths: &[usize], at: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (column, width) in widths.iter().enumerate() {
        if column > 0 {
            pieces.extend([
                Piece::sign(Sign::Rule, 1, Role::Border, at),
                Piece::sign(Sign::Cross, 1, Role::Border, at),
                Piece::sign(Sign::Rule, 1, Role::Border, at),
            ]);
        }
        pieces.push(Piece::sign(Sign::Rule, *width, Role::Border, at));
    }
    pieces
}
