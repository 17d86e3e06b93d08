//! What was typed: a command, or a message and the lane that it names.
//!
//! `/npu`, `/cpu`, `/remote` and `/auto` alone hold for all messages that follow; with a text behind them, for that message only.

use clap::ValueEnum;

use crate::engine::{LaneId, Policy};

use super::composer::Draft;

/// One command. The help and the palette list this table, and typed text is read by it.
pub struct Command {
    pub name: &'static str,
    /// What may stand behind the name, for the help and for who got it wrong; empty where nothing may.
    pub takes: &'static str,
    pub help: &'static str,
    /// What it means with the text behind its name, without space around it; `None` where that is not its own.
    parse: for<'a> fn(&'a str) -> Option<Typed<'a>>,
}

pub const COMMANDS: &[Command] = &[
    Command { name: "/help", takes: "", help: "this help", parse: |rest| alone(rest, Typed::Help) },
    Command { name: "/clear", takes: "", help: "begin a new conversation", parse: |rest| alone(rest, Typed::Clear) },
    Command {
        name: "/model",
        takes: "a model's name, or nothing",
        help: "choose another model",
        parse: |rest| Some(Typed::Model(rest)),
    },
    Command {
        name: "/npu",
        takes: LANE_TAKES,
        help: "answer on the NPU, or not at all",
        parse: |rest| lane(rest, NPU),
    },
    Command {
        name: "/cpu",
        takes: LANE_TAKES,
        help: "answer on the CPU, or not at all",
        parse: |rest| lane(rest, CPU),
    },
    Command {
        name: "/remote",
        takes: LANE_TAKES,
        help: "answer at the server, or not at all",
        parse: |rest| lane(rest, REMOTE),
    },
    Command { name: "/auto", takes: LANE_TAKES, help: "let ortalk choose again", parse: |rest| lane(rest, None) },
    Command {
        name: "/lane",
        takes: "npu, cpu, remote or auto",
        help: "where to answer from now on",
        parse: named_lane,
    },
    Command {
        name: "/policy",
        takes: "auto, npu, cpu, fastest or efficient",
        help: "how a lane is chosen",
        parse: |rest| match rest {
            "" => Some(Typed::Policy(None)),
            name => Policy::from_str(name, false).ok().map(|policy| Typed::Policy(Some(policy))),
        },
    },
    Command {
        name: "/system",
        takes: "a text, or 'none'",
        help: "the system prompt",
        parse: |rest| Some(Typed::System(rest)),
    },
    Command {
        name: "/set",
        takes: "a name and a value",
        help: "temperature and other numbers",
        parse: |rest| {
            let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            Some(Typed::Set { name, value: value.trim() })
        },
    },
    Command {
        name: "/think",
        takes: ON_OR_OFF,
        help: "think before answering, or do not",
        parse: |rest| match rest {
            "" | "on" => Some(Typed::Think(true)),
            "off" => Some(Typed::Think(false)),
            _ => None,
        },
    },
    Command { name: "/log", takes: "", help: "what the libraries reported", parse: |rest| alone(rest, Typed::Log) },
    Command {
        name: "/race",
        takes: "lanes as in cpu,npu, a message, both, or nothing",
        help: "one message down several lanes",
        parse: |rest| Some(race(rest)),
    },
    Command {
        name: "/copy",
        takes: "nothing, 'code', or 'code' and its number",
        help: "copy the last answer, or code in it",
        parse: |rest| Some(Typed::Copy(copying(rest)?)),
    },
    Command {
        name: "/markdown",
        takes: "on or off",
        help: "show answers as markdown, or raw",
        parse: |rest| match rest {
            "" | "on" => Some(Typed::Markdown(true)),
            "off" => Some(Typed::Markdown(false)),
            _ => None,
        },
    },
    Command {
        name: "/theme",
        takes: "a theme's name, or nothing",
        help: "choose a colour theme",
        parse: |rest| Some(Typed::Theme(rest)),
    },
    Command {
        name: "/mouse",
        takes: "on, off, or nothing",
        help: "take the mouse, or leave it alone",
        parse: |rest| match rest {
            "" => Some(Typed::Mouse(None)),
            "on" => Some(Typed::Mouse(Some(true))),
            "off" => Some(Typed::Mouse(Some(false))),
            _ => None,
        },
    },
    Command {
        name: "/open",
        takes: "words to look for, or nothing",
        help: "go on with another conversation",
        parse: |rest| chats(ChatCommand::Open(rest)),
    },
    Command {
        name: "/regenerate",
        takes: "",
        help: "answer the last message again",
        parse: |rest| alone(rest, Typed::Chats(ChatCommand::Regenerate)),
    },
    Command {
        name: "/continue",
        takes: "",
        help: "go on with an answer that was cut",
        parse: |rest| alone(rest, Typed::Chats(ChatCommand::Continue)),
    },
    Command {
        name: "/rename",
        takes: "a title",
        help: "give this conversation a title",
        parse: |rest| (!rest.is_empty()).then_some(Typed::Chats(ChatCommand::Rename(rest))),
    },
    Command {
        name: "/delete",
        takes: "",
        help: "delete this conversation",
        parse: |rest| alone(rest, Typed::Chats(ChatCommand::Delete)),
    },
    Command {
        name: "/undo",
        takes: "",
        help: "take the last deletion back",
        parse: |rest| alone(rest, Typed::Chats(ChatCommand::Undo)),
    },
    Command {
        name: "/export",
        takes: "a file's name ending in .md or .json, or nothing",
        help: "write this conversation to a file",
        parse: |rest| chats(ChatCommand::Export(rest)),
    },
    Command {
        name: "/save",
        takes: "",
        help: "save it, after --no-save",
        parse: |rest| alone(rest, Typed::Chats(ChatCommand::Save)),
    },
    Command { name: "/quit", takes: "", help: "leave ortalk", parse: |rest| alone(rest, Typed::Quit) },
    Command { name: "/exit", takes: "", help: "", parse: |rest| alone(rest, Typed::Quit) },
];

