//! Numbers that stand for a while: the cells of the instruments, kept from one frame for those that follow.
//!
//! Only while an answer runs, and only at low pace; a key that does something, a new size or a new theme lets go at once.

use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::layout::Layout;
use super::theme::Theme;

#[derive(Debug, Default)]
pub struct Held {
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    until: Instant,
    layout: Layout,
    theme: Theme,
    cells: Vec<Buffer>,
    /// They were put in place of newer ones.
    is_old: bool,
}

impl Held {
    /// Puts the kept cells into the frame, if they still hold for it.
    pub fn put(&mut self, layout: &Layout, theme: &Theme, now: Instant, buffer: &mut Buffer) -> bool {
        let holds = |kept: &&mut Kept| now < kept.until && kept.layout == *layout && kept.theme == *theme;
        let Some(kept) = self.kept.as_mut().filter(holds) else { return false };
        kept.is_old = true;
        for cells in &kept.cells {
            for position in cells.area.positions() {
                buffer[position] = cells[position].clone();
            }
        }
        true
    }

    /// Keeps what was drawn in these areas.
    pub fn keep(&mut self, areas: &[Rect], layout: &Layout, theme: &Theme, until: Instant, buffer: &Buffer) {
        let cut = |area: &Rect| {
            let mut cells = Buffer::empty(area.intersection(buffer.area));
            for position in cells.area.positions() {
                cells[position] = buffer[position].clone();
            }
            cells
        };
        let cells = areas.iter().map(cut).collect();
        self.kept = Some(Kept { until, layout: *layout, theme: *theme, cells, is_old: false });
    }

    pub fn let_go(&mut self) {
        self.kept = None;
    }

    /// When something on the screen will be too old.
    pub fn due(&self) -> Option<Instant> {
        self.kept.as_ref().filter(|kept| kept.is_old).map(|kept| kept.until)
    }

    /// Whether something on the screen is too old by now; says so once.
    pub fn has_come(&mut self, now: Instant) -> bool {
        let kept = self.kept.as_mut().filter(|kept| kept.is_old && now >= kept.until);
        kept.is_some_and(|kept| std::mem::take(&mut kept.is_old))
    }
}
