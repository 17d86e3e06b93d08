//! From the parser's events to rows: blocks below each other, lists and quotes around them, emphasis within.
//!
//! Space is the writer's: blocks are as far apart as in the source, where a blank line stands or none, and line ends within
//! a paragraph stay. Models write poems and addresses, and hardly ever wrap their prose.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};

use super::super::text::rows::{Content, Piece, Role, Rows, Sign, Style};
use super::super::text::{width, wrap};
use super::code::Code;
use super::fence::{self, Fence};
use super::inline::Inline;
use super::table::{Table, TableRow};

/// A block that is in no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Top {
    /// The start of its first line.
    pub start: usize,
    /// The first row of it and of the blank one above it.
    pub row: usize,
    /// No definition of a link, of which the parser says nothing, goes on into its first line.
    pub apart: bool,
}

pub struct Renderer<'t> {
    text: &'t str,
    columns: usize,
    pub rows: Rows,
    pub tops: Vec<Top>,
    pub fences: Vec<Fence>,
    containers: Vec<Container>,
    lists: Vec<Option<u64>>,
    inline: Inline,
    inline_style: Styles,
    links: Vec<Link>,
    table: Option<Table>,
    code: Option<Code>,
    /// Where the first thing stands that may define a link.
    definition: Option<usize>,
    /// The line for which a blank row was added, if one was due.
    spaced: Option<usize>,
}

#[derive(Debug)]
enum Container {
    Quote,
    Item {
        marker: Vec<Piece>,
        columns: usize,
        /// Nothing stands beside the marker yet.
        fresh: bool,
    },
}

/// How deep the text is in emphasis of each kind.
#[derive(Debug, Default)]
struct Styles {
    role: Role,
    bold: usize,
    italic: usize,
    struck: usize,
}

#[derive(Debug)]
struct Link {
    url: String,
    /// Where its text begins.
    at: usize,
}

impl<'t> Renderer<'t> {
    /// Goes on with `rows`, from `start` of the text.
    pub fn new(text: &'t str, columns: usize, start: usize, rows: Rows) -> Self {
        Self {
            text,
            columns: columns.max(1),
            rows,
            tops: Vec::new(),
            fences: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            inline: Inline::default(),
            inline_style: Styles::default(),
            links: Vec::new(),
            table: None,
            code: None,
            definition: text[start..].find("]:").map(|at| start + at),
            spaced: None,
        }
    }

