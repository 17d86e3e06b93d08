//! Reads the language of VHS (charmbracelet/vhs): a line is a command, and means what it means there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;

#[derive(Debug, Clone)]
pub enum Command {
    /// Where VHS writes the film; this player writes none.
    Output,
    /// A program that must be on the path.
    Require(String),
    Set(Setting),
    Env(String, String),
    Type {
        text: String,
        /// For each character, in place of the tape's.
        speed: Option<Duration>,
    },
    Key {
        bytes: Vec<u8>,
        speed: Option<Duration>,
        count: usize,
    },
    Sleep(Duration),
    Wait {
        scope: Scope,
        timeout: Option<Duration>,
        pattern: Option<Regex>,
    },
    Hide,
    Show,
    Screenshot(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The line of the cursor.
    Line,
    Screen,
}

#[derive(Debug, Clone)]
pub enum Setting {
    Shell(String),
    FontSize(f64),
    Width(f64),
    Height(f64),
    Padding(f64),
    LineHeight(f64),
    TypingSpeed(Duration),
    WaitTimeout(Duration),
    WaitPattern(Regex),
    /// What is about the film's looks alone.
    Looks,
}

/// Reads a tape, and the tapes that it names by `Source`, whose paths are relative to `folder`.
pub fn read(path: &Path, folder: &Path) -> Result<Vec<Command>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("'{}': {error}", path.display()))?;
    let mut commands = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = words(line).map_err(|fault| at(path, number, &fault))?;
        let Some((name, arguments)) = words.split_first() else { continue };
        let name = name.text();
        if name == "Source" {
            commands.extend(read(&folder.join(one(arguments).map_err(|fault| at(path, number, &fault))?), folder)?);
        } else {
            commands.extend(command(name, arguments).map_err(|fault| at(path, number, &fault))?);
        }
    }
    Ok(commands)
}

fn at(path: &Path, number: usize, fault: &str) -> String {
    format!("{}:{}: {fault}", path.display(), number + 1)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Bare(String),
    Quoted(String),
    Pattern(String),
}

impl Word {
    fn text(&self) -> &str {
        match self {
            Self::Bare(text) | Self::Quoted(text) | Self::Pattern(text) => text,
        }
    }
}

