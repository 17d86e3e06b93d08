//! Markdown as rows, while it grows: an own rendering over the events of `pulldown_cmark`.
//!
//! A text that only grows keeps all but its last block: what is above the last line that is complete will not be read
//! otherwise, whatever comes. Of a code block that is open it keeps all but the last line (`open_code`). Two things reach further back, and for both the text is read anew from its beginning: the
//! definition of a link that an earlier block may name, and the second definition of one name. So the rows are always
//! those of a reading of the whole text, which the tests hold them against.

mod code;
mod fence;
mod highlight;
mod inline;
mod open_code;
mod render;
mod table;

use std::collections::HashMap;

use pulldown_cmark::{BrokenLink, CowStr, Options, Parser};

use super::text::rows::Rows;
use fence::Fence;
pub use highlight::{Budget, Highlighter};
use open_code::OpenCode;
use render::{Renderer, Top};

/// The rows of a text that grows, at one width.
#[derive(Debug, Clone, Default)]
pub struct Markdown {
    rows: Rows,
    fences: Vec<Fence>,
    columns: usize,
    /// How much of the text they show.
    length: usize,
    settled: Settled,
    /// Of the part that is not settled.
    definitions: Definitions,
    /// The last block, while it is code and open.
    open: Option<OpenCode>,
    /// Nothing settles any more.
    whole: bool,
}

/// The beginning of the text that will not be read otherwise.
#[derive(Debug, Clone, Default)]
struct Settled {
    /// Where it ends: the start of a line.
    end: usize,
    rows: usize,
    fences: usize,
    definitions: Definitions,
}

/// Addresses by the labels of links that name them, and where they stand.
type Definitions = HashMap<String, (String, usize)>;

impl Markdown {
    /// Brings the rows up to date with `text`, which begins with the text of the last call; says whether they were not.
    pub fn update(&mut self, text: &str, columns: usize) -> bool {
        if columns != self.columns || text.len() < self.length {
            *self = Self { columns, ..Self::default() };
        }
        if text.len() == self.length && !self.rows.is_empty() {
            return false;
        }
        if let (Some(open), Some(fence)) = (&mut self.open, self.fences.last_mut())
            && open.grow(text, columns, &mut self.rows, fence)
        {
            self.length = text.len();
            return true;
        }
        let (mut tops, mut definitions) = self.read(text);
        // What stands above may name what is defined now, and of two definitions of a name the first counts.
        let changed = definitions != self.definitions && text[..self.settled.end].contains('[');
        let doubled = definitions.keys().any(|label| self.settled.definitions.contains_key(label));
        self.whole |= doubled;
        if changed || doubled {
            self.settled = Settled::default();
            (tops, definitions) = self.read(text);
        }
        self.definitions = definitions;
        self.length = text.len();
        self.open = OpenCode::find(text, &tops, &self.fences, &self.rows);
        if !self.whole {
            self.settle(text, &tops);
        }
        if self.rows.is_empty() {
            self.rows.push(0, []);
        }
        true
    }

    /// Reads what is not settled.
    fn read(&mut self, text: &str) -> (Vec<Top>, Definitions) {
        let start = self.settled.end;
        self.rows.truncate(self.settled.rows);
        self.fences.truncate(self.settled.fences);
        let mut renderer = Renderer::new(text, self.columns, start, std::mem::take(&mut self.rows));
        let known = &self.settled.definitions;
        let mut find = |link: BrokenLink<'_>| {
            let (address, _) = known.get(&label(&link.reference))?;
            Some((CowStr::from(address.clone()), CowStr::from("")))
        };
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let parser = Parser::new_with_broken_link_callback(&text[start..], options, Some(&mut find));
        let defined = parser.reference_definitions().iter();
        let definitions = defined
            .map(|(name, definition)| (label(name), (definition.dest.to_string(), start + definition.span.start)));
        let definitions = definitions.collect();
        for (event, range) in parser.into_offset_iter() {
            renderer.event(event, start + range.start..start + range.end);
        }
        self.rows = renderer.rows;
        self.fences.append(&mut renderer.fences);
        (renderer.tops, definitions)
    }

    /// Settles what is above the block that holds the last complete line, and code that is over.
    fn settle(&mut self, text: &str, tops: &[Top]) {
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let Some(top) = tops.iter().rfind(|top| top.start < complete && top.apart) else { return };
        let over = self.fences.last().filter(|fence| fence.source.start == top.start && Some(top) == tops.last());
        let (end, rows) = match over.and_then(|fence| fence::end(text, fence)) {
            Some(end) => (end, self.rows.len()),
            None => (top.start, top.row),
        };
        if end <= self.settled.end {
            return;
        }
        self.settled.end = end;
        self.settled.rows = rows;
        self.settled.fences += self.fences[self.settled.fences..].partition_point(|f| f.source.start < end);
        let (above, below) = std::mem::take(&mut self.definitions).into_iter().partition(|(_, (_, at))| *at < end);
        self.definitions = below;
        self.settled.definitions.extend::<Definitions>(above);
    }

    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The code block that holds this place.
    pub fn fence_at(&self, place: usize) -> Option<&Fence> {
        let index = self.fences.partition_point(|fence| fence.source.start <= place).checked_sub(1)?;
        self.fences.get(index).filter(|fence| place <= fence.source.end)
    }

    /// Its code blocks, in order.
    #[cfg(test)]
    pub fn fences(&self) -> &[Fence] {
        &self.fences
    }
}

/// The code of a text's blocks, those within fences and those that are indented, in their order.
pub fn code_blocks(text: &str) -> Vec<String> {
    let mut markdown = Markdown::default();
    markdown.update(text, COLUMNS);
    let code = |fence: &Fence| {
        let own = |number| fence.own.iter().find(|(own, _)| *own == number).map(|(_, line)| line.as_str());
        let lines = fence.lines.iter().enumerate();
        lines.map(|(number, line)| own(number).unwrap_or(&text[line.clone()]).to_owned() + "\n").collect()
    };
    markdown.fences.iter().map(code).collect()
}

/// Where the rows do not matter.
const COLUMNS: usize = 80;

/// Labels are the same whatever their case and their space.
fn label(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests;