    pub fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag, range),
            Event::Text(text) if self.code.is_some() => self.code_text(&text, range),
            Event::Text(text) => self.push(range, &text),
            Event::Code(code) => self.inline_code(range, &code),
            Event::Html(html) => self.html_line(range, &html),
            Event::InlineHtml(html) => self.inline_html(range, &html),
            Event::SoftBreak | Event::HardBreak => self.inline.end_line(range),
            Event::Rule => {
                self.open(range.start);
                let columns = self.room();
                self.push_row(range.start, vec![Piece::sign(Sign::Rule, columns, Role::Border, range.start)]);
            }
            Event::TaskListMarker(_) => {
                let end = self.text[range.clone()].trim_end().len() + range.start;
                self.push_as(range.start..end, &self.text[range.start..end], Role::Marker);
                self.push_as(end..end, " ", Role::Text);
            }
            // Of extensions that are not asked for.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.push(range, &text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.open(range.start),
            Tag::Heading { .. } => {
                self.open(range.start);
                self.inline_style.role = Role::Heading;
            }
            Tag::BlockQuote(_) => {
                self.open(range.start);
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.open(range.start);
                let (language, fenced) = match kind {
                    CodeBlockKind::Fenced(info) => {
                        let word = info.split([' ', ',', '{', ':']).next().unwrap_or_default();
                        (super::super::text::sanitize::one_line(word), true)
                    }
                    CodeBlockKind::Indented => (String::new(), false),
                };
                self.code = Some(Code::new(language, fenced));
            }
            Tag::List(first) => {
                self.open(range.start);
                self.lists.push(first);
            }
            Tag::Item => self.item(range.start),
            Tag::Table(alignments) => {
                self.open(range.start);
                self.table = Some(Table { alignments, rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(TableRow { at: range.start, cells: Vec::new() });
                }
                self.inline_style.bold = usize::from(matches!(tag, Tag::TableHead));
            }
            Tag::TableCell => self.inline = Inline::default(),
            Tag::Emphasis => self.inline_style.italic += 1,
            Tag::Strong => self.inline_style.bold += 1,
            Tag::Strikethrough => self.inline_style.struck += 1,
            Tag::Link { dest_url, .. } => {
                self.links.push(Link { url: dest_url.into_string(), at: self.inline.len() });
            }
            Tag::Image { dest_url, .. } => {
                self.push_as(range.start..range.start, "image: ", Role::Aside);
                self.links.push(Link { url: dest_url.into_string(), at: self.inline.len() });
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: Range<usize>) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(level) => self.end_heading(level, range.start),
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.containers.pop();
            }
            TagEnd::CodeBlock => self.end_code(&range),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush();
                if let Some(Container::Item { fresh: true, .. }) = self.containers.last() {
                    self.push_row(range.start, Vec::new());
                }
                self.containers.pop();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    for (at, pieces) in table.lines(self.room()) {
                        self.push_row(at, pieces);
                    }
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => self.inline_style.bold = 0,
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.cells.push(cell);
                }
            }
            TagEnd::Emphasis => self.inline_style.italic = self.inline_style.italic.saturating_sub(1),
            TagEnd::Strong => self.inline_style.bold = self.inline_style.bold.saturating_sub(1),
            TagEnd::Strikethrough => self.inline_style.struck = self.inline_style.struck.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => self.end_link(&range),
            _ => {}
        }
    }

    /// A block begins.
    fn open(&mut self, at: usize) {
        self.flush();
        let line = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        if self.containers.is_empty() && self.lists.is_empty() {
            let apart = self.follows_blank(line) || self.definition.is_none_or(|at| at >= line);
            self.tops.push(Top { start: line, row: self.rows.len(), apart });
        }
        let spaced = self.spaced.replace(line) == Some(line);
        if !spaced && !self.rows.is_empty() && self.follows_blank(line) {
            self.push_blank(at);
        }
    }

    /// Whether the line above the one that begins at `line` is blank, but for what marks a quote.
    fn follows_blank(&self, line: usize) -> bool {
        self.text[..line].strip_suffix('\n').is_some_and(|above| {
            let above = above.rsplit_once('\n').map_or(above, |(_, last)| last);
            above.chars().all(|c| matches!(c, ' ' | '>'))
        })
    }

    fn item(&mut self, at: usize) {
        self.open(at);
        let depth = self.lists.iter().filter(|list| list.is_none()).count().saturating_sub(1);
        // An item may be indented.
        let at = self.text.len() - self.text[at..].trim_start_matches(' ').len();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let rest = self.text[at..].trim_start_matches(|c: char| c.is_ascii_digit());
                let sign = if rest.starts_with(')') { ')' } else { '.' };
                let source = at..self.text.len() - rest.len() + sign.len_utf8();
                let own = Content::Own(format!("{number:>2}{sign} ").into());
                *number += 1;
                vec![Piece { content: own, style: Role::Marker.into(), source }]
            }
            _ => vec![
                Piece::blank(1, at),
                Piece { source: at..at + 1, ..Piece::sign(Sign::Bullet(depth.min(255) as u8), 1, Role::Marker, at) },
                Piece::blank(1, at),
            ],
        };
        let columns = marker.iter().map(columns_of).sum();
        self.containers.push(Container::Item { marker, columns, fresh: true });
    }

    fn style(&self, role: Role) -> Style {
        let styles = &self.inline_style;
        let quoted = self.containers.iter().any(|container| matches!(container, Container::Quote));
        let role = match role {
            Role::Text if !self.links.is_empty() => Role::Link,
            Role::Text if styles.role == Role::Text && quoted => Role::Quote,
            Role::Text => styles.role,
            role => role,
        };
        Style { role, bold: styles.bold > 0, italic: styles.italic > 0, struck: styles.struck > 0 }
    }

    fn push(&mut self, range: Range<usize>, text: &str) {
        self.push_as(range, text, Role::Text);
    }

    fn push_as(&mut self, range: Range<usize>, text: &str, role: Role) {
        let style = self.style(role);
        self.inline.push(self.text, range, text, style);
    }

    fn inline_code(&mut self, range: Range<usize>, code: &str) {
        let whole = &self.text[range.clone()];
        let ticks = whole.len() - whole.trim_start_matches('`').len();
        let range = whole[ticks..].find(code).filter(|_| !code.is_empty()).map_or(range.clone(), |at| {
            let start = range.start + ticks + at;
            start..start + code.len()
        });
        self.push_as(range, code, Role::Code);
    }

    /// Lines of an HTML block come one by one.
    fn html_line(&mut self, range: Range<usize>, html: &str) {
        if !self.inline.is_empty() {
            self.inline.end_line(range.start..range.start);
        }
        let line = html.strip_suffix('\n').unwrap_or(html);
        self.push_as(range.start..range.start + line.len(), line, Role::Aside);
    }

    fn inline_html(&mut self, range: Range<usize>, html: &str) {
        let tag: String = html.chars().filter(|c| !matches!(c, ' ' | '/')).collect();
        if tag.eq_ignore_ascii_case("<br>") {
            self.inline.break_line(range);
        } else {
            self.push_as(range, html, Role::Aside);
        }
    }

    /// Says where a link leads, unless its text does.
    fn end_link(&mut self, range: &Range<usize>) {
        let Some(Link { url, at }) = self.links.pop() else { return };
        let text = self.inline.since(at.min(self.inline.len()));
        if url.is_empty() || url.strip_prefix("mailto:").unwrap_or(&url) == text {
            return;
        }
        let source = self.text[range.clone()].rfind(&url).map_or(range.end..range.end, |at| {
            let start = range.start + at;
            start..start + url.len()
        });
        let outer = std::mem::take(&mut self.links);
        self.push_as(source.start..source.start, " (", Role::Aside);
        self.push_as(source.clone(), &url, Role::Aside);
        self.push_as(source.end..source.end, ")", Role::Aside);
        self.links = outer;
    }

    /// Puts the text that was gathered into rows.
    fn flush(&mut self) {
        let inline = std::mem::take(&mut self.inline);
        self.links.clear();
        let Some(start) = inline.start() else { return };
        for line in inline.wrap(self.room()) {
            self.push_row(inline.line_start(&line, start), inline.pieces(&line));
        }
    }

    fn end_heading(&mut self, level: HeadingLevel, at: usize) {
        let columns = self.inline.width().min(self.room());
        self.flush();
        self.inline_style = Styles::default();
        if level == HeadingLevel::H1 && columns > 0 {
            self.push_row(at, vec![Piece::sign(Sign::Rule, columns, Role::Border, at)]);
        }
    }

    fn code_text(&mut self, text: &str, range: Range<usize>) {
        if let Some(code) = &mut self.code {
            code.push(text, range, self.text);
        }
    }

    fn end_code(&mut self, source: &Range<usize>) {
        let Some(code) = self.code.take() else { return };
        let room = self.room();
        self.push_row(source.start, heading_of_code(&code.language, room, source.start));
        for (line, own) in &code.lines {
            code_rows(self.text, line, own.as_deref(), room, |at, pieces| self.push_row(at, pieces));
        }
        // The last line is open while it is written.
        let ends = source.end < self.text.trim_end().len();
        if ends || if code.fenced { fence::is_closed(self.text, source) } else { false } {
            let at = source.end.saturating_sub(1).max(source.start);
            self.push_row(at, vec![Piece::sign(Sign::Rule, room, Role::Border, at)]);
        }
        let (lines, own): (Vec<_>, Vec<_>) = code.lines.into_iter().unzip();
        let own = own.into_iter().enumerate().filter_map(|(number, own)| Some((number, own?))).collect();
        self.fences.push(Fence { language: code.language, lines, own, source: source.clone() });
    }

    /// The containers whose marks there is room for, the innermost always, and where they begin.
    fn shown_containers(&self) -> usize {
        let mut left = self.columns * 2 / 3;
        let mut first = self.containers.len();
        for (index, container) in self.containers.iter().enumerate().rev() {
            let columns = container.columns();
            if columns > left {
                break;
            }
            left -= columns;
            first = index;
        }
        first
    }

    /// Columns beside what lists and quotes put in front.
    fn room(&self) -> usize {
        let used: usize = self.containers[self.shown_containers()..].iter().map(Container::columns).sum();
        self.columns.saturating_sub(used).max(1)
    }

    fn push_row(&mut self, at: usize, pieces: Vec<Piece>) {
        let first = self.shown_containers();
        let mut row = Vec::new();
        for (index, container) in self.containers.iter_mut().enumerate() {
            let shown = index >= first;
            match container {
                Container::Quote if shown => {
                    row.extend([Piece::sign(Sign::Bar, 1, Role::Border, at), Piece::blank(1, at)]);
                }
                Container::Quote => {}
                Container::Item { marker, fresh, columns } => {
                    if std::mem::take(fresh) && shown {
                        row.append(marker);
                    } else if shown {
                        row.push(Piece::blank(*columns, at));
                    }
                }
            }
        }
        row.extend(pieces);
        // A list's sign stands before what it marks.
        let start = row.iter().map(|piece| piece.source.start).min();
        self.rows.push(start.map_or(at, |start| start.min(at)), row);
    }

    fn push_blank(&mut self, at: usize) {
        let mut row = Vec::new();
        for container in &self.containers[self.shown_containers()..] {
            row.extend(match container {
                Container::Quote => vec![Piece::sign(Sign::Bar, 1, Role::Border, at), Piece::blank(1, at)],
                Container::Item { columns, .. } => vec![Piece::blank(*columns, at)],
            });
        }
        while row.last().is_some_and(|piece| matches!(piece.content, Content::Blank(_))) {
            row.pop();
        }
        self.rows.push(at, row);
    }
}

