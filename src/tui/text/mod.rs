//! Text as a terminal can show it: made safe, measured in columns, wrapped, in rows. Knows no widgets and no colours.

pub mod rows;
pub mod sanitize;
pub mod wrap;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns that `text` takes; it must hold no control characters.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(UnicodeWidthStr::width).sum() }
}

/// As much of `text` as fits into `columns`, with `ellipsis` where something was cut off.
pub fn truncate(text: &str, columns: usize, ellipsis: &str) -> String {
    if width(text) <= columns {
        return text.to_string();
    }
    let room = columns.saturating_sub(width(ellipsis));
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        used += grapheme.width();
        if used > room {
            break;
        }
        out.push_str(grapheme);
    }
    let mut out = out.trim_end().to_string();
    if width(ellipsis) <= columns {
        out.push_str(ellipsis);
    }
    out
}

/// The beginning and the end of `text`, for names that differ in their ends.
pub fn truncate_middle(text: &str, columns: usize, ellipsis: &str) -> String {
    let room = columns.saturating_sub(width(ellipsis));
    if width(text) <= columns || room < 8 {
        return truncate(text, columns, ellipsis);
    }
    let head = truncate(text, room - room / 2, "");
    let mut tail = Vec::new();
    let mut used = 0;
    for grapheme in text.graphemes(true).rev() {
        used += grapheme.width();
        if used > room / 2 {
            break;
        }
        tail.push(grapheme);
    }
    tail.reverse();
    format!("{head}{ellipsis}{}", tail.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_count_two_columns() {
        assert_eq!((width("abc"), width("日本"), width("e\u{301}")), (3, 4, 1));
    }

    #[test]
    fn cutting_never_splits_a_character_or_exceeds_the_room() {
        assert_eq!(truncate("capital of France", 10, "…"), "capital o…");
        assert_eq!(truncate("日本語の文", 6, "…"), "日本…");
        assert_eq!(truncate("short", 10, "…"), "short");
        assert_eq!(truncate("abc", 0, "…"), "");
        assert_eq!(truncate_middle("a-model-of-7b-and-a-hash", 15, "…"), "a-model…-a-hash");
        assert_eq!(truncate_middle("日本語の長い文です", 11, "…"), "日本…です");
        assert_eq!(truncate_middle("a-model", 5, "…"), "a-mo…");
    }
}
