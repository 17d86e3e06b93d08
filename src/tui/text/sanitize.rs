//! Turns text from a model or a clipboard into text that is safe to send to a terminal.
//!
//! The original is kept elsewhere: what is shown here is never what is sent to the model.

/// Works on text that comes in pieces: a character's treatment may depend on the one before it, in the piece before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sanitizer {
    previous: Option<char>,
}

/// Columns between tab stops; a tab becomes this many spaces, wherever it stands.
const TAB: &str = "    ";

impl Sanitizer {
    pub fn push(&mut self, raw: &str, out: &mut String) {
        out.reserve(raw.len());
        for c in raw.chars() {
            match c {
                // A lone carriage return ends a line too; the pair counts once.
                '\n' if self.previous == Some('\r') => {}
                '\n' | '\r' | '\u{2028}' | '\u{2029}' => out.push('\n'),
                '\t' => out.push_str(TAB),
                '\0'..='\u{1f}' => {
                    out.push('^');
                    out.push(char::from(c as u8 + b'@'));
                }
                '\u{7f}' => out.push_str("^?"),
                // C1 controls, and the marks that reorder text so that it reads as something else.
                '\u{80}'..='\u{9f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{61c}' => {
                    out.push_str(&format!("<{:02x}>", c as u32));
                }
                // Terminals do not agree on the width of sequences made with these: emoji are shown one by one and in
                // their plain colour, symbols in their text form, so that what stands right of them stays in its column.
                '\u{fe0f}' => {}
                '\u{200d}' if self.previous.is_none_or(is_emoji) => {}
                '\u{1f3fb}'..='\u{1f3ff}' if self.previous.is_some_and(is_emoji) => {}
                // Flags are two letters, which some terminals draw in two columns, some in four, and some leave half
                // of: `FR` says the same.
                '\u{1f1e6}'..='\u{1f1ff}' => out.push(char::from(b'A' + (c as u32 - 0x1f1e6) as u8)),
                // Invisible; used to hide text.
                '\u{feff}' | '\u{e0000}'..='\u{e007f}' => {}
                c => out.push(c),
            }
            self.previous = Some(if c == '\u{fe0f}' { '\u{1f600}' } else { c });
        }
    }
}

fn is_emoji(c: char) -> bool {
    matches!(c as u32, 0x2190..=0x2bff | 0x1f000..=0x1faff)
}

pub fn sanitize(raw: &str) -> String {
    let mut out = String::new();
    Sanitizer::default().push(raw, &mut out);
    out
}

/// One line of it, for titles and messages.
pub fn one_line(raw: &str) -> String {
    sanitize(raw).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_text() {
        assert_eq!(sanitize("\x1b[31mred\x07\u{9b}2J\x7f"), "^[[31mred^G<9b>2J^?");
    }

    #[test]
    fn line_ends_of_every_kind_become_one() {
        assert_eq!(sanitize("a\r\nb\rc\nd"), "a\nb\nc\nd");
    }

    #[test]
    fn pieces_give_the_same_as_the_whole() {
        let whole = "a\r\nb\u{1f469}\u{200d}\u{1f467}\u{2764}\u{fe0f}\u{200d}x\t\x1b";
        let (mut pieces, mut sanitizer) = (String::new(), Sanitizer::default());
        for c in whole.chars() {
            sanitizer.push(c.encode_utf8(&mut [0; 4]), &mut pieces);
        }
        assert_eq!(pieces, sanitize(whole));
    }

    #[test]
    fn joined_emoji_are_shown_one_by_one_and_scripts_keep_their_joiner() {
        assert_eq!(sanitize("\u{1f469}\u{200d}\u{1f467}"), "\u{1f469}\u{1f467}");
        assert_eq!(sanitize("\u{915}\u{94d}\u{200d}\u{937}"), "\u{915}\u{94d}\u{200d}\u{937}");
    }

    #[test]
    fn flags_are_their_letters() {
        assert_eq!(sanitize("\u{1f1eb}\u{1f1f7}\u{1f1e9}\u{1f1ea}"), "FRDE");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        assert!(sanitize(&all).chars().all(|c| c == '\n' || !c.is_control()));
    }
}
