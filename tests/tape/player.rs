//! Plays a tape: types at a shell in a pseudo-terminal, waits for what stands there, and takes pictures.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;
use regex::Regex;

use super::pty::Terminal;
use super::svg;
use super::tape::{Command, Scope, Setting};

/// VHS's own.
const PROMPT: &str = "> ";
const WAIT: Duration = Duration::from_secs(15);
const TYPING: Duration = Duration::from_millis(50);
/// How often the screen is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What stood on the screen when a tape asked for a picture.
pub struct Picture {
    /// As the tape has it, with the player's own ending.
    pub path: PathBuf,
    pub text: String,
    pub svg: String,
}

struct Settings {
    shell: String,
    font_size: f64,
    width: f64,
    height: f64,
    padding: f64,
    line_height: f64,
    typing: Duration,
    wait: Duration,
    pattern: Regex,
}

impl Settings {
    fn set(&mut self, setting: &Setting) {
        match setting {
            Setting::Shell(shell) => self.shell.clone_from(shell),
            Setting::FontSize(size) => self.font_size = *size,
            Setting::Width(width) => self.width = *width,
            Setting::Height(height) => self.height = *height,
            Setting::Padding(padding) => self.padding = *padding,
            Setting::LineHeight(height) => self.line_height = *height,
            Setting::TypingSpeed(speed) => self.typing = *speed,
            Setting::WaitTimeout(timeout) => self.wait = *timeout,
            Setting::WaitPattern(pattern) => self.pattern = pattern.clone(),
            Setting::Looks => {}
        }
    }

    /// The cells that fit, for a font whose cell is 0.6 of its size wide and 1.2 high.
    fn cells(&self) -> (u16, u16) {
        let cells = |length: f64, cell: f64| ((length - 2.0 * self.padding) / cell) as u16;
        (cells(self.width, 0.6 * self.font_size), cells(self.height, 1.2 * self.font_size * self.line_height))
    }
}

/// Plays the commands with `path` as the shell's PATH and `home` as ortalk's folder; returns the pictures.
pub fn play(commands: &[Command], path: &str, home: &Path) -> Result<Vec<Picture>, String> {
    let mut settings = Settings {
        shell: "bash".to_owned(),
        font_size: 22.0,
        width: 1200.0,
        height: 600.0,
        padding: 60.0,
        line_height: 1.0,
        typing: TYPING,
        wait: WAIT,
        pattern: Regex::new(">$").map_err(|error| error.to_string())?,
    };
    // Settings and the environment count from the start, as in VHS.
    let mut environment = Vec::new();
    for command in commands {
        match command {
            Command::Set(setting) => settings.set(setting),
            Command::Env(name, value) => environment.push((name, value)),
            Command::Require(program) if !is_on(path, program) => {
                return Err(format!("the tape requires '{program}', which is not on the path"));
            }
            _ => {}
        }
    }
    let mut shell = CommandBuilder::new(&settings.shell);
    shell.args(["--noprofile", "--norc", "+o", "history"]);
    shell.env("PS1", PROMPT);
    shell.env("PATH", path);
    shell.env("ORTALK_HOME", home);
    shell.env("COLORTERM", "truecolor");
    for name in ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "TMUX"] {
        shell.env_remove(name);
    }
    for (name, value) in environment {
        shell.env(name, value);
    }
    let (columns, rows) = settings.cells();
    let mut terminal = Terminal::start(shell, columns, rows);
    let mut pictures = Vec::new();
    for command in commands {
        match command {
            Command::Type { text, speed } => {
                for c in text.chars() {
                    terminal.send(c.encode_utf8(&mut [0; 4]));
                    std::thread::sleep(speed.unwrap_or(settings.typing));
                }
            }
            Command::Key { bytes, speed, count } => {
                for _ in 0..*count {
                    terminal.send(&String::from_utf8_lossy(bytes));
                    std::thread::sleep(speed.unwrap_or(settings.typing));
                }
            }
            Command::Sleep(time) => std::thread::sleep(*time),
            Command::Wait { scope, timeout, pattern } => {
                let pattern = pattern.as_ref().unwrap_or(&settings.pattern);
                wait(&terminal, *scope, timeout.unwrap_or(settings.wait), pattern)?;
            }
            Command::Screenshot(path) => pictures.push(Picture {
                path: path.with_extension("svg"),
                text: terminal.screen(),
                svg: terminal.with_screen(svg::picture),
            }),
            // Only a film has hidden parts.
            Command::Hide | Command::Show | Command::Output => {}
            Command::Require(_) | Command::Set(_) | Command::Env(..) => {}
        }
    }
    Ok(pictures)
}

fn wait(terminal: &Terminal, scope: Scope, timeout: Duration, pattern: &Regex) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let text = match scope {
            Scope::Screen => terminal.screen(),
            Scope::Line => terminal.with_screen(|screen| {
                let (row, _) = screen.cursor_position();
                screen.rows(0, screen.size().1.get()).nth(row.into()).unwrap_or_default()
            }),
        };
        if pattern.is_match(text.trim_end()) {
            return Ok(());
        }
        if start.elapsed() > timeout {
            return Err(format!("/{pattern}/ never came in {timeout:?}; the screen:\n{}", terminal.screen()));
        }
        std::thread::sleep(LOOK);
    }
}

fn is_on(path: &str, program: &str) -> bool {
    std::env::split_paths(path).any(|folder| folder.join(program).is_file())
}
