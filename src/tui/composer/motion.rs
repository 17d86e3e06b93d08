//! Where a motion leads from a place in a text, by graphemes, words and lines. Knows no screen.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// Stands for a thing that is no text: a word of its own.
pub const UNIT: char = '\u{fffc}';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Start,
    End,
    /// The first character of the line that is no space.
    FirstOfLine,
    /// The beginning of the next word, where signs make words too; vi's `w`.
    NextWord,
    /// Likewise the one before; `b`.
    PreviousWord,
    /// The last character of the word, or of the next one; `e`.
    WordEnd,
    /// The same column of the line below or above.
    LineDown,
    LineUp,
    /// A character of the same line, or the place before it.
    Find {
        what: char,
        forward: bool,
        before: bool,
    },
}

/// Where the motion leads from `at`; `at` itself where there is nothing to go to.
pub fn target(text: &str, at: usize, motion: Motion) -> usize {
    match motion {
        Motion::Left => previous(text, at),
        Motion::Right => next(text, at),
        Motion::WordLeft => word_start_before(text, at),
        Motion::WordRight => word_end_after(text, at),
        Motion::LineStart => line_start(text, at),
        Motion::LineEnd => line_end(text, at),
        Motion::Start => 0,
        Motion::End => text.len(),
        Motion::FirstOfLine => {
            let line = &text[line_start(text, at)..line_end(text, at)];
            line_start(text, at) + line.len() - line.trim_start().len()
        }
        Motion::NextWord => {
            let class = class_at(text, at);
            let word = skip(text, at, |c| class != Class::Space && class_of(c) == class);
            // An empty line counts as a word.
            let empty = text[word..].match_indices('\n').map(|(offset, _)| word + offset);
            let empty = empty.filter(|line| text[line + 1..].starts_with('\n')).map(|line| line + 1).next();
            let next = skip(text, word, |c| class_of(c) == Class::Space);
            empty.map_or(next, |line| line.min(next))
        }
        Motion::PreviousWord => {
            let end = skip_back(text, at, |c| class_of(c) == Class::Space);
            let class = text[..end].chars().next_back().map_or(Class::Space, class_of);
            skip_back(text, end, |c| class_of(c) == class)
        }
        Motion::WordEnd => {
            let word = skip(text, next(text, at), |c| class_of(c) == Class::Space);
            let class = class_at(text, word);
            let end = skip(text, word, |c| class_of(c) == class);
            if end > word { previous(text, end) } else { at }
        }
        Motion::LineDown | Motion::LineUp => {
            let column = text[line_start(text, at)..at].graphemes(true).count();
            let start = match motion {
                Motion::LineDown if line_end(text, at) == text.len() => return at,
                Motion::LineDown => line_end(text, at) + 1,
                _ if line_start(text, at) == 0 => return at,
                _ => line_start(text, line_start(text, at) - 1),
            };
            let line = &text[start..line_end(text, start)];
            start + line.grapheme_indices(true).nth(column).map_or(line.len(), |(offset, _)| offset)
        }
        Motion::Find { what, forward: true, before } => {
            let from = next(text, at);
            let found = text[from..line_end(text, from.min(text.len()))].find(what).map(|offset| from + offset);
            found.map_or(at, |found| if before { previous(text, found) } else { found })
        }
        Motion::Find { what, forward: false, before } => {
            let found = text[line_start(text, at)..at].rfind(what).map(|offset| line_start(text, at) + offset);
            found.map_or(at, |found| if before { next(text, found) } else { found })
        }
    }
}

const BRACKETS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];

/// The bracket that belongs to the one at `at` or to the next one in the line; `at` where there is none.
pub fn bracket(text: &str, at: usize) -> usize {
    let kind = |c: char| BRACKETS.into_iter().find(|(open, close)| c == *open || c == *close);
    let line = text[at..line_end(text, at)].char_indices();
    let Some((place, here, (open, close))) = line.filter_map(|(offset, c)| Some((at + offset, c, kind(c)?))).next()
    else {
        return at;
    };
    let (same, other) = if here == open { (open, close) } else { (close, open) };
    let mut depth = 0usize;
    let mut belongs = |c: char| {
        depth += usize::from(c == same);
        depth -= usize::from(c == other);
        depth == 0
    };
    let found = if here == open {
        text[place..].char_indices().find(|(_, c)| belongs(*c)).map(|(offset, _)| place + offset)
    } else {
        text[..place + close.len_utf8()].char_indices().rev().find(|(_, c)| belongs(*c)).map(|(found, _)| found)
    };
    found.unwrap_or(at)
}

pub fn next(text: &str, at: usize) -> usize {
    GraphemeCursor::new(at, text.len(), true).next_boundary(text, 0).ok().flatten().unwrap_or(at)
}

