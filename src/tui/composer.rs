//! The composer's text: a small multi-line editor with Emacs keys and a history. Drawing is `composer_view`'s work.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use super::text::{sanitize, width, wrap};

#[derive(Debug, Clone, Default)]
pub struct Composer {
    text: String,
    /// A byte offset on a grapheme's boundary.
    cursor: usize,
    /// Counts every change of the text.
    revision: u64,
    /// Text removed by the last kill, for yank.
    killed: String,
    /// The column that Up and Down try to keep.
    wanted_column: Option<usize>,
    history: Vec<String>,
    /// Which entry is shown, and what was being typed before.
    recall: Option<(usize, String)>,
    wrapped: Option<Wrapped>,
}

#[derive(Debug, Clone)]
struct Wrapped {
    revision: u64,
    columns: usize,
    lines: Vec<wrap::Line>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Start,
    End,
}

impl Composer {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Inserts typed or pasted text at the cursor; what a terminal would obey is made visible instead.
    pub fn insert(&mut self, raw: &str) {
        let text = sanitize::sanitize(raw);
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
        self.changed();
    }

    pub fn move_cursor(&mut self, motion: Motion) {
        self.cursor = self.target(motion);
        self.wanted_column = None;
    }

    /// Removes what lies between the cursor and the motion's target; kills can be yanked back.
    pub fn delete(&mut self, motion: Motion, kill: bool) {
        let mut target = self.target(motion);
        // At a line's end, killing to the end takes the line break.
        if kill && motion == Motion::LineEnd && target == self.cursor {
            target = self.target(Motion::Right);
        }
        let range = self.cursor.min(target)..self.cursor.max(target);
        if range.is_empty() {
            return;
        }
        self.cursor = range.start;
        let removed: String = self.text.drain(range).collect();
        if kill {
            self.killed = removed;
        }
        self.changed();
    }

    pub fn yank(&mut self) {
        let killed = self.killed.clone();
        self.insert(&killed);
    }

    pub fn clear(&mut self) {
        self.replace(String::new());
        self.recall = None;
    }

    /// Puts `text` in place of what is there, the cursor at its end.
    pub fn replace(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
        self.changed();
    }

    /// Takes the text out and remembers it in the history.
    pub fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        self.clear();
        text
    }

    /// One line up on the screen; above the first line, the message sent before.
    pub fn up(&mut self, columns: usize) {
        if !self.move_line(columns, -1) {
            self.recall(-1);
        }
    }

    pub fn down(&mut self, columns: usize) {
        if !self.move_line(columns, 1) {
            self.recall(1);
        }
    }

    /// The text wrapped to `columns`.
    pub fn lines(&mut self, columns: usize) -> &[wrap::Line] {
        let fresh = matches!(&self.wrapped, Some(w) if w.revision == self.revision && w.columns == columns);
        if !fresh {
            self.wrapped = None;
        }
        let (text, revision) = (&self.text, self.revision);
        &self.wrapped.get_or_insert_with(|| Wrapped { revision, columns, lines: wrap::wrap(text, columns) }).lines
    }

    /// The cursor's line and column on the screen.
    pub fn cursor_position(&mut self, columns: usize) -> (usize, usize) {
        let cursor = self.cursor;
        let lines = self.lines(columns);
        let row = lines.partition_point(|line| line.start <= cursor).saturating_sub(1);
        let Some(&line) = lines.get(row) else { return (0, 0) };
        let column = line.indent + width(&self.text[line.start..cursor.clamp(line.start, line.end)]);
        // Spaces that hang over the edge are counted too, as far as there is room.
        let hanging = cursor.saturating_sub(line.end);
        (row, (column + hanging).min(columns.saturating_sub(1)))
    }

    fn changed(&mut self) {
        self.revision += 1;
        self.wanted_column = None;
    }

    fn target(&self, motion: Motion) -> usize {
        let (text, cursor) = (self.text.as_str(), self.cursor);
        match motion {
            Motion::Left => boundary(text, cursor, false),
            Motion::Right => boundary(text, cursor, true),
            Motion::WordLeft => word_start_before(text, cursor),
            Motion::WordRight => word_end_after(text, cursor),
            Motion::LineStart => text[..cursor].rfind('\n').map_or(0, |at| at + 1),
            Motion::LineEnd => text[cursor..].find('\n').map_or(text.len(), |at| cursor + at),
            Motion::Start => 0,
            Motion::End => text.len(),
        }
    }

    fn move_line(&mut self, columns: usize, step: isize) -> bool {
        let (row, column) = self.cursor_position(columns);
        let wanted = self.wanted_column.unwrap_or(column);
        let Some(row) = row.checked_add_signed(step) else { return false };
        let Some(&line) = self.lines(columns).get(row) else { return false };
        let mut used = line.indent;
        let mut at = line.start;
        for grapheme in self.text[line.start..line.end].graphemes(true) {
            let columns = width(grapheme);
            if used + columns > wanted {
                break;
            }
            used += columns;
            at += grapheme.len();
        }
        self.cursor = at;
        self.wanted_column = Some(wanted);
        true
    }

    fn recall(&mut self, step: isize) {
        let (at, draft) = match self.recall.take() {
            Some((at, draft)) => (at, draft),
            None => (self.history.len(), self.text.clone()),
        };
        let next = at.saturating_add_signed(step).min(self.history.len());
        if let Some(entry) = self.history.get(next) {
            let entry = entry.clone();
            if next != at {
                self.replace(entry);
            }
            self.recall = Some((next, draft));
        } else if next != at {
            self.replace(draft);
        }
    }
}

