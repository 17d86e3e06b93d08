//! Conversations that the chat keeps: over a kill, over two programs, and through all that a person does to them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ortalk::paths::Paths;
use ortalk::store::{Made, Store, Stored};
use portable_pty::CommandBuilder;
use rustix::process::Signal;

use crate::pty::Terminal;
use crate::support::{home, model, succeed};

/// A home of its own for what is said, with the tests' models.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        model();
        succeed(&["setup"]);
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(home().join("cache"), folder.path().join("cache")).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store(&self) -> Store {
        Store::new(Paths::below(self.path()).chats())
    }

    fn latest(&self) -> Stored {
        let store = self.store();
        store.load(&store.find(None).unwrap()).unwrap()
    }

    fn chat(&self, columns: u16, rows: u16, arguments: &[&str]) -> Terminal {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
        command.args(["--temperature", "0"]);
        command.args(arguments);
        command.env("ORTALK_HOME", self.path());
        let mut chat = Terminal::start(command, columns, rows);
        chat.wait_for("○ cpu");
        chat
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

const ALT_UP: &str = "\x1b[1;3A";
const LEFT: &str = "\x1b[D";
const F4: &str = "\x1bOS";

/// Letters and digits: how lines are broken does not count.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The last lines of the running answer on the screen.
fn shown(chat: &Terminal) -> Option<String> {
    let screen = chat.screen();
    let lines: Vec<&str> = screen.lines().collect();
    let last = lines.iter().position(|line| line.contains('▌'))?;
    let header = lines[..last].iter().rposition(|line| line.contains("· cpu")).map_or(0, |at| at + 1);
    Some(lines[header.max(1)..=last].join(" "))
}

/// Whatever stands on the screen when the program is killed is in the file.
#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_shown() {
    let place = Place::new();
    let mut compared = 0;
    // Moments that are spread, but the same each time.
    for round in 0..5u64 {
        let mut chat = place.chat(50, 15, &[]);
        chat.send(&format!("Tell me a very long story about {round} ships and the sea.\r"));
        chat.wait_until("text", |chat| shown(chat).is_some_and(|text| letters(&text).len() > 8));
        std::thread::sleep(Duration::from_millis(50 + round * 7919 % 900));
        chat.signal(Signal::KILL);
        chat.exit_code();
        let stored = place.latest();
        assert_eq!(stored.left_out.damaged, 0);
        let path = stored.tree.path();
        assert!(path[0].text.contains(&format!("{round} ships")), "{path:?}");
        assert!(path[1].answer.as_ref().unwrap().end.is_none());
        if let Some(text) = shown(&chat) {
            let (kept, text) = (letters(&path[1].text), letters(&text));
            assert!(kept.contains(&text), "shown: {text}\nkept: {kept}");
            compared += 1;
        }
    }
    assert!(compared >= 3, "{compared}");

    // The last one goes on where it was cut.
    let mut chat = place.chat(80, 24, &["--resume"]);
    chat.wait_for("ortalk ended while it was written");
    let before = place.latest().tree.path()[1].text.clone();
    chat.send("/continue\r");
    chat.wait_until("more text", |_| place.latest().tree.path()[1].text.len() > before.len() + 10);
    chat.send("\x1b");
    chat.wait_for("cancelled");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    let after = place.latest();
    let answer = after.tree.path()[1];
    assert!(answer.text.starts_with(&before));
    assert_eq!(answer.answer.as_ref().unwrap().end.as_ref().unwrap().finish, "cancelled");
}

