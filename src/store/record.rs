//! One line of a conversation's file.
//!
//! `docs/conversations.md` describes the format for others.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// The version of the format; it grows when a field changes its meaning. Fields and kinds that are added do not change it.
pub const VERSION: u32 = 1;

/// No conversation has so many messages; a larger number is damage.
const MOST_MESSAGES: u32 = 1_000_000_000;

/// Something that happened to a conversation. The conversation is what its records make, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The first line.
    Begin { id: String, version: u32, time: DateTime<Utc> },
    /// The instructions for the answers that follow; `None` for none.
    System(Option<String>),
    /// What was set by hand for the answers that follow, by name, as it is typed; in place of what was set before.
    Set(BTreeMap<String, String>),
    /// What a person calls the conversation.
    Title(String),
    /// A message of the person's, which becomes the head.
    Question { id: u32, parent: Option<u32>, time: DateTime<Utc>, text: String, shown: Option<Shown> },
    /// The beginning of an answer, which becomes the head.
    Answer { id: u32, parent: Option<u32>, time: DateTime<Utc>, model: String },
    /// The lane that answers from here on. `why` is there when the answer moved to it from another one.
    Lane { id: u32, lane: String, emulated: bool, why: Option<String> },
    /// What an answer goes on with. `token` is there where it is the text of one token, whose time is known.
    Text { id: u32, text: String, thinking: String, token: Option<TokenTime> },
    /// An answer that had ended goes on.
    Continue { id: u32 },
    /// An answer is over.
    End { id: u32, end: End },
    /// The message behind which the conversation goes on; `None` is its beginning.
    Head(Option<u32>),
    /// A message is left out from now on, with all that follows it.
    Delete(u32),
    /// It is back.
    Restore(u32),
}

/// What stands on the screen in the place of a question's text, where that has long pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    pub text: String,
    /// In the order of their places. Conversations that were kept before have none.
    pub pieces: Vec<LongPiece>,
}

/// A paste or a file, and the label that stands for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongPiece {
    /// Bytes of the label, in what is shown.
    pub label: (usize, usize),
    /// Bytes of what it stands for, in the text.
    pub text: (usize, usize),
    /// The path of a file, as it was typed; `None` for a paste.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// When a token came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenTime {
    /// Since the token before it; of the first one since the question was sent.
    pub took: Duration,
    /// It is part of the thinking, whether or not it gave text of it.
    pub thinks: bool,
}

/// Steps in which a token's time is kept, in microseconds: finer than what moves it by chance.
const TIME_STEP: u64 = 10;
/// No token takes longer, in milliseconds; a larger number is damage.
const LONGEST_TOKEN: f64 = 1e9;

impl TokenTime {
    /// As it is kept.
    pub fn new(took: Duration, thinks: bool) -> Self {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min((LONGEST_TOKEN * 1000.0) as u64);
        Self { took: Duration::from_micros((micros + TIME_STEP / 2) / TIME_STEP * TIME_STEP), thinks }
    }

    fn parse(ms: f64, thinks: bool) -> Option<Self> {
        (0.0..=LONGEST_TOKEN)
            .contains(&ms)
            .then(|| Self::new(Duration::from_micros((ms * 1000.0).round() as u64), thinks))
    }

    fn milliseconds(self) -> f64 {
        self.took.as_micros() as f64 / 1000.0
    }
}

/// How an answer ended, and what was measured of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct End {
    /// `stop`, `length`, `cancelled`, `error`, `unfinished`.
    pub finish: String,
    /// For people, where it was not the model's own end.
    pub note: Option<String>,
    pub tokens: usize,
    /// Those among them that are thinking.
    pub thinking_tokens: usize,
    pub ttft: Option<Duration>,
    pub tokens_per_second: Option<f64>,
}

impl End {
    /// It may still be written, but not here.
    pub fn unfinished(note: &str) -> Self {
        Self { finish: "unfinished".to_owned(), note: Some(note.to_owned()), ..Self::default() }
    }
}

/// Why a line is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// No JSON object, or one with fields that cannot be.
    Damaged,
    /// A kind that this version does not know.
    Unknown,
}

/// All fields that a line may have. One flat type for all kinds: most lines are single tokens, and must be read quickly.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    v: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    emulated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pieces: Vec<LongPiece>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_second: Option<f64>,
}

