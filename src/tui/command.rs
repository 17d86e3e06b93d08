//! What was typed: a command, or a message and the lane that it names.
//!
//! `/npu`, `/cpu`, `/remote` and `/auto` alone hold for all messages that follow; with a text behind them, for that message only.

use crate::engine::LaneId;

/// Each command, and what the help says of it.
pub const HELP: [(&str, &str); 7] = [
    ("/help", "this help"),
    ("/clear", "begin a new conversation"),
    ("/npu /cpu /remote", "answer there from now on, or not at all"),
    ("/auto", "let ortalk choose again"),
    ("/npu TEXT", "this message only; the others likewise"),
    ("/think on, off", "think before answering, or do not"),
    ("/quit", "leave ortalk"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typed<'a> {
    Quit,
    Help,
    Clear,
    /// Messages from now on: to this lane, or wherever the router sends them.
    Lane(Option<LaneId>),
    /// Messages from now on: think before answering, or do not.
    Think(bool),
    Message(Message<'a>),
    /// A word behind a slash that is no command; it is never sent to the model by mistake.
    Unknown(&'a str),
    /// A command with something behind it that is not its own; neither is this sent.
    Misused {
        word: &'a str,
        takes: &'static str,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    pub text: &'a str,
    /// In place of what holds for all messages, `None` within being the router's choice.
    pub lane: Option<Option<LaneId>>,
}

pub fn parse(typed: &str) -> Typed<'_> {
    if !typed.starts_with('/') {
        return Typed::Message(Message { text: typed, lane: None });
    }
    let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    let rest = rest.trim_start();
    // What follows a command of its own is not a message's text.
    let word_after = rest.trim_end();
    if let Some(lane) = lane(word) {
        return match rest {
            "" => Typed::Lane(lane),
            text => Typed::Message(Message { text, lane: Some(lane) }),
        };
    }
    match (word, word_after) {
        ("/quit" | "/exit", "") => Typed::Quit,
        ("/help", "") => Typed::Help,
        ("/clear", "") => Typed::Clear,
        ("/think", "" | "on") => Typed::Think(true),
        ("/think", "off") => Typed::Think(false),
        ("/think", _) => Typed::Misused { word, takes: "on or off" },
        ("/quit" | "/exit" | "/help" | "/clear", _) => Typed::Misused { word, takes: "nothing behind it" },
        _ => Typed::Unknown(word),
    }
}

/// What is sent for what was typed.
pub fn message(typed: &str) -> Message<'_> {
    match parse(typed) {
        Typed::Message(message) => message,
        _ => Message { text: typed, lane: None },
    }
}

fn lane(word: &str) -> Option<Option<LaneId>> {
    match word {
        "/npu" => Some(Some(LaneId::Npu)),
        "/cpu" => Some(Some(LaneId::Cpu)),
        "/remote" => Some(Some(LaneId::Remote)),
        "/auto" => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_messages_are_told_apart() {
        let message = |text, lane| Typed::Message(Message { text, lane });
        let npu = Some(LaneId::Npu);
        for (typed, expected) in [
            ("hello", message("hello", None)),
            (" /npu hello", message(" /npu hello", None)),
            ("/npu", Typed::Lane(npu)),
            ("/npu  ", Typed::Lane(npu)),
            ("/auto", Typed::Lane(None)),
            ("/npu hello\nthere", message("hello\nthere", Some(npu))),
            ("/cpu\nhello", message("hello", Some(Some(LaneId::Cpu)))),
            ("/auto hello", message("hello", Some(None))),
            ("/npus hello", Typed::Unknown("/npus")),
            ("/think", Typed::Think(true)),
            ("/think on ", Typed::Think(true)),
            ("/think\noff", Typed::Think(false)),
            ("/think about it", Typed::Misused { word: "/think", takes: "on or off" }),
            ("/quit", Typed::Quit),
            ("/exit ", Typed::Quit),
            ("/quit now", Typed::Misused { word: "/quit", takes: "nothing behind it" }),
            ("/", Typed::Unknown("/")),
        ] {
            assert_eq!(parse(typed), expected, "{typed:?}");
        }
    }
}
