//! Code blocks: which lines of the text they are.

use std::ops::Range;

/// A code block as it stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The first word behind the opening fence; empty where there is none.
    pub language: String,
    /// Its lines without their ends and without what a list or a quote around them puts in front.
    pub lines: Vec<Range<usize>>,
    /// With its fences.
    pub source: Range<usize>,
}

/// Whether the block at `source`, which a fence opens, is closed by one too.
pub fn is_closed(text: &str, source: &Range<usize>) -> bool {
    let block = text.get(source.clone()).unwrap_or_default();
    let sign = if block.starts_with('~') { '~' } else { '`' };
    let opening = block.len() - block.trim_start_matches(sign).len();
    let Some((_, last)) = block.trim_end().rsplit_once('\n') else { return false };
    // A list or a quote puts something in front.
    let last = last.trim_start_matches([' ', '>']);
    last.len() >= opening.max(3) && last.chars().all(|c| c == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_closed_by_one_of_its_kind_and_length() {
        for (block, closed) in [
            ("```rust\nlet x;\n```", true),
            ("```\n", false),
            ("```", false),
            ("```\n```\n", true),
            ("````\n```", false),
            ("~~~\nx\n```", false),
            ("~~~\nx\n   ~~~~~", true),
            ("```\n> x\n> ```", true),
            ("```\nlet x = 1; ```", false),
        ] {
            assert_eq!(is_closed(block, &(0..block.len())), closed, "{block:?}");
        }
    }
}