fn boundary(text: &str, from: usize, forward: bool) -> usize {
    let mut cursor = GraphemeCursor::new(from, text.len(), true);
    let found = if forward { cursor.next_boundary(text, 0) } else { cursor.prev_boundary(text, 0) };
    found.ok().flatten().unwrap_or(from)
}

fn word_start_before(text: &str, cursor: usize) -> usize {
    let before = text[..cursor].trim_end_matches(|c: char| !c.is_alphanumeric());
    before.char_indices().rev().find(|(_, c)| !c.is_alphanumeric()).map_or(0, |(at, c)| at + c.len_utf8())
}

fn word_end_after(text: &str, cursor: usize) -> usize {
    let rest = &text[cursor..];
    let word = rest.find(char::is_alphanumeric).unwrap_or(rest.len());
    cursor + rest[word..].find(|c: char| !c.is_alphanumeric()).map_or(rest.len(), |at| word + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composer(text: &str) -> Composer {
        let mut composer = Composer::default();
        composer.insert(text);
        composer
    }

    #[test]
    fn backspace_removes_a_whole_character() {
        let mut c = composer("ae\u{301}👍🏽");
        c.delete(Motion::Left, false);
        assert_eq!(c.text(), "ae\u{301}");
        c.delete(Motion::Left, false);
        assert_eq!(c.text(), "a");
    }

    #[test]
    fn killed_text_can_be_yanked() {
        let mut c = composer("one two three");
        c.delete(Motion::WordLeft, true);
        assert_eq!(c.text(), "one two ");
        c.move_cursor(Motion::LineStart);
        c.yank();
        assert_eq!(c.text(), "threeone two ");
        c.move_cursor(Motion::LineStart);
        c.delete(Motion::LineEnd, true);
        assert_eq!(c.text(), "");
    }

    #[test]
    fn killing_at_a_line_end_joins_the_lines() {
        let mut c = composer("a\nb");
        c.move_cursor(Motion::Start);
        c.delete(Motion::LineEnd, true);
        c.delete(Motion::LineEnd, true);
        assert_eq!(c.text(), "b");
    }

    #[test]
    fn up_moves_by_screen_lines_before_it_recalls() {
        let mut c = composer("sent");
        c.take();
        c.insert("one two three");
        assert_eq!(c.cursor_position(8), (1, 5));
        c.up(8);
        assert_eq!(c.cursor_position(8), (0, 5));
        assert_eq!(c.text(), "one two three");
        c.up(8);
        assert_eq!(c.text(), "sent");
        c.up(8);
        assert_eq!(c.text(), "sent");
        c.down(8);
        assert_eq!(c.text(), "one two three");
    }

    #[test]
    fn escape_characters_in_a_paste_become_text() {
        assert_eq!(composer("a\x1b[2Jb\r\nc").text(), "a^[[2Jb\nc");
    }

    #[test]
    fn a_paste_of_a_megabyte_is_wrapped_once() {
        let mut c = composer(&"lorem ipsum dolor ".repeat(60_000));
        let start = std::time::Instant::now();
        for _ in 0..100 {
            c.cursor_position(80);
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
    }

    #[test]
    fn the_cursor_stays_inside_the_room() {
        let mut c = composer("ab      ");
        assert_eq!(c.cursor_position(4), (0, 3));
        c.insert("x");
        assert_eq!(c.cursor_position(4), (1, 1));
    }
}
