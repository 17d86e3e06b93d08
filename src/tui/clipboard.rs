//! The way of a copied text: to the clipboard of the system where this program runs, or by an escape sequence (OSC 52) to
//! the terminal, which may run on another machine.
//!
//! Over SSH it is always the terminal: the system here is not the one that the reader sits at, even where its clipboard
//! can be reached. Whether a terminal takes the sequence cannot be known; so the hint says "sent", not "copied".

use std::sync::mpsc::{Receiver, Sender, channel};

use crossterm::clipboard::CopyToClipboard;
use crossterm::queue;

/// The longest text in bytes that terminals take: 100,000 bytes of sequence, in base64.
pub const LONGEST_FOR_TERMINAL: usize = 74_994;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The system's clipboard has it.
    System,
    /// It was sent to the terminal.
    Terminal {
        /// Which passes it on only if it was told to.
        through_tmux: bool,
    },
}

/// What became of a text that was to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Copied {
        way: Way,
        characters: usize,
    },
    /// Longer than terminals take, in bytes.
    TooLong(usize),
    /// There is no system's clipboard that takes the text, which comes back.
    NoSystem(String),
}

/// Where the program and its reader are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connection {
    pub over_ssh: bool,
    pub in_tmux: bool,
}

impl Connection {
    pub fn detect() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Self { over_ssh: ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"].into_iter().any(is_set), in_tmux: is_set("TMUX") }
    }
}

/// Copies, and reports what became of it.
pub struct Clipboard {
    connection: Connection,
    report: Box<dyn Fn(Outcome)>,
    /// The thread that has the system's clipboard, once something was copied there.
    system: Option<Sender<String>>,
    start: Box<dyn Fn(Receiver<String>) -> std::io::Result<()>>,
}

impl Clipboard {
    /// `report` is called from a thread of the clipboard's own, too.
    pub fn new(connection: Connection, report: impl Fn(Outcome) + Clone + Send + 'static) -> Self {
        let of_thread = report.clone();
        let start = move |texts: Receiver<String>| {
            let report = of_thread.clone();
            std::thread::Builder::new().name("clipboard".into()).spawn(move || serve(&texts, &report))?;
            Ok(())
        };
        Self { connection, report: Box::new(report), system: None, start: Box::new(start) }
    }

    /// Copies by the way that fits; returns what the terminal must be sent.
    pub fn copy(&mut self, text: String) -> Option<Vec<u8>> {
        if self.connection.over_ssh {
            return self.copy_by_terminal(&text);
        }
        // A clipboard's own thread: a display that does not answer must not hold the screen, and on some systems the
        // text is gone with the handle.
        let text = match &self.system {
            Some(system) => match system.send(text) {
                Ok(()) => return None,
                Err(unsent) => unsent.0,
            },
            None => text,
        };
        let (sender, texts) = channel();
        if (self.start)(texts).is_err() {
            return self.copy_by_terminal(&text);
        }
        let _ = sender.send(text);
        self.system = Some(sender);
        None
    }

    /// For a system without a clipboard; returns what the terminal must be sent.
    pub fn copy_by_terminal(&self, text: &str) -> Option<Vec<u8>> {
        if text.len() > LONGEST_FOR_TERMINAL {
            (self.report)(Outcome::TooLong(text.len()));
            return None;
        }
        let mut bytes = Vec::new();
        queue!(bytes, CopyToClipboard::to_clipboard_from(text)).ok()?;
        let way = Way::Terminal { through_tmux: self.connection.in_tmux };
        (self.report)(Outcome::Copied { way, characters: text.chars().count() });
        Some(bytes)
    }
}

/// Ends with the program, and the clipboard's handle with it.
fn serve(texts: &Receiver<String>, report: &impl Fn(Outcome)) {
    let mut clipboard = arboard::Clipboard::new();
    for text in texts {
        let copied = match &mut clipboard {
            Ok(clipboard) => clipboard.set_text(text.as_str()).is_ok(),
            Err(_) => false,
        };
        report(if copied {
            Outcome::Copied { way: Way::System, characters: text.chars().count() }
        } else {
            Outcome::NoSystem(text)
        });
    }
}

/// A text as it may be pasted anywhere: without the control characters that a shell or an editor would obey.
pub fn harmless(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    lines.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    type Reports = Arc<Mutex<Vec<Outcome>>>;

    fn over_ssh(in_tmux: bool) -> (Clipboard, Reports) {
        let reports = Reports::default();
        let report = {
            let reports = reports.clone();
            move |event| reports.lock().unwrap().push(event)
        };
        (Clipboard::new(Connection { over_ssh: true, in_tmux }, report), reports)
    }

    #[test]
    fn over_ssh_the_terminal_gets_it() {
        let (mut clipboard, reports) = over_ssh(true);
        let bytes = clipboard.copy("häh\n".to_owned()).unwrap();
        // printf 'häh\n' | base64
        assert_eq!(String::from_utf8(bytes).unwrap(), "\x1b]52;c;aMOkaAo=\x1b\\");
        let reports = reports.lock().unwrap();
        let way = Way::Terminal { through_tmux: true };
        assert!(matches!(&reports[..], [Outcome::Copied { way: w, characters: 4 }] if *w == way), "{reports:?}");
    }

    #[test]
    fn what_is_too_long_for_terminals_is_not_sent() {
        let (mut clipboard, reports) = over_ssh(false);
        assert!(clipboard.copy("x".repeat(LONGEST_FOR_TERMINAL)).unwrap().len() < 100_100);
        assert_eq!(clipboard.copy("x".repeat(LONGEST_FOR_TERMINAL + 1)), None);
        let reports = reports.lock().unwrap();
        assert!(matches!(&reports[1..], [Outcome::TooLong(74_995)]), "{reports:?}");
    }

    #[test]
    fn a_pasted_copy_gives_no_orders() {
        assert_eq!(harmless("ls\x1b[201~;rm\u{9b}x\r\nb\rc\td\u{7f}"), "ls[201~;rmx\nb\nc\td");
    }
}