pub fn previous(text: &str, at: usize) -> usize {
    GraphemeCursor::new(at, text.len(), true).prev_boundary(text, 0).ok().flatten().unwrap_or(at)
}

pub fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |at| at + 1)
}

pub fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |offset| at + offset)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    Word,
    Sign,
    Unit,
}

fn class_of(c: char) -> Class {
    match c {
        c if c.is_whitespace() => Class::Space,
        UNIT => Class::Unit,
        c if c.is_alphanumeric() || c == '_' => Class::Word,
        // Combining marks and joiners go with what they stand on.
        '\u{300}'..='\u{36f}' | '\u{200d}' => Class::Word,
        _ => Class::Sign,
    }
}

fn class_at(text: &str, at: usize) -> Class {
    text[at..].chars().next().map_or(Class::Space, class_of)
}

fn skip(text: &str, at: usize, while_: impl Fn(char) -> bool) -> usize {
    text[at..].find(|c| !while_(c)).map_or(text.len(), |offset| at + offset)
}

fn skip_back(text: &str, at: usize, while_: impl Fn(char) -> bool) -> usize {
    text[..at].trim_end_matches(while_).len()
}

fn word_start_before(text: &str, cursor: usize) -> usize {
    let before = text[..cursor].trim_end_matches(|c: char| !c.is_alphanumeric());
    before.char_indices().rev().find(|(_, c)| !c.is_alphanumeric()).map_or(0, |(at, c)| at + c.len_utf8())
}

fn word_end_after(text: &str, cursor: usize) -> usize {
    let rest = &text[cursor..];
    let word = rest.find(char::is_alphanumeric).unwrap_or(rest.len());
    cursor + rest[word..].find(|c: char| !c.is_alphanumeric()).map_or(rest.len(), |at| word + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All the places from one end to the other.
    fn walk(text: &str, from: usize, motion: Motion) -> Vec<usize> {
        let mut places = vec![from];
        loop {
            let at = places[places.len() - 1];
            match target(text, at, motion) {
                next if next == at => return places,
                next => places.push(next),
            }
        }
    }

    #[test]
    fn vi_words_are_letters_or_signs() {
        let text = "fn main() {\n\n  let\tä = 1;";
        let starts = walk(text, 0, Motion::NextWord);
        assert_eq!(starts, [0, 3, 7, 10, 12, 15, 19, 22, 24, 25, 26]);
        assert_eq!(walk(text, text.len(), Motion::PreviousWord), [26, 25, 24, 22, 19, 15, 10, 7, 3, 0]);
        assert_eq!(walk(text, 0, Motion::WordEnd), [0, 1, 6, 8, 10, 17, 19, 22, 24, 25]);
    }

    #[test]
    fn lines_keep_the_column_where_they_can() {
        let text = "日本語\n\nabcdef";
        assert_eq!(walk(text, 6, Motion::LineDown), [6, 10, 11]);
        assert_eq!(walk(text, 14, Motion::LineUp), [14, 10, 0]);
        assert_eq!((target(text, 13, Motion::FirstOfLine), target(" \tx", 3, Motion::FirstOfLine)), (11, 2));
    }

    #[test]
    fn characters_are_found_in_their_line() {
        let find = |what, forward, before| Motion::Find { what, forward, before };
        let text = "a,b,c\n,d";
        assert_eq!(walk(text, 0, find(',', true, false)), [0, 1, 3]);
        assert_eq!(target(text, 0, find('c', true, true)), 3);
        assert_eq!(walk(text, 4, find(',', false, false)), [4, 3, 1]);
        assert_eq!(target(text, 4, find('a', false, true)), 1);
        assert_eq!(target(text, 8, find('d', true, false)), 8);
    }

    proptest! {
        #[test]
        fn motions_end_on_characters(text in "[ab_ .,\n日é👩🏽🇫🇷\u{301}]{0,40}", at in 0usize..200, which in 0usize..17) {
            let at = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).nth(at % (text.len() + 1));
            let Some(at) = at else { return Ok(()) };
            let find = |forward, before| Motion::Find { what: 'a', forward, before };
            let motions = [
                Motion::Left, Motion::Right, Motion::WordLeft, Motion::WordRight, Motion::LineStart, Motion::LineEnd,
                Motion::Start, Motion::End, Motion::FirstOfLine, Motion::NextWord, Motion::PreviousWord,
                Motion::WordEnd, Motion::LineDown, find(true, true), find(true, false), find(false, true),
                find(false, false),
            ];
            let to = target(&text, at, motions[which]);
            prop_assert!(text.is_char_boundary(to), "{:?} {} {}", motions[which], at, to);
        }
    }
}
