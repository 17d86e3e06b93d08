//! The lines of a code block, as the parser gives them piece by piece.

use std::ops::Range;

#[derive(Debug)]
pub struct Code {
    pub language: String,
    pub fenced: bool,
    /// Where each line stands in the text, and what it says, where the text says it otherwise.
    pub lines: Vec<(Range<usize>, Option<String>)>,
    /// The last of them has no end yet.
    is_open: bool,
}

impl Code {
    pub fn new(language: String, fenced: bool) -> Self {
        Self { language, fenced, lines: Vec::new(), is_open: false }
    }

    /// Takes the next piece, which stands at `range` of the whole text.
    pub fn push(&mut self, piece: &str, range: Range<usize>, whole: &str) {
        let verbatim = whole.get(range.clone()) == Some(piece);
        let mut start = range.start;
        for line in piece.split_inclusive('\n') {
            let end = start + line.len();
            let bare = line.strip_suffix('\n').unwrap_or(line);
            let (at, own) = match verbatim {
                true => (start..start + bare.len(), None),
                false => (range.clone(), Some(bare.to_owned())),
            };
            match self.lines.last_mut().filter(|_| self.is_open) {
                // What is left of a tab that is in part a list's comes by itself.
                Some((before, before_own)) => {
                    let words =
                        before_own.as_deref().or(whole.get(before.clone())).unwrap_or_default().to_owned() + bare;
                    before.end = before.end.max(at.end);
                    *before_own = (whole.get(before.clone()) != Some(words.as_str())).then_some(words);
                }
                None => self.lines.push((at, own)),
            }
            self.is_open = !line.ends_with('\n');
            start = end;
        }
    }
}
