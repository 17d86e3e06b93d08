//! The text of one paragraph, heading or cell: put together from pieces, wrapped as one, and cut into pieces again.

use std::ops::Range;

use super::super::text::rows::{Content, Piece, Style};
use super::super::text::sanitize::sanitize;
use super::super::text::{width, wrap};

/// Text in the making. Holds it as it will be read, with line feeds where lines must end.
#[derive(Debug, Clone, Default)]
pub struct Inline {
    text: String,
    spans: Vec<Span>,
    /// A line has ended, and space before the next word is none of the text.
    trims: bool,
}

#[derive(Debug, Clone)]
struct Span {
    /// Where it begins in `text`.
    at: usize,
    style: Style,
    source: Range<usize>,
    /// It is the source's text, byte by byte.
    verbatim: bool,
}

impl Inline {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// What was put together from here on.
    pub fn since(&self, at: usize) -> &str {
        &self.text[at..]
    }

    /// Where in the source it begins.
    pub fn start(&self) -> Option<usize> {
        self.spans.first().map(|span| span.source.start)
    }

    /// Adds what stands at `source`, which reads as `reading`.
    pub fn push(&mut self, whole: &str, source: Range<usize>, reading: &str, style: Style) {
        let verbatim = whole.get(source.clone()) == Some(reading);
        let trimmed = if self.trims { reading.trim_start_matches([' ', '\n']) } else { reading };
        let source = if verbatim { source.end - trimmed.len()..source.end } else { source };
        let reading = trimmed;
        if reading.is_empty() {
            return;
        }
        self.trims = false;
        self.spans.push(Span { at: self.text.len(), style, source, verbatim });
        if verbatim {
            self.text.push_str(reading);
        } else {
            // An entity such as `&#27;` can name what was kept out of the source.
            self.text.push_str(&sanitize(reading).replace('\n', " "));
        }
    }

    pub fn end_line(&mut self, source: Range<usize>) {
        // It has ended already.
        if self.trims {
            return;
        }
        self.spans.push(Span { at: self.text.len(), style: Style::default(), source, verbatim: false });
        self.text.push('\n');
    }

    /// Ends the line where what follows may begin with space.
    pub fn break_line(&mut self, source: Range<usize>) {
        self.trims = false;
        self.end_line(source);
        self.trims = true;
    }

    /// Columns of the longest line.
    pub fn width(&self) -> usize {
        self.text.split('\n').map(width).max().unwrap_or(0)
    }

    /// Columns of the longest word.
    pub fn longest_word(&self) -> usize {
        self.text.split([' ', '\n']).map(width).max().unwrap_or(0)
    }

    pub fn wrap(&self, columns: usize) -> Vec<wrap::Line> {
        let mut lines = Vec::new();
        wrap::wrap_flush(&self.text, columns, &mut lines);
        lines
    }

    pub fn line_width(&self, line: &wrap::Line) -> usize {
        width(&self.text[line.start..line.end])
    }

    /// Where a line begins in the source; `fallback` where it has no text.
    pub fn line_start(&self, line: &wrap::Line, fallback: usize) -> usize {
        let span = self.spans.partition_point(|span| span.at <= line.start).checked_sub(1);
        span.and_then(|index| self.spans.get(index)).map_or(fallback, |span| {
            if span.verbatim { span.source.start + line.start - span.at } else { span.source.start }
        })
    }

    pub fn pieces(&self, line: &wrap::Line) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let first = self.spans.partition_point(|span| span.at <= line.start).saturating_sub(1);
        for (index, span) in self.spans.iter().enumerate().skip(first) {
            let end = self.spans.get(index + 1).map_or(self.text.len(), |next| next.at).min(line.end);
            let start = span.at.max(line.start);
            if span.at >= line.end {
                break;
            }
            if start >= end {
                continue;
            }
            if !span.verbatim {
                let own = Content::Own(self.text[start..end].into());
                pieces.push(Piece { content: own, style: span.style, source: span.source.clone() });
                continue;
            }
            let source = span.source.start + start - span.at..span.source.start + end - span.at;
            match pieces.last_mut() {
                // Text around an escape or a line of one style comes in several spans.
                Some(last)
                    if last.content == Content::Source
                        && last.style == span.style
                        && last.source.end == source.start =>
                {
                    last.source.end = source.end;
                }
                _ => pieces.push(Piece::source(source, span.style)),
            }
        }
        pieces
    }
}
