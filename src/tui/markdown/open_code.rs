//! The code block at the end of a text, while it is open. Its complete lines stay as they are, whatever comes, so a token
//! costs the line that it stands on and not the block.

use super::super::text::rows::Rows;
use super::fence::{self, Fence};
use super::render::{Top, code_rows};

#[derive(Debug, Clone)]
pub struct OpenCode {
    /// Where the line begins that is still written.
    line: usize,
    /// Rows above it.
    rows: usize,
    /// Lines of the block above it.
    lines: usize,
}

impl OpenCode {
    /// `None` where the last block is anything else, or in a list or a quote, whose end would be its end.
    pub fn find(text: &str, tops: &[Top], fences: &[Fence], rows: &Rows) -> Option<Self> {
        let (top, fence) = (tops.last()?, fences.last()?);
        let is_open = top.apart
            && top.start == fence.source.start
            && fence::opening(text, fence).is_some()
            && !fence::is_closed(text, &fence.source)
            && text[fence.source.end..].trim_end().is_empty();
        // The rest of its first line may make it something else.
        let line = text.rfind('\n').filter(|_| is_open)? + 1;
        (line > fence.source.start).then(|| Self {
            line,
            rows: rows.before(line),
            lines: fence.lines.partition_point(|known| known.start < line),
        })
    }

    /// Adds what was written since. False where one of the lines may close the block: then nothing was done.
    pub fn grow(&mut self, text: &str, columns: usize, rows: &mut Rows, fence: &mut Fence) -> bool {
        let written = &text[self.line..];
        if written.split('\n').any(|line| fence::may_close(text, fence, line)) {
            return false;
        }
        rows.truncate(self.rows);
        fence.lines.truncate(self.lines);
        for line in written.split_inclusive('\n') {
            // So little space may stand before a closing fence: it is not read before more follows.
            if line.len() < 4 && line.trim_start_matches(' ').is_empty() {
                break;
            }
            let bare = self.line..self.line + line.trim_end_matches('\n').len();
            code_rows(text, &bare, None, columns, |at, pieces| rows.push(at, pieces));
            fence.lines.push(bare);
            if line.ends_with('\n') {
                (self.rows, self.lines) = (rows.len(), fence.lines.len());
                self.line += line.len();
            }
        }
        fence.source.end = text.len();
        true
    }
}