impl Container {
    fn columns(&self) -> usize {
        match self {
            Self::Quote => 2,
            Self::Item { columns, .. } => *columns,
        }
    }
}

fn columns_of(piece: &Piece) -> usize {
    match &piece.content {
        Content::Source => piece.source.len(),
        Content::Blank(columns) | Content::Sign(_, columns) => *columns,
        Content::Own(text) => width(text),
    }
}

/// What is left of a line of code stands a little right of where it began.
fn code_indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len() + 2
}

/// The rows of one line of code, which may read otherwise than the text.
pub fn code_rows(
    text: &str,
    line: &Range<usize>,
    own: Option<&str>,
    columns: usize,
    mut push: impl FnMut(usize, Vec<Piece>),
) {
    let mut parts = Vec::new();
    wrap::wrap_line(own.unwrap_or(&text[line.clone()]), 0, columns, code_indent, &mut parts);
    for part in parts {
        let piece = match own {
            Some(own) => Piece {
                content: Content::Own(own[part.start..part.end].into()),
                style: Role::CodeBlock.into(),
                source: line.clone(),
            },
            None => Piece::source(line.start + part.start..line.start + part.end, Role::CodeBlock),
        };
        let at = piece.source.start;
        let indent = (part.indent > 0).then(|| Piece::blank(part.indent, at));
        push(at, indent.into_iter().chain((part.end > part.start).then_some(piece)).collect());
    }
}

/// `── rust ─────`.
fn heading_of_code(language: &str, columns: usize, at: usize) -> Vec<Piece> {
    let rule = |times| Piece::sign(Sign::Rule, times, Role::Border, at);
    let used = width(language) + 4;
    if language.is_empty() || used >= columns {
        return vec![rule(columns)];
    }
    let name =
        Piece { content: Content::Own(format!(" {language} ").into()), style: Role::Aside.into(), source: at..at };
    vec![rule(2), name, rule(columns - used)]
}