#[test]
fn messages_are_answered_again_edited_and_exported_and_the_list_finds_them() {
    let place = Place::new();
    let mut chat = place.chat(120, 36, &["-n", "12"]);
    chat.send("What is the capital of France?\r");
    chat.wait_for("The capital of France is Paris.");
    chat.wait_for("○ cpu");
    chat.send(ALT_UP);
    chat.wait_for("branch");
    chat.send("r");
    chat.wait_for("‹ 2/2 ›");
    chat.wait_for("○ cpu");
    // The question in other words; the first ones are kept.
    chat.send(ALT_UP);
    chat.send("ke");
    chat.wait_for("editing");
    chat.send("\x15What is the capital of Italy?\r");
    chat.wait_until("another question", |chat| chat.screen().contains("Italy") && !chat.screen().contains("France is"));
    chat.wait_for("○ cpu");
    chat.send(ALT_UP);
    chat.send(&format!("k{LEFT}"));
    chat.wait_for("The capital of France is Paris.");
    chat.send("q");
    let file = place.file("talk.md");
    chat.send(&format!("/export {}\r", file.display()));
    chat.wait_for("written to");
    assert!(std::fs::read_to_string(&file).unwrap().contains("## You\n\nWhat is the capital of France?\n"));
    chat.send("/rename Capitals\r");
    chat.wait_for("Capitals");
    chat.send("/clear\r");
    chat.wait_for("Ask something");
    chat.send("\x0fitaly");
    chat.wait_for("1 of 1");
    chat.send("\r");
    chat.wait_for("The capital of France is Paris.");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();

    let stored = place.latest();
    let questions = stored.tree.messages().iter().filter(|message| message.answer.is_none()).count();
    assert_eq!((stored.tree.title().as_deref(), questions, stored.tree.messages().len()), (Some("Capitals"), 2, 5));
}

/// Times, numbers and an answer that a person wrote are there again.
#[test]
fn a_resumed_conversation_is_as_it_was_left() {
    let place = Place::new();
    let mut chat = place.chat(120, 36, &["-n", "12"]);
    chat.send("/set top-k 3\r");
    chat.wait_for("top-k is 3");
    chat.send("What is the capital of France?\r");
    chat.wait_for("The capital of France is Paris.");
    chat.wait_for("○ cpu");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    let stored = place.latest();
    let answer = stored.tree.path()[1];
    let timed = answer.pieces().filter(|piece| matches!(piece.made, Made::Token { .. })).count();
    assert_eq!(timed, answer.answer.as_ref().unwrap().end.as_ref().unwrap().tokens);

    let mut chat = place.chat(120, 36, &["--resume"]);
    chat.wait_for("With this conversation come back: top-k 3.");
    chat.wait_for("tok/s ▆");
    chat.send(F4);
    chat.wait_for(&format!("{timed}/{timed}"));
    // Esc and the next key would be one to a terminal.
    chat.send(F4);
    chat.send(ALT_UP);
    chat.wait_for("branch");
    chat.send("e");
    chat.wait_for("editing the answer");
    chat.send(" And it is old.\r");
    chat.wait_for("edited by you");
    chat.wait_for("‹ 2/2 ›");
    chat.send("q\x04");
    assert_eq!(chat.exit_code(), 0);
    let path: Vec<String> = place.latest().tree.path().iter().map(|message| message.text.clone()).collect();
    assert_eq!(path[1], format!("{} And it is old.", answer.text));
}

/// The second program goes on in a copy; neither sees the other's words.
#[test]
fn two_programs_do_not_write_to_one_conversation() {
    let place = Place::new();
    let mut first = place.chat(80, 24, &["-n", "8"]);
    first.send("What is the capital of France?\r");
    first.wait_for("Paris");
    first.wait_for("○ cpu");
    let mut second = place.chat(80, 24, &["-n", "8", "--resume"]);
    second.wait_for("this is a copy of it");
    for (chat, word) in [(&mut first, "Rome"), (&mut second, "Oslo")] {
        chat.send(&format!("Is it {word}?\r"));
        chat.wait_for("Is it");
        chat.wait_for("○ cpu");
        chat.send("\x04");
        assert_eq!(chat.exit_code(), 0);
    }
    let store = place.store();
    let entries = store.list().unwrap();
    assert_eq!(entries.len(), 2);
    for entry in entries {
        let text: String =
            store.load(&entry.id).unwrap().tree.path().iter().map(|message| message.text.clone()).collect();
        assert!(text.contains("Rome") != text.contains("Oslo"), "{text}");
    }
}

#[test]
fn nothing_is_written_with_no_save() {
    let place = Place::new();
    let mut chat = place.chat(80, 24, &["-n", "8", "--no-save"]);
    chat.send("What is the capital of France?\r");
    chat.wait_for("Paris");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    assert_eq!(place.store().list().unwrap().len(), 0);
    // Nothing to go on with is said before the screen opens.
    let start = Instant::now();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(["--resume", "nothing"]);
    command.env("ORTALK_HOME", place.path());
    let mut chat = Terminal::start(command, 80, 24);
    chat.wait_for("no conversation has 'nothing' in its name");
    assert_eq!(chat.exit_code(), 1);
    assert!(start.elapsed() < Duration::from_secs(30));
}
