//! Code blocks: which lines of the text they are, and where they end.

use std::ops::Range;

/// A code block as it stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The first word behind the opening fence; empty where there is none.
    pub language: String,
    /// Its lines without their ends and without what a list or a quote around them puts in front.
    pub lines: Vec<Range<usize>>,
    /// Those that the text says otherwise, by their numbers.
    pub own: Vec<(usize, String)>,
    /// With its fences.
    pub source: Range<usize>,
}

/// The sign of the fence that opens a block, and how often it stands there; `None` where its source begins otherwise.
pub fn opening(text: &str, fence: &Fence) -> Option<(char, usize)> {
    run(text.get(fence.source.clone())?)
}

/// Signs of a fence at the line's beginning.
fn run(line: &str) -> Option<(char, usize)> {
    let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    Some((sign, line.len() - line.trim_start_matches(sign).len())).filter(|(_, length)| *length >= 3)
}

/// Whether the block at `source`, which a fence opens, is closed by one too.
pub fn is_closed(text: &str, source: &Range<usize>) -> bool {
    let block = text.get(source.clone()).unwrap_or_default();
    let (sign, length) = run(block).unwrap_or(('`', 3));
    block.trim_end().rsplit_once('\n').is_some_and(|(_, last)| is_closing(last, sign, length))
}

/// Whether a line of this block could be the one that closes it.
pub fn may_close(text: &str, fence: &Fence, line: &str) -> bool {
    opening(text, fence).is_none_or(|(sign, length)| is_closing(line.trim_end(), sign, length))
}

fn is_closing(line: &str, sign: char, length: usize) -> bool {
    // A list or a quote puts something in front.
    let line = line.trim_start_matches([' ', '>']);
    line.len() >= length && line.chars().all(|c| c == sign)
}

/// Where the line ends that closes this block, which is in no list and no quote; `None` while it is not complete.
pub fn end(text: &str, fence: &Fence) -> Option<usize> {
    let (sign, length) = opening(text, fence)?;
    let block = text[fence.source.clone()].trim_end();
    let (_, last) = block.rsplit_once('\n')?;
    let indent = last.len() - last.trim_start_matches(' ').len();
    let closes = indent < 4 && is_closing(&last[indent..], sign, length) && last[indent..].starts_with(sign);
    let rest = &text[fence.source.start + block.len()..];
    closes.then(|| rest.find('\n').map(|at| fence.source.start + block.len() + at + 1)).flatten()
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