impl Serialize for Record {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields().serialize(serializer)
    }
}

impl Record {
    /// The line, with its end.
    pub fn line(&self) -> String {
        // A record has nothing that JSON has no words for: keys are strings, and numbers that are none become null.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    pub fn parse(line: &[u8]) -> Result<Self, Unreadable> {
        let line: Line = serde_json::from_slice(line).map_err(|_| Unreadable::Damaged)?;
        line.record()
    }

    /// The same of a line within another file.
    pub fn from_value(line: serde_json::Value) -> Result<Self, Unreadable> {
        serde_json::from_value::<Line>(line).map_err(|_| Unreadable::Damaged)?.record()
    }

    fn fields(&self) -> Line {
        let of = |kind: &str, id: Option<u32>| Line { kind: kind.to_owned(), id, ..Line::default() };
        let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        match self {
            Self::Begin { id, version, time } => Line {
                v: Some(*version),
                conversation: Some(id.clone()),
                time: Some(timestamp(*time)),
                ..of("conversation", None)
            },
            Self::System(text) => Line { text: text.clone(), ..of("system", None) },
            Self::Set(values) => Line { values: Some(values.clone()), ..of("set", None) },
            Self::Title(text) => Line { text: Some(text.clone()), ..of("title", None) },
            Self::Question { id, parent, time, text, shown } => Line {
                parent: *parent,
                time: Some(timestamp(*time)),
                text: Some(text.clone()),
                shown: shown.as_ref().map(|shown| shown.text.clone()),
                pieces: shown.as_ref().map(|shown| shown.pieces.clone()).unwrap_or_default(),
                ..of("user", Some(*id))
            },
            Self::Answer { id, parent, time, model } => Line {
                parent: *parent,
                time: Some(timestamp(*time)),
                model: Some(model.clone()),
                ..of("assistant", Some(*id))
            },
            Self::Lane { id, lane, emulated, why } => {
                Line { lane: Some(lane.clone()), emulated: *emulated, why: why.clone(), ..of("lane", Some(*id)) }
            }
            Self::Text { id, text, thinking, token } => {
                let thinks = token.is_some_and(|token| token.thinks);
                Line {
                    text: filled(text),
                    // Of a token that thinks it is there, whatever it says.
                    thinking: if thinks { Some(thinking.clone()) } else { filled(thinking) },
                    ms: token.map(TokenTime::milliseconds),
                    ..of("text", Some(*id))
                }
            }
            Self::Continue { id } => of("continue", Some(*id)),
            Self::End { id, end } => Line {
                finish: Some(end.finish.clone()),
                note: end.note.clone(),
                tokens: Some(end.tokens),
                thinking_tokens: (end.thinking_tokens > 0).then_some(end.thinking_tokens),
                ttft_ms: end.ttft.map(|ttft| ttft.as_secs_f64() * 1000.0),
                tokens_per_second: end.tokens_per_second,
                ..of("end", Some(*id))
            },
            Self::Head(id) => of("head", *id),
            Self::Delete(id) => of("delete", Some(*id)),
            Self::Restore(id) => of("restore", Some(*id)),
        }
    }
}

impl Line {
    fn record(self) -> Result<Record, Unreadable> {
        let damaged = Unreadable::Damaged;
        let good = |id: u32| (id < MOST_MESSAGES).then_some(id).ok_or(damaged);
        let optional = |id: Option<u32>| id.map(good).transpose();
        let id = || self.id.ok_or(damaged).and_then(good);
        let time = || self.time.as_deref().and_then(moment).ok_or(damaged);
        Ok(match self.kind.as_str() {
            "conversation" => {
                Record::Begin { version: self.v.ok_or(damaged)?, time: time()?, id: self.conversation.ok_or(damaged)? }
            }
            "system" => Record::System(self.text),
            "set" => Record::Set(self.values.ok_or(damaged)?),
            "title" => Record::Title(self.text.ok_or(damaged)?),
            "user" => Record::Question {
                id: id()?,
                parent: optional(self.parent)?,
                time: time()?,
                text: self.text.ok_or(damaged)?,
                shown: self.shown.map(|text| Shown { text, pieces: self.pieces }),
            },
            "assistant" => Record::Answer {
                id: id()?,
                parent: optional(self.parent)?,
                time: time()?,
                model: self.model.unwrap_or_default(),
            },
            "lane" => {
                Record::Lane { id: id()?, lane: self.lane.ok_or(damaged)?, emulated: self.emulated, why: self.why }
            }
            "text" => Record::Text {
                id: id()?,
                token: match self.ms {
                    Some(ms) => Some(TokenTime::parse(ms, self.thinking.is_some()).ok_or(damaged)?),
                    None => None,
                },
                text: self.text.unwrap_or_default(),
                thinking: self.thinking.unwrap_or_default(),
            },
            "continue" => Record::Continue { id: id()? },
            "end" => Record::End {
                id: id()?,
                end: End {
                    finish: self.finish.ok_or(damaged)?,
                    note: self.note,
                    tokens: self.tokens.unwrap_or_default(),
                    thinking_tokens: self.thinking_tokens.unwrap_or_default(),
                    ttft: self
                        .ttft_ms
                        .map(|ms| Duration::try_from_secs_f64(ms / 1000.0))
                        .transpose()
                        .map_err(|_| damaged)?,
                    tokens_per_second: self.tokens_per_second,
                },
            },
            "head" => Record::Head(optional(self.id)?),
            "delete" => Record::Delete(id()?),
            "restore" => Record::Restore(id()?),
            _ => return Err(Unreadable::Unknown),
        })
    }
}

