//! What bytes a token stands for. Decoding tells it only of whole texts: a token may be a part of a character.

use std::collections::HashMap;

use serde_json::Value;

/// How a vocabulary writes bytes, as the decoder of its `tokenizer.json` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spelling {
    /// Each character is a byte, in GPT-2's table.
    Bytes(HashMap<char, u8>),
    /// Text, in which another character stands for a space; a byte that the vocabulary has no character for is `<0x0A>`.
    Characters { space: String, bytes: bool },
    /// No token is a part of a character.
    Text,
}

impl Spelling {
    pub fn of(decoder: Option<&Value>) -> Self {
        let parts = match decoder.and_then(|decoder| decoder.get("decoders")) {
            Some(Value::Array(parts)) => parts.iter().collect(),
            _ => Vec::from_iter(decoder),
        };
        let part = |kind: &str| parts.iter().find(|part| part["type"] == kind);
        if part("ByteLevel").is_some() {
            return Self::Bytes(byte_symbols().collect());
        }
        let replaced = part("Replace").filter(|part| part["content"] == " ").and_then(|part| {
            let pattern = &part["pattern"];
            pattern.get("String").unwrap_or(pattern).as_str()
        });
        let space = replaced.or_else(|| part("Metaspace")?.get("replacement")?.as_str());
        let bytes = part("ByteFallback").is_some();
        match space {
            None if !bytes => Self::Text,
            space => Self::Characters { space: space.unwrap_or("\u{2581}").to_owned(), bytes },
        }
    }

    /// The bytes of a token that was not added to the vocabulary; those stand for their own text.
    pub fn bytes(&self, token: &str) -> Vec<u8> {
        match self {
            Self::Bytes(symbols) => {
                let bytes: Option<Vec<u8>> = token.chars().map(|symbol| symbols.get(&symbol).copied()).collect();
                // As the decoder does.
                bytes.unwrap_or_else(|| token.as_bytes().to_vec())
            }
            Self::Characters { space, bytes } => match byte(token).filter(|_| *bytes) {
                Some(byte) => vec![byte],
                None => token.replace(space.as_str(), " ").into_bytes(),
            },
            Self::Text => token.as_bytes().to_vec(),
        }
    }
}

/// `<0x0A>` is 10.
fn byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// GPT-2's printable stand-ins for bytes (`bytes_to_unicode` in its encoder): those that are printable stand for
/// themselves, the others follow from U+0100 on.
fn byte_symbols() -> impl Iterator<Item = (char, u8)> {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..=u8::MAX).filter(move |byte| !printable(byte));
    let moved = ('\u{100}'..).zip(others);
    (0..=u8::MAX).filter(printable).map(|byte| (char::from(byte), byte)).chain(moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_byte_has_one_symbol() {
        let symbols: HashMap<char, u8> = byte_symbols().collect();
        assert_eq!(symbols.len(), 256);
        for (symbol, byte) in [('A', b'A'), ('\u{120}', b' '), ('\u{10a}', b'\n'), ('\u{143}', 0xad), ('ÿ', 0xff)] {
            assert_eq!(symbols[&symbol], byte);
        }
    }

    #[test]
    fn tokens_are_written_as_the_decoder_says() {
        let byte_level = Spelling::of(Some(&json!({"type": "ByteLevel"})));
        let llama = Spelling::of(Some(&json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})));
        let metaspace = Spelling::of(Some(&json!({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true})));
        for (spelling, token, bytes) in [
            (&byte_level, "Ġthe", b" the".as_slice()),
            (&byte_level, "ðŁĺ", b"\xf0\x9f\x98"),
            (&byte_level, "日本", "日本".as_bytes()),
            (&llama, "▁the", b" the"),
            (&llama, "<0x0A>", b"\n"),
            (&llama, "<0xZZ>", b"<0xZZ>"),
            (&metaspace, "▁▁", b"  "),
            (&metaspace, "<0x0A>", b"<0x0A>"),
            (&Spelling::of(None), "▁", "▁".as_bytes()),
        ] {
            assert_eq!(spelling.bytes(token), bytes, "{token}");
        }
    }
}