/// The palette offers both.
pub const ON_OR_OFF: &str = "on or off";

/// Those that open a list of their own.
const OPEN_LISTS: &[&str] = &["/model", "/theme", "/open"];

impl Command {
    /// Whether the palette runs it without waiting for something behind its name.
    pub fn is_run_alone(&self) -> bool {
        self.takes.is_empty() || OPEN_LISTS.contains(&self.name)
    }
}

/// Alone, a lane holds from now on; with a text, for that message.
const LANE_TAKES: &str = "a message, or nothing";

const NPU: Option<LaneId> = Some(LaneId::Npu);
const CPU: Option<LaneId> = Some(LaneId::Cpu);
const REMOTE: Option<LaneId> = Some(LaneId::Remote);

/// Code is counted from 1.
fn copying(rest: &str) -> Option<Copying> {
    match rest.split_once(char::is_whitespace) {
        None if rest.is_empty() => Some(Copying::Answer),
        None => (rest == "code").then_some(Copying::Code(None)),
        Some(("code", number)) => Some(Copying::Code(Some(number.trim().parse().ok().filter(|n| *n > 0)?))),
        Some(_) => None,
    }
}

#[allow(clippy::unnecessary_wraps)] // as the table wants it
fn chats(command: ChatCommand<'_>) -> Option<Typed<'_>> {
    Some(Typed::Chats(command))
}

fn alone<'a>(rest: &str, typed: Typed<'a>) -> Option<Typed<'a>> {
    rest.is_empty().then_some(typed)
}

#[allow(clippy::unnecessary_wraps)] // as the table wants it
fn lane(rest: &str, lane: Option<LaneId>) -> Option<Typed<'_>> {
    Some(match rest {
        "" => Typed::Lane(lane),
        text => Typed::Message(Message { text, lane: Some(lane) }),
    })
}

/// The lanes may come first, as on the command line or without its word.
fn race(rest: &str) -> Typed<'_> {
    let (first, behind) = split(rest);
    let behind = behind.unwrap_or_default().trim_start();
    let (lanes, text) = if first == "--lanes" {
        let (lanes, text) = split(behind);
        (Some(lanes), text.unwrap_or_default().trim_start())
    } else if names_lanes(first, behind) {
        (Some(first), behind)
    } else {
        (None, rest)
    };
    Typed::Race { lanes, text }
}

/// A word with commas is a list of lanes when one of them is known, so that the others can be put right; a message has
/// a space behind its commas. A lane alone is none to race, and not a message either.
fn names_lanes(word: &str, behind: &str) -> bool {
    let is_lane = |name: &str| LaneId::from_str(name, false).is_ok();
    let mut names = word.split(',');
    if word.contains(',') { !word.ends_with(',') && names.any(is_lane) } else { behind.is_empty() && is_lane(word) }
}

