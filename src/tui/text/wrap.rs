//! Word wrap by display width. Lines are ranges into the text, so a place in the text stays a place when the width
//! changes.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// One line on the screen: `indent` columns of space, then `text[start..end]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    pub start: usize,
    pub end: usize,
    pub indent: usize,
}

/// Wraps `text`, which must be sanitized, to `columns`. There is always at least one line.
pub fn wrap(text: &str, columns: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    wrap_from(text, 0, columns, &mut lines);
    lines
}

/// Wraps `text[from..]`, where `from` is the start of a paragraph, and appends to `lines`.
pub fn wrap_from(text: &str, from: usize, columns: usize, lines: &mut Vec<Line>) {
    let mut start = from;
    for paragraph in text[from..].split('\n') {
        wrap_line(paragraph, start, columns, hanging_indent, lines);
        start += paragraph.len() + 1;
    }
}

/// Wraps `text` likewise, each line of a paragraph under the first.
pub fn wrap_flush(text: &str, columns: usize, lines: &mut Vec<Line>) {
    let mut start = 0;
    for paragraph in text.split('\n') {
        wrap_line(paragraph, start, columns, |_| 0, lines);
        start += paragraph.len() + 1;
    }
}

/// Wraps one line of a text, in which it stands at `offset`. `hanging` says how far what does not fit is indented.
pub fn wrap_line(
    paragraph: &str,
    offset: usize,
    columns: usize,
    hanging: impl Fn(&str) -> usize,
    lines: &mut Vec<Line>,
) {
    let columns = columns.max(1);
    if paragraph.len() <= columns && paragraph.is_ascii() {
        lines.push(Line { start: offset, end: offset + paragraph.len(), indent: 0 });
        return;
    }
    let hanging = hanging(paragraph);
    let hanging = if hanging * 2 > columns { 0 } else { hanging };

    let mut indent = 0;
    let mut start = 0; // of this line
    let mut used = 0; // columns of this line, its indent included
    let mut last_break: Option<Break> = None;
    let mut previous_wide = false;
    for (at, grapheme) in paragraph.grapheme_indices(true) {
        let grapheme_width = if grapheme.len() == 1 { 1 } else { grapheme.width() };
        let space = grapheme == " ";
        let wide = grapheme_width > 1;
        // Scripts without spaces, Chinese and Japanese, may be broken between any two characters.
        if (wide || previous_wide)
            && at > start
            && !space
            && !closes(grapheme)
            && last_break.as_ref().is_none_or(|b| b.next != at)
        {
            last_break = Some(Break { end: at, next: at, used });
        }
        previous_wide = wide;
        // Spaces hang over the edge rather than open the next line.
        if used + grapheme_width > columns && !space && at > start {
            // A break within the hanging indent would leave the line as long as it was.
            let helps = |b: &Break| b.next > start && b.used > hanging;
            let cut = last_break.take().filter(helps).unwrap_or(Break { end: at, next: at, used });
            lines.push(Line { start: offset + start, end: offset + cut.end, indent });
            start = cut.next;
            indent = hanging;
            used = indent + used.saturating_sub(cut.used);
        }
        used += grapheme_width;
        if space {
            let end = last_break.as_ref().filter(|b| b.next == at).map_or(at, |b| b.end);
            // Spaces in front of the first word are indentation, not a place to break.
            if paragraph[start..at].contains(|c: char| c != ' ') {
                last_break = Some(Break { end, next: at + 1, used });
            }
        }
    }
    let end = if used > columns { start + paragraph[start..].trim_end_matches(' ').len() } else { paragraph.len() };
    lines.push(Line { start: offset + start, end: offset + end.max(start), indent });
}

struct Break {
    /// Where the line before ends, and where the one after begins; spaces lie between.
    end: usize,
    next: usize,
    /// Columns up to `next`.
    used: usize,
}

/// Closing punctuation stays on the line of the word before it.
fn closes(grapheme: &str) -> bool {
    matches!(
        grapheme,
        "。" | "、" | "，" | "．" | "！" | "？" | "；" | "：" | "）" | "」" | "』" | "】" | "》" | "," | "." | ")"
    )
}

/// Where the continuation of a list item or an indented line begins: under its first word.
fn hanging_indent(paragraph: &str) -> usize {
    let spaces = paragraph.len() - paragraph.trim_start_matches(' ').len();
    let rest = &paragraph[spaces..];
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let marker = if rest.starts_with("- ") || rest.starts_with("* ") || rest.starts_with("+ ") || rest.starts_with("> ")
    {
        2
    } else if (1..=3).contains(&digits) && (rest[digits..].starts_with(". ") || rest[digits..].starts_with(") ")) {
        digits + 2
    } else {
        0
    };
    spaces + marker
}

#[cfg(test)]
mod tests {
    use super::super::width;
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str, columns: usize) -> Vec<String> {
        wrap(text, columns).iter().map(|l| " ".repeat(l.indent) + &text[l.start..l.end]).collect()
    }

    #[test]
    fn words_are_kept_whole() {
        assert_eq!(shown("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(shown("the quick  brown", 9), ["the quick", "brown"]);
    }

    #[test]
    fn a_word_longer_than_the_line_is_cut() {
        assert_eq!(shown("a abcdefghij", 4), ["a", "abcd", "efgh", "ij"]);
    }

    #[test]
    fn empty_lines_stay() {
        assert_eq!(shown("a\n\nb\n", 10), ["a", "", "b", ""]);
        assert_eq!(shown("", 10), [""]);
    }

    #[test]
    fn list_items_hang_under_their_first_word() {
        assert_eq!(shown(" 1. the river crossing here", 16), [" 1. the river", "    crossing", "    here"]);
        assert_eq!(shown("- one two three", 8), ["- one", "  two", "  three"]);
        assert_eq!(shown("- abcdefgh", 6), ["- abcd", "  efgh"]);
        assert_eq!(shown(" 👩.----", 6), [" 👩.--", " --"]);
    }

    #[test]
    fn scripts_without_spaces_break_anywhere_but_before_a_full_stop() {
        assert_eq!(shown("日本語の文章", 6), ["日本語", "の文章"]);
        assert_eq!(shown("日本語。はい", 6), ["日本", "語。は", "い"]);
    }

    #[test]
    fn indentation_is_kept() {
        assert_eq!(shown("    let x = 1;", 20), ["    let x = 1;"]);
        assert_eq!(shown("    abcdefghijklmnop", 10), ["    abcdef", "    ghijkl", "    mnop"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_room_and_only_spaces_are_left_out(
            text in "[a-c日本é👩🏽🇫🇷 \n.-]{0,120}", columns in 6usize..40
        ) {
            let text = super::super::sanitize::sanitize(&text);
            let lines = wrap(&text, columns);
            let mut at = 0;
            for line in &lines {
                prop_assert!(line.indent + width(&text[line.start..line.end]) <= columns, "{lines:?}");
                prop_assert!(text[at..line.start].chars().all(|c| c == ' ' || c == '\n'), "{lines:?}");
                at = line.end;
            }
            prop_assert!(text[at..].chars().all(|c| c == ' '));
        }
    }
}
