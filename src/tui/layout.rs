//! Where everything stands on a screen of a given size. Pure; knows no content but the number of lines that are typed and
//! said, and whether a reader wants panels beside or above the conversation.
//!
//! ```text
//! wide: title             medium: title        small: status
//!       ------+------             strip               conversation
//!       conv. | panels            ------              ------
//!       ------+------             conv.               composer
//!       composer                  ------
//!       footer                    composer, footer
//! ```

use ratatui::layout::Rect;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Wide,
    Medium,
    Small,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub mode: Mode,
    /// The title bar, or the status line of a small screen.
    pub title: Rect,
    pub strip: Rect,
    pub top_rule: Rect,
    pub conversation: Rect,
    /// Below the conversation, while a command is typed.
    pub palette: Rect,
    /// Between conversation and panels.
    pub divider: Rect,
    pub panels: Rect,
    pub bottom_rule: Rect,
    /// Messages that wait to be sent.
    pub queue: Rect,
    pub composer: Rect,
    pub footer: Rect,
}

/// Columns left of the typed text: a space, the prompt sign, a space; and one right of it.
pub const COMPOSER_MARGIN: u16 = 4;
/// Columns left and right of the conversation's text together.
const TEXT_MARGIN: u16 = 2;
/// Longer lines are hard to read.
const TEXT_COLUMNS: u16 = 110;

/// How many rows there are of what comes and goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wants {
    pub typed: usize,
    pub queued: usize,
    /// What is said for a moment: in the footer, or on a small screen in the place of the status line.
    pub said: usize,
    pub has_panels: bool,
}

impl Mode {
    pub fn of(columns: u16, rows: u16) -> Self {
        match (columns, rows) {
            (100.., 16..) => Self::Wide,
            (60.., 18..) => Self::Medium,
            _ => Self::Small,
        }
    }
}

/// Of the panels beside the conversation.
fn column(columns: u16) -> u16 {
    (columns * 2 / 5).clamp(44, 60)
}

impl Layout {
    /// Columns of a panel's lines, in the column or above the conversation.
    pub fn panel_columns(columns: u16, rows: u16) -> usize {
        match Mode::of(columns, rows) {
            Mode::Wide => usize::from(column(columns) - 2),
            Mode::Medium | Mode::Small => usize::from(columns.saturating_sub(TEXT_MARGIN).min(TEXT_COLUMNS)),
        }
    }

    pub fn new(columns: u16, rows: u16, wants: Wants) -> Self {
        let Wants { typed, queued, said, has_panels } = wants;
        let mode = Mode::of(columns, rows);
        let roomy = mode != Mode::Small;
        let row = |y: u16, height: u16| Rect::new(0, y, columns, height);

        let said = u16::try_from(said).unwrap_or(u16::MAX).clamp(1, if rows >= 8 { 3 } else { 1 });
        let title = if roomy { 1 } else { said.min(rows.saturating_sub(2)) };
        let strip = match mode {
            _ if !has_panels => 0,
            Mode::Medium if rows >= 20 => 3,
            Mode::Medium => 2,
            _ => 0,
        };
        let top_rule = u16::from(roomy);
        let footer = if roomy { said } else { 0 };
        let bottom_rule = u16::from(rows >= 5);
        let typed = u16::try_from(typed).unwrap_or(u16::MAX);
        let composer = typed.clamp(1, (rows / 4).clamp(1, 8)).min(rows);
        let queue = u16::try_from(queued).unwrap_or(u16::MAX).min(if rows >= 8 { 3.min(rows / 7) } else { 0 });
        let fixed = title + strip + top_rule + bottom_rule + queue + composer + footer;
        let body = rows.saturating_sub(fixed);

        let panels = if mode == Mode::Wide && has_panels { column(columns) } else { 0 };
        let divider = u16::from(panels > 0);
        let conversation = columns.saturating_sub(panels + divider);

        let mut y = 0;
        let mut next = |height: u16| {
            let rect = row(y, height);
            y += height;
            rect
        };
        let (title, strip, top_rule, body) = (next(title), next(strip), next(top_rule), next(body));
        let (bottom_rule, queue, composer, footer) = (next(bottom_rule), next(queue), next(composer), next(footer));
        Self {
            mode,
            title,
            strip,
            top_rule,
            conversation: Rect { width: conversation, ..body },
            palette: Rect { width: conversation, y: body.bottom(), height: 0, ..body },
            divider: Rect { x: conversation, width: divider, ..body },
            panels: Rect { x: conversation + divider, width: panels, ..body },
            bottom_rule,
            queue,
            composer,
            footer,
        }
    }

    /// Gives rows of the conversation to the palette.
    pub fn make_room(&mut self, rows: u16) {
        let rows = rows.min(self.conversation.height);
        self.conversation.height -= rows;
        self.palette = Rect { y: self.conversation.bottom(), height: rows, ..self.conversation };
    }

    /// The conversation's text without its margins.
    pub fn text(&self) -> Rect {
        let area = self.conversation;
        let margin = u16::from(area.width > TEXT_MARGIN);
        Rect { x: area.x + margin, width: area.width.saturating_sub(2 * margin).min(TEXT_COLUMNS), ..area }
    }

    /// Columns for typed text.
    pub fn composer_columns(columns: u16) -> usize {
        usize::from(columns.saturating_sub(COMPOSER_MARGIN).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_sizes_of_the_design() {
        let wants = Wants { typed: 1, has_panels: true, ..Wants::default() };
        assert_eq!(Layout::new(120, 36, wants).mode, Mode::Wide);
        assert_eq!(Layout::new(80, 24, wants).mode, Mode::Medium);
        let small = Layout::new(50, 15, wants);
        assert_eq!((small.mode, small.title.height, small.conversation.height), (Mode::Small, 1, 12));
    }

    #[test]
    fn what_is_said_takes_rows_of_the_conversation() {
        let wants = |said| Wants { typed: 1, said, has_panels: true, ..Wants::default() };
        for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
            let [quiet, talks] = [1, 3].map(|said| Layout::new(columns, rows, wants(said)));
            assert_eq!(talks.conversation.height + 2, quiet.conversation.height);
            assert_eq!(talks.footer.height + talks.title.height, quiet.footer.height + quiet.title.height + 2);
            assert_eq!(Layout::new(columns, rows, wants(9)), talks);
        }
        assert_eq!(Layout::new(20, 5, wants(3)), Layout::new(20, 5, wants(0)));
    }

    proptest! {
        #[test]
        fn nothing_overlaps_or_leaves_the_screen(
            columns in 0u16..300, rows in 0u16..100, typed in 0usize..5000, queued in 0usize..10, said in 0usize..6,
            offered in 0u16..12, has_panels: bool
        ) {
            let mut l = Layout::new(columns, rows, Wants { typed, queued, said, has_panels });
            l.make_room(offered);
            let parts = [l.title, l.strip, l.top_rule, l.conversation, l.palette, l.divider, l.panels, l.bottom_rule, l.queue,
                l.composer, l.footer];
            let screen = Rect::new(0, 0, columns, rows);
            for (i, a) in parts.iter().enumerate() {
                prop_assert!(a.is_empty() || screen.union(*a) == screen, "{a:?} in {screen:?}");
                for b in &parts[i + 1..] {
                    prop_assert!(a.intersection(*b).is_empty(), "{a:?} {b:?}");
                }
            }
            if rows > 0 {
                prop_assert!(l.composer.height > 0);
            }
            if !has_panels {
                prop_assert!(l.strip.is_empty() && l.panels.is_empty() && l.divider.is_empty());
                prop_assert_eq!(l.conversation.width, columns);
            }
        }
    }
}
