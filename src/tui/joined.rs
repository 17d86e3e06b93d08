//! Syllables that are joined of several letters, as in Devanagari and Tamil, on whatever terminal.
//!
//! Some terminals give such a syllable the columns that we count, some a cell for each part, some only one. So each is
//! drawn on cells that were emptied first, whatever follows is placed anew, and its cells are drawn again when something
//! else comes in its place: no half of it is left, and none of what stood there before.

use std::io;

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::{Buffer, Cell, CellDiffOption, CellWidth};
use ratatui::layout::{Position, Size};
use unicode_width::UnicodeWidthChar;

/// A backend that draws joined syllables so.
pub struct Careful<B>(pub B);

/// Whether terminals disagree about the columns of what one cell holds: a letter that has columns of its own is joined to
/// the first.
fn is_joined(symbol: &str) -> bool {
    !symbol.is_ascii() && symbol.chars().skip(1).any(|c| c.width().is_some_and(|width| width > 0))
}

/// Has the cells behind the first of each joined syllable drawn when it is gone. For a frame that is complete.
pub fn mark(buffer: &mut Buffer) {
    let columns = usize::from(buffer.area.width).max(1);
    for index in 0..buffer.content.len() {
        let cell = &buffer.content[index];
        if !is_joined(cell.symbol()) {
            continue;
        }
        let end = (index + usize::from(cell.cell_width())).min((index / columns + 1) * columns);
        for cell in &mut buffer.content[index + 1..end.max(index + 1)] {
            // Not drawn as long as the syllable stands; unlike any cell that may come in its place.
            cell.set_diff_option(CellDiffOption::AlwaysUpdate);
        }
    }
}

impl<B: Backend<Error = io::Error>> Backend for Careful<B> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut run: Vec<(u16, u16, &Cell)> = Vec::new();
        for (x, y, cell) in content {
            if !is_joined(cell.symbol()) {
                run.push((x, y, cell));
                continue;
            }
            if !run.is_empty() {
                self.0.draw(run.drain(..))?;
            }
            let mut blank = cell.clone();
            blank.set_symbol(" ");
            let end = x.saturating_add(cell.cell_width());
            self.0.draw((x..end).map(|x| (x, y, &blank)))?;
            // Each call says anew where it draws.
            self.0.draw(std::iter::once((x, y, cell)))?;
        }
        self.0.draw(run.into_iter())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.0.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use ratatui::backend::CrosstermBackend;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn syllables_are_told_from_letters_with_marks() {
        for (symbol, joined) in [
            ("a", false),
            ("e\u{301}", false),
            ("日", false),
            ("👍", false),
            ("न\u{94d}", false),
            ("क्ष", true),
            ("कि", true),
            ("กำ", true),
        ] {
            assert_eq!(is_joined(symbol), joined, "{symbol}");
        }
    }

    /// Whatever columns the terminal gives it.
    #[test]
    fn a_syllable_stands_on_emptied_cells_and_moves_nothing() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 1));
        buffer.set_string(0, 0, "aक्षb", Style::default());
        let mut bytes = Vec::new();
        let cells = [0, 1, 3].map(|x| (x, 0, &buffer[(x, 0)]));
        Careful(CrosstermBackend::new(&mut bytes)).draw(cells.into_iter()).unwrap();
        let mut drawn = String::from_utf8(bytes).unwrap();
        for reset in ["\x1b[39m", "\x1b[49m", "\x1b[59m", "\x1b[0m"] {
            drawn = drawn.replace(reset, "");
        }
        assert_eq!(drawn, "\x1b[1;1Ha\x1b[1;2H  \x1b[1;2Hक्ष\x1b[1;4Hb");
    }
}