fn words(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        match first {
            '#' => break,
            '"' | '\'' | '`' => {
                let end = rest[1..].find(first).ok_or_else(|| format!("a {first} is never closed"))? + 1;
                words.push(Word::Quoted(rest[1..end].to_owned()));
                rest = &rest[end + 1..];
            }
            '/' if words.first().is_some_and(|word: &Word| word.text().starts_with("Wait")) => {
                let end = end_of_pattern(&rest[1..]).ok_or("a / is never closed")? + 1;
                words.push(Word::Pattern(rest[1..end].replace("\\/", "/")));
                rest = &rest[end + 1..];
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                words.push(Word::Bare(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        rest = rest.trim_start();
    }
    Ok(words)
}

/// The first slash that is not escaped.
fn end_of_pattern(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let is_end = c == '/' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end.then_some(at)
    })
}

fn one(arguments: &[Word]) -> Result<&str, String> {
    match arguments {
        [word] => Ok(word.text()),
        _ => Err(format!("one argument is expected, not {}", arguments.len())),
    }
}

fn command(name: &str, arguments: &[Word]) -> Result<Vec<Command>, String> {
    let (name, speed) = match name.split_once('@') {
        Some((name, time)) => (name, Some(duration(time)?)),
        None => (name, None),
    };
    let only = |command| Ok(vec![command]);
    match name {
        "Output" => one(arguments).and_then(|_| only(Command::Output)),
        "Require" => only(Command::Require(one(arguments)?.to_owned())),
        "Set" => setting(arguments).map(|setting| vec![Command::Set(setting)]),
        "Env" => match arguments {
            [name, value] => only(Command::Env(name.text().to_owned(), value.text().to_owned())),
            _ => Err("a name and a value are expected".to_owned()),
        },
        "Type" => {
            if arguments.is_empty() || arguments.iter().any(|word| !matches!(word, Word::Quoted(_))) {
                return Err("text in quotes is expected".to_owned());
            }
            let text = arguments.iter().map(Word::text).collect::<Vec<_>>().join(" ");
            only(Command::Type { text, speed })
        }
        "Sleep" => only(Command::Sleep(duration(one(arguments)?)?)),
        "Hide" => only(Command::Hide),
        "Show" => only(Command::Show),
        "Screenshot" => only(Command::Screenshot(one(arguments)?.into())),
        _ if name == "Wait" || name.starts_with("Wait+") => {
            let scope = match name {
                "Wait" | "Wait+Line" => Scope::Line,
                "Wait+Screen" => Scope::Screen,
                _ => return Err(format!("'{name}' is no command; Wait+Line and Wait+Screen are")),
            };
            let pattern = match arguments {
                [] => None,
                [Word::Pattern(text)] => Some(pattern(text)?),
                _ => return Err("a /pattern/ is expected".to_owned()),
            };
            only(Command::Wait { scope, timeout: speed, pattern })
        }
        _ => {
            let bytes = key(name).ok_or_else(|| format!("'{name}' is no command"))?;
            let count = match arguments {
                [] => 1,
                _ => {
                    let count = one(arguments)?;
                    count.parse().map_err(|_| format!("'{count}' is no number of times"))?
                }
            };
            only(Command::Key { bytes, speed, count })
        }
    }
}

fn setting(arguments: &[Word]) -> Result<Setting, String> {
    let [name, value] = arguments else { return Err("a setting and its value are expected".to_owned()) };
    let value = value.text();
    let number = || value.parse::<f64>().map_err(|_| format!("'{value}' is no number"));
    Ok(match name.text() {
        "Shell" => Setting::Shell(value.to_owned()),
        "FontSize" => Setting::FontSize(number()?),
        "Width" => Setting::Width(number()?),
        "Height" => Setting::Height(number()?),
        "Padding" => Setting::Padding(number()?),
        "LineHeight" => Setting::LineHeight(number()?),
        "TypingSpeed" => Setting::TypingSpeed(duration(value)?),
        "WaitTimeout" => Setting::WaitTimeout(duration(value)?),
        "WaitPattern" => Setting::WaitPattern(pattern(value.trim_matches('/'))?),
        "FontFamily" | "LetterSpacing" | "Theme" | "Framerate" | "PlaybackSpeed" | "LoopOffset" | "BorderRadius"
        | "Margin" | "MarginFill" | "WindowBar" | "WindowBarSize" | "CursorBlink" => Setting::Looks,
        name => return Err(format!("'{name}' is no setting")),
    })
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

/// `500ms`, `2s`, `1.5s`, `10m`; a bare number is of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("'{text}' is no time; '500ms' and '2s' are")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is no time; '500ms' and '2s' are"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| format!("'{text}': {error}"))
}

/// What xterm sends for a key.
fn key(name: &str) -> Option<Vec<u8>> {
    let bytes: &[u8] = match name {
        "Enter" => b"\r",
        "Tab" => b"\t",
        "Space" => b" ",
        "Backspace" => b"\x7f",
        "Escape" => b"\x1b",
        "Up" => b"\x1b[A",
        "Down" => b"\x1b[B",
        "Right" => b"\x1b[C",
        "Left" => b"\x1b[D",
        "Home" => b"\x1b[H",
        "End" => b"\x1b[F",
        "Insert" => b"\x1b[2~",
        "Delete" => b"\x1b[3~",
        "PageUp" => b"\x1b[5~",
        "PageDown" => b"\x1b[6~",
        "Shift+Tab" => b"\x1b[Z",
        _ => {
            let (modifier, rest) = name.split_once('+')?;
            let mut letters = rest.chars();
            return match (modifier, letters.next(), letters.next()) {
                ("Ctrl", Some(c), None) => Some(vec![c.to_ascii_uppercase() as u8 & 0x1f]),
                ("Shift", Some(c), None) => Some(c.to_uppercase().to_string().into_bytes()),
                ("Alt", ..) => {
                    let inner = key(rest).or_else(|| (rest.chars().count() == 1).then(|| rest.into()))?;
                    Some([b"\x1b".to_vec(), inner].concat())
                }
                _ => None,
            };
        }
    };
    Some(bytes.to_vec())
}

mod tests {
    use super::*;

    fn commands(text: &str) -> Result<Vec<Command>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("other.tape"), "Type 'from the other'").unwrap();
        let path = folder.path().join("a.tape");
        std::fs::write(&path, text).unwrap();
        read(&path, folder.path())
    }

    #[test]
    fn each_command_means_what_it_means_in_vhs() {
        let tape = "# a remark\nOutput out.gif\nRequire bash\nSet TypingSpeed 75ms\nSet Theme \"Nord\"\nEnv A 'b c'\n\
            Type@10ms \"it's # no remark\" `and`\nEnter 2\nCtrl+C\nAlt+Enter\nDown@1s 3 # thrice\nSleep .5\n\
            Wait\nWait+Screen@2m /a\\/b \\d+$/\nHide\nShow\nScreenshot a.png\nSource other.tape\n";
        let shown: Vec<String> = commands(tape).unwrap().iter().map(|command| format!("{command:?}")).collect();
        let expected = [
            "Output",
            r#"Require("bash")"#,
            "Set(TypingSpeed(75ms))",
            "Set(Looks)",
            r#"Env("A", "b c")"#,
            r#"Type { text: "it's # no remark and", speed: Some(10ms) }"#,
            "Key { bytes: [13], speed: None, count: 2 }",
            "Key { bytes: [3], speed: None, count: 1 }",
            "Key { bytes: [27, 13], speed: None, count: 1 }",
            "Key { bytes: [27, 91, 66], speed: Some(1s), count: 3 }",
            "Sleep(500ms)",
            "Wait { scope: Line, timeout: None, pattern: None }",
            r#"Wait { scope: Screen, timeout: Some(120s), pattern: Some(Regex("a/b \\d+$")) }"#,
            "Hide",
            "Show",
            r#"Screenshot("a.png")"#,
            r#"Type { text: "from the other", speed: None }"#,
        ];
        pretty_assertions::assert_eq!(shown, expected);
    }

    #[test]
    fn a_fault_is_told_with_its_line() {
        for (tape, words) in [
            ("Type hello", "text in quotes"),
            ("\nType \"hello", "a.tape:2: a \" is never closed"),
            ("Sleep soon", "'soon' is no time"),
            ("Enter twice", "'twice' is no number of times"),
            ("Press Enter", "'Press' is no command"),
            ("Set Colour red", "'Colour' is no setting"),
            ("Wait /(/", "regex parse error"),
            ("Wait+Window", "'Wait+Window' is no command"),
            ("Source missing.tape", "missing.tape'"),
        ] {
            let error = commands(tape).unwrap_err();
            assert!(error.contains(words), "{tape}: {error}");
        }
    }
}