/// UTC, by RFC 3339.
pub fn timestamp(moment: DateTime<Utc>) -> String {
    moment.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn moment(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|moment| moment.to_utc())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn then() -> DateTime<Utc> {
        moment("2026-03-04T05:06:07Z").unwrap()
    }

    pub fn question(id: u32, parent: Option<u32>, text: &str) -> Record {
        Record::Question { id, parent, time: then(), text: text.into(), shown: None }
    }

    pub fn answer(id: u32, parent: u32) -> Record {
        Record::Answer { id, parent: Some(parent), time: then(), model: "test-model".into() }
    }

    pub fn text(id: u32, text: &str) -> Record {
        Record::Text { id, text: text.into(), thinking: String::new(), token: None }
    }

    pub fn token(id: u32, text: &str, took_us: u64) -> Record {
        let token = Some(TokenTime::new(Duration::from_micros(took_us), false));
        Record::Text { id, text: text.into(), thinking: String::new(), token }
    }

    pub fn thought(id: u32, thinking: &str, took_us: u64) -> Record {
        let token = Some(TokenTime::new(Duration::from_micros(took_us), true));
        Record::Text { id, text: String::new(), thinking: thinking.into(), token }
    }

    pub fn end(id: u32, finish: &str) -> Record {
        let end = End {
            finish: finish.into(),
            note: (finish != "stop").then(|| format!("{finish}: cut")),
            tokens: 3,
            thinking_tokens: 0,
            ttft: Some(Duration::from_millis(40)),
            tokens_per_second: Some(20.0),
        };
        Record::End { id, end }
    }

    /// One of each kind, in an order that makes a conversation.
    pub fn all() -> Vec<(Record, &'static str)> {
        vec![
            (
                Record::Begin { id: "20260304-050607-0001".into(), version: VERSION, time: then() },
                r#"{"kind":"conversation","v":1,"conversation":"20260304-050607-0001","time":"2026-03-04T05:06:07Z"}"#,
            ),
            (Record::System(Some("Be brief.".into())), r#"{"kind":"system","text":"Be brief."}"#),
            (Record::System(None), r#"{"kind":"system"}"#),
            (
                Record::Set([("max-tokens".into(), "64".into()), ("thinking".into(), "off".into())].into()),
                r#"{"kind":"set","values":{"max-tokens":"64","thinking":"off"}}"#,
            ),
            (Record::Set(BTreeMap::new()), r#"{"kind":"set","values":{}}"#),
            (Record::Title("Capitals".into()), r#"{"kind":"title","text":"Capitals"}"#),
            (
                question(0, None, "Of France?\n"),
                r#"{"kind":"user","id":0,"time":"2026-03-04T05:06:07Z","text":"Of France?\n"}"#,
            ),
            (
                Record::Question {
                    id: 2,
                    parent: Some(1),
                    time: then(),
                    text: "a.txt:\n```txt\nA long text.\n```\n\nSum up a.txt".into(),
                    shown: Some(Shown {
                        text: "Sum up [a.txt, 13 B]".into(),
                        pieces: vec![LongPiece { label: (7, 20), text: (14, 27), file: Some("a.txt".into()) }],
                    }),
                },
                r#"{"kind":"user","id":2,"parent":1,"time":"2026-03-04T05:06:07Z","text":"a.txt:\n```txt\nA long text.\n```\n\nSum up a.txt","shown":"Sum up [a.txt, 13 B]","pieces":[{"label":[7,20],"text":[14,27],"file":"a.txt"}]}"#,
            ),
            (
                answer(1, 0),
                r#"{"kind":"assistant","id":1,"parent":0,"time":"2026-03-04T05:06:07Z","model":"test-model"}"#,
            ),
            (
                Record::Lane { id: 1, lane: "npu".into(), emulated: true, why: None },
                r#"{"kind":"lane","id":1,"lane":"npu","emulated":true}"#,
            ),
            (
                Record::Text { id: 1, text: String::new(), thinking: "Hm".into(), token: None },
                r#"{"kind":"text","id":1,"thinking":"Hm"}"#,
            ),
            (thought(1, "", 40_000), r#"{"kind":"text","id":1,"thinking":"","ms":40.0}"#),
            (token(1, "Paris", 7_614), r#"{"kind":"text","id":1,"text":"Paris","ms":7.61}"#),
            (token(1, "", 7_600), r#"{"kind":"text","id":1,"ms":7.6}"#),
            (text(1, "."), r#"{"kind":"text","id":1,"text":"."}"#),
            (
                Record::Lane { id: 1, lane: "cpu".into(), emulated: false, why: Some("it hung".into()) },
                r#"{"kind":"lane","id":1,"lane":"cpu","why":"it hung"}"#,
            ),
            (
                end(1, "length"),
                r#"{"kind":"end","id":1,"finish":"length","note":"length: cut","tokens":3,"ttft_ms":40.0,"tokens_per_second":20.0}"#,
            ),
            (Record::Continue { id: 1 }, r#"{"kind":"continue","id":1}"#),
            (Record::Head(Some(0)), r#"{"kind":"head","id":0}"#),
            (Record::Head(None), r#"{"kind":"head"}"#),
            (Record::Delete(1), r#"{"kind":"delete","id":1}"#),
            (Record::Restore(1), r#"{"kind":"restore","id":1}"#),
        ]
    }

    #[test]
    fn lines_are_as_documented() {
        for (record, line) in all() {
            assert_eq!(record.line(), format!("{line}\n"));
            assert_eq!(Record::parse(line.as_bytes()), Ok(record));
        }
    }

    /// Where the format is described, every kind is.
    #[test]
    fn the_documents_have_each_line() {
        let document = include_str!("../../docs/conversations.md");
        for (_, line) in all() {
            assert!(document.contains(line), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_is_damage_and_what_is_newer_is_unknown() {
        for line in [
            "",
            "null",
            "{",
            "\"kind\"",
            r#"{"kind":"user","id":-1,"time":"2026-03-04T05:06:07Z","text":"x"}"#,
            r#"{"kind":"user","id":4000000000,"time":"2026-03-04T05:06:07Z","text":"x"}"#,
            r#"{"kind":"user","id":1,"time":"yesterday","text":"x"}"#,
            r#"{"kind":"user","id":1,"time":"2026-03-04T05:06:07Z"}"#,
            r#"{"kind":"text"}"#,
            r#"{"kind":"user","id":1,"time":"2026-03-04T05:06:07Z","text":"x","shown":"x","pieces":[{"label":[0]}]}"#,
            r#"{"kind":"text","id":1,"text":"x","ms":-1}"#,
            r#"{"kind":"text","id":1,"text":"x","ms":1e12}"#,
            r#"{"kind":"end","id":1,"finish":"stop","ttft_ms":-1}"#,
            r#"{"kind":"end","id":1}"#,
        ] {
            assert_eq!(Record::parse(line.as_bytes()), Err(Unreadable::Damaged), "{line}");
        }
        for line in [r#"{"kind":"picture","id":1}"#, "{}", "[]", r#"{"v":1,"time":"x"}"#] {
            assert_eq!(Record::parse(line.as_bytes()), Err(Unreadable::Unknown), "{line}");
        }
        let more = r#"{"kind":"text","id":1,"text":"x","later":{"a":[1]}}"#;
        assert_eq!(Record::parse(more.as_bytes()), Ok(text(1, "x")));
    }
}
