//! Server-sent events, as the HTML standard defines their text: lines that end with LF, CR or CRLF, `data` fields of one
//! event joined by line feeds, an empty line behind each event, comments that begin with a colon.
//!
//! Only `data` is kept: names, identifiers and times to reconnect say nothing about an answer.

/// More data in one event is no piece of an answer, in bytes.
const LONGEST_EVENT: usize = 4 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("it has text that is not UTF-8")]
    NotUtf8,
    #[error("one of its events does not end")]
    TooLong,
}

/// Takes a stream's bytes as they come, cut anywhere, and gives each event's data.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The line that is not complete.
    line: Vec<u8>,
    /// The last byte was a CR, so that an LF which follows belongs to it.
    after_cr: bool,
    /// A byte order mark may come before the first line.
    begun: bool,
    /// The `data` of the event that is not complete.
    data: Option<String>,
}

impl SseParser {
    /// The data of the events that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, SseError> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if std::mem::take(&mut self.after_cr) => {}
                b'\n' | b'\r' => {
                    self.after_cr = *byte == b'\r';
                    events.extend(self.end_line()?);
                }
                byte => {
                    self.after_cr = false;
                    self.line.push(*byte);
                    if self.line.len() + self.data.as_ref().map_or(0, String::len) > LONGEST_EVENT {
                        return Err(SseError::TooLong);
                    }
                }
            }
        }
        Ok(events)
    }

    /// The event that the line completed.
    fn end_line(&mut self) -> Result<Option<String>, SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(|_| SseError::NotUtf8)?;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.data.take());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Vec<String> {
        SseParser::default().push(text.as_bytes()).unwrap()
    }

    #[test]
    fn events_are_read_as_the_standard_has_them() {
        for (text, expected) in [
            ("data: a\n\ndata:b\n\n", &["a", "b"][..]),
            ("data: two\ndata: lines\n\n", &["two\nlines"]),
            // One blank belongs to the field, a second one to the data.
            ("data:  a \r\n\r\n", &[" a "]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            (": a comment\n\ndata: a\n: another\ndata: b\n\n", &["a\nb"]),
            ("event: x\nid: 1\nretry: 5\ndata: a\n\n", &["a"]),
            ("data\n\n", &[""]),
            ("data:\ndata:\n\n", &["\n"]),
            ("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"]),
            // What is not ended is no event.
            ("data: a\n\ndata: b\n", &["a"]),
            ("database: a\n\n", &[]),
            ("\n\n\n", &[]),
            ("data: [DONE]\n\n", &["[DONE]"]),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_text_and_what_does_not_end_is_refused() {
        assert_eq!(SseParser::default().push(b"data: \xff\n"), Err(SseError::NotUtf8));
        let mut parser = SseParser::default();
        let line = [b'x'; 1 << 16];
        let refused = (0..=LONGEST_EVENT / line.len()).find_map(|_| parser.push(&line).err());
        assert_eq!(refused, Some(SseError::TooLong));
        // Many short lines of one event are no better.
        let mut parser = SseParser::default();
        let lines = "data: xxxxxxxxxxxxxxxx\n".repeat(1000);
        let refused = (0..=LONGEST_EVENT / 16_000).find_map(|_| parser.push(lines.as_bytes()).err());
        assert_eq!(refused, Some(SseError::TooLong));
    }

    /// A stream as a server would write it, and the data in it.
    fn written(events: &[Vec<String>], end: &str) -> (String, Vec<String>) {
        let mut text = String::new();
        for lines in events {
            for line in lines {
                text += &format!("data: {line}{end}: comment{end}");
            }
            text += end;
        }
        (text, events.iter().map(|lines| lines.join("\n")).collect())
    }

    proptest! {
        /// Wherever the network cuts the stream, and however its lines end, the data is what was written.
        #[test]
        fn cuts_and_line_ends_make_no_difference(
            events in prop::collection::vec(prop::collection::vec("[ -~é日😀]{0,12}", 1..4), 0..8),
            end in prop::sample::select(vec!["\n", "\r", "\r\n"]),
            cuts in prop::collection::vec(1usize..7, 0..200),
        ) {
            let (text, expected) = written(&events, end);
            let (mut parser, mut found) = (SseParser::default(), Vec::new());
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.into_iter());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
                found.extend(parser.push(now).unwrap());
                rest = later;
            }
            prop_assert_eq!(found, expected);
        }

        /// No bytes break it, and the same bytes in pieces give the same.
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(prop::sample::select(b"dat:a \r\n\xff\xc3\xa9".to_vec()), 0..80), cut in 0usize..80) {
            let whole = SseParser::default().push(&bytes);
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut parser = SseParser::default();
            let pieces = parser.push(first).and_then(|mut events| {
                events.extend(parser.push(second)?);
                Ok(events)
            });
            prop_assert_eq!(whole, pieces);
        }
    }
}