fn named_lane(rest: &str) -> Option<Typed<'_>> {
    let lanes = [("npu", NPU), ("cpu", CPU), ("remote", REMOTE), ("auto", None)];
    lanes.into_iter().find(|(name, _)| *name == rest).map(|(_, lane)| Typed::Lane(lane))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typed<'a> {
    Quit,
    Help,
    Log,
    Clear,
    /// Messages from now on: to this lane, or wherever the router sends them.
    Lane(Option<LaneId>),
    /// How a lane is chosen; `None` asks.
    Policy(Option<Policy>),
    /// The system prompt; empty asks.
    System(&'a str),
    /// A number of the answers that follow; an empty value asks.
    Set {
        name: &'a str,
        value: &'a str,
    },
    /// Messages from now on: think before answering, or do not.
    Think(bool),
    Copy(Copying),
    /// Take the mouse or leave it; `None` changes which.
    Mouse(Option<bool>),
    /// Show answers as what their markdown means, or as they were written.
    Markdown(bool),
    /// The model of this name; an empty one shows the list.
    Model(&'a str),
    /// The colour theme of this name; an empty one shows the list.
    Theme(&'a str),
    /// A race with this message; an empty one means the last. Without lanes, of all that are on this machine.
    Race {
        /// Names with commas between them.
        lanes: Option<&'a str>,
        text: &'a str,
    },
    Chats(ChatCommand<'a>),
    Message(Message<'a>),
    /// A word behind a slash that is no command; it is never sent to the model by mistake.
    Unknown(&'a str),
    /// A command with something behind it that is not its own; neither is this sent.
    Misused {
        word: &'a str,
        takes: &'static str,
    },
}

/// What concerns conversations as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatCommand<'a> {
    /// The list of them, those with these words.
    Open(&'a str),
    Rename(&'a str),
    Delete,
    /// Takes the last deletion back.
    Undo,
    /// To the file of this name; an empty one leaves the name to ortalk.
    Export(&'a str),
    Save,
    Regenerate,
    Continue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    pub text: &'a str,
    /// In place of what holds for all messages, `None` within being the router's choice.
    pub lane: Option<Option<LaneId>>,
}

/// What of the last answer is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copying {
    Answer,
    /// The block of code with this number, from 1; without one, the last.
    Code(Option<usize>),
}

pub fn parse(typed: &str) -> Typed<'_> {
    if !typed.starts_with('/') {
        return Typed::Message(Message { text: typed, lane: None });
    }
    let (word, rest) = split(typed);
    let Some(command) = COMMANDS.iter().find(|command| command.name == word) else { return Typed::Unknown(word) };
    let takes = if command.takes.is_empty() { "nothing behind it" } else { command.takes };
    (command.parse)(rest.unwrap_or_default().trim()).unwrap_or(Typed::Misused { word, takes })
}

/// The first word, and what stands behind it; `None` while the word is being typed.
pub fn split(typed: &str) -> (&str, Option<&str>) {
    match typed.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, Some(rest)),
        None => (typed, None),
    }
}

/// What is sent for what was typed, without the lane that it names, and that lane.
pub fn message(typed: &Draft) -> (Draft, Option<Option<LaneId>>) {
    match parse(typed.text()) {
        Typed::Message(Message { text, lane: Some(lane) }) => {
            let end = typed.text().trim_end().len();
            (typed.slice(end - text.len()..end), Some(lane))
        }
        _ => (typed.clone(), None),
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
            ("/copy", Typed::Copy(Copying::Answer)),
            ("/copy code", Typed::Copy(Copying::Code(None))),
            ("/copy code  2", Typed::Copy(Copying::Code(Some(2)))),
            ("/copy code 0", Typed::Misused { word: "/copy", takes: "nothing, 'code', or 'code' and its number" }),
            ("/copy that", Typed::Misused { word: "/copy", takes: "nothing, 'code', or 'code' and its number" }),
            ("/theme ", Typed::Theme("")),
            ("/markdown off", Typed::Markdown(false)),
            ("/lane npu", Typed::Lane(npu)),
            ("/lane", Typed::Misused { word: "/lane", takes: "npu, cpu, remote or auto" }),
            ("/policy", Typed::Policy(None)),
            ("/policy fastest", Typed::Policy(Some(Policy::Fastest))),
            ("/policy best", Typed::Misused { word: "/policy", takes: "auto, npu, cpu, fastest or efficient" }),
            ("/system Be\nbrief. ", Typed::System("Be\nbrief.")),
            ("/set temperature  0.7", Typed::Set { name: "temperature", value: "0.7" }),
            ("/set", Typed::Set { name: "", value: "" }),
            ("/race", Typed::Race { lanes: None, text: "" }),
            ("/race hello there", Typed::Race { lanes: None, text: "hello there" }),
            ("/race cpu,npu", Typed::Race { lanes: Some("cpu,npu"), text: "" }),
            ("/race cpu,remote  hello\nthere", Typed::Race { lanes: Some("cpu,remote"), text: "hello\nthere" }),
            ("/race --lanes cpu,npu hello", Typed::Race { lanes: Some("cpu,npu"), text: "hello" }),
            ("/race --lanes gpu", Typed::Race { lanes: Some("gpu"), text: "" }),
            ("/race --lanes", Typed::Race { lanes: Some(""), text: "" }),
            ("/race cpu,gpu hello", Typed::Race { lanes: Some("cpu,gpu"), text: "hello" }),
            ("/race cpu", Typed::Race { lanes: Some("cpu"), text: "" }),
            ("/race cpu or npu?", Typed::Race { lanes: None, text: "cpu or npu?" }),
            ("/race cpu, or npu?", Typed::Race { lanes: None, text: "cpu, or npu?" }),
            ("/race red,green hello", Typed::Race { lanes: None, text: "red,green hello" }),
            ("/mouse", Typed::Mouse(None)),
            ("/mouse off", Typed::Mouse(Some(false))),
            ("/quit", Typed::Quit),
            ("/exit ", Typed::Quit),
            ("/quit now", Typed::Misused { word: "/quit", takes: "nothing behind it" }),
            ("/", Typed::Unknown("/")),
        ] {
            assert_eq!(parse(typed), expected, "{typed:?}");
        }
    }
}
