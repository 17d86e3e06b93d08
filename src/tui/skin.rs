//! How things look: the theme's styles and the glyphs, and lines put together from both.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::glyphs::Glyphs;
use super::text::rows::{self, Role};
use super::text::{self, truncate};
use super::theme::Theme;

#[derive(Debug, Clone, Copy)]
pub struct Skin {
    pub theme: Theme,
    pub glyphs: Glyphs,
}

/// A line that this program keeps: nothing in it is borrowed.
pub type Text = Line<'static>;

impl Skin {
    pub fn dim(&self, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.theme.dim)
    }

    pub fn plain(&self, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.theme.text)
    }

    pub fn number(&self, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.theme.number)
    }

    pub fn styled(&self, style: Style, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), style)
    }

    /// How a piece of the conversation looks.
    pub fn prose(&self, style: rows::Style) -> Style {
        let theme = &self.theme;
        let mut look = match style.role {
            Role::Text | Role::CodeBlock => theme.text,
            Role::Heading => theme.heading,
            Role::Code => theme.code,
            Role::Keyword => theme.code_keyword,
            Role::String => theme.code_string,
            Role::Comment => theme.code_comment,
            Role::Number => theme.code_number,
            Role::Function => theme.code_function,
            Role::Link => theme.link,
            Role::Aside => theme.dim,
            Role::Quote => theme.quote,
            Role::Marker => theme.accent,
            Role::Border => theme.border,
        };
        for (on, modifier) in
            [(style.bold, Modifier::BOLD), (style.italic, Modifier::ITALIC), (style.struck, Modifier::CROSSED_OUT)]
        {
            look = if on { look.add_modifier(modifier) } else { look };
        }
        look
    }

    /// What stands in place of a number that was not measured yet.
    pub fn absent(&self) -> Span<'static> {
        self.dim(self.glyphs.absent)
    }

    /// A bright number, right-aligned in `columns`, or the sign for none.
    pub fn figure(&self, value: Option<String>, columns: usize) -> Span<'static> {
        match value {
            Some(value) => self.number(pad_left(&value, columns)),
            None => self.dim(pad_left(self.glyphs.absent, columns)),
        }
    }

    /// `41 ms` as a bright number, right-aligned in `columns`, and a dim unit.
    pub fn measure(&self, value: &str, columns: usize) -> [Span<'static>; 2] {
        let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
        [self.number(pad_left(number, columns)), self.dim(format!(" {unit}"))]
    }

    /// Between two facts.
    pub fn dot(&self) -> Span<'static> {
        self.dim(format!(" {} ", self.glyphs.dot))
    }

    /// As much of the line as fits.
    pub fn fit(&self, line: Text, columns: usize) -> Text {
        if width(&line) <= columns {
            return line;
        }
        let mut left = columns;
        let mut spans = Vec::new();
        for span in line.spans {
            let span_width = text::width(&span.content);
            if span_width < left {
                left -= span_width;
                spans.push(span);
                continue;
            }
            // This span meets the edge, and there is more than fits.
            let cut = truncate(&format!("{}   ", span.content), left, self.glyphs.ellipsis);
            spans.push(Span::styled(cut, span.style));
            break;
        }
        Line::from(spans)
    }

    /// `left` at the left edge, `right` at the right one; `left` gives way.
    pub fn spread(&self, left: Text, right: Text, columns: usize) -> Text {
        let right_width = width(&right);
        if right_width > columns {
            return self.fit(right, columns);
        }
        let room = columns - right_width;
        let gap = if right_width == 0 { 0 } else { 2 };
        let left = self.fit(left, room.saturating_sub(gap));
        let space = room.saturating_sub(width(&left));
        let mut spans = left.spans;
        spans.push(Span::raw(" ".repeat(space)));
        spans.extend(right.spans);
        Line::from(spans)
    }

    /// A bar of `columns` cells, filled as far as `fraction`.
    pub fn gauge(&self, fraction: f64, columns: usize) -> [Span<'static>; 2] {
        let full = if fraction.is_finite() { (fraction.clamp(0.0, 1.0) * columns as f64).round() as usize } else { 0 };
        [
            Span::styled(self.glyphs.gauge_full.repeat(full), self.theme.chart),
            Span::styled(self.glyphs.gauge_empty.repeat(columns - full), self.theme.border),
        ]
    }
}

pub fn width(line: &Text) -> usize {
    line.spans.iter().map(|span| text::width(&span.content)).sum()
}

/// The text in as many rows as it takes.
pub fn rows_of(text: &str, columns: usize) -> Vec<String> {
    let rows = text::wrap::wrap(text, columns.max(1));
    rows.into_iter().map(|row| text[row.start..row.end].trim_end().to_owned()).collect()
}

pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(text::width(text))))
}

pub fn pad_right(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text::width(text))))
}

#[cfg(test)]
pub fn test_skin() -> Skin {
    #[allow(clippy::unwrap_used)]
    Skin { theme: Theme::named("default").unwrap(), glyphs: super::glyphs::UNICODE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &Text) -> String {
        line.spans.iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn the_left_side_gives_way() {
        let skin = test_skin();
        let line = |columns| shown(&skin.spread(Line::from("a long title"), Line::from("right"), columns));
        assert_eq!(line(22), "a long title     right");
        assert_eq!(line(14), "a long…  right");
        assert_eq!(line(5), "right");
        assert_eq!(line(3), "ri…");
    }

    #[test]
    fn a_line_is_cut_across_its_spans() {
        let skin = test_skin();
        let line = Line::from(vec![Span::raw("one "), Span::raw("two "), Span::raw("three")]);
        assert_eq!(shown(&skin.fit(line.clone(), 7)), "one tw…");
        assert_eq!(shown(&skin.fit(line.clone(), 13)), "one two three");
        assert_eq!(shown(&skin.fit(line, 8)), "one two…");
    }
}
