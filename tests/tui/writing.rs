//! What is written: pastes, files, an editor, what was sent before.

use std::time::{Duration, Instant};

use crate::Chat;

#[test]
fn a_megabyte_is_pasted_without_a_stall() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    let start = Instant::now();
    chat.send("\x1b[200~");
    chat.send(&"lorem ipsum dolor\n".repeat(60_000));
    chat.send("the end\x1b[201~");
    chat.wait_for("[pasted 1.1 MB, 270,001 tokens]");
    chat.send("!");
    chat.wait_for("tokens]!");
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[test]
fn a_file_is_attached_by_its_name() {
    let mut chat = Chat::start("lanes", 120, 36);
    chat.wait_for("Ask something");
    let folder = tempfile::tempdir().unwrap();
    // The scripted lane breaks when it reads the word: the text was sent, and not the name alone.
    std::fs::write(folder.path().join("some notes.txt"), "please break\n").unwrap();
    std::fs::write(folder.path().join("other.bin"), b"\0").unwrap();
    let folder = folder.path().to_str().unwrap();
    chat.send(&format!("Read @{folder}/somtes"));
    chat.wait_for(&format!("files in {folder}/"));
    chat.send("\t");
    chat.wait_for("some notes.txt, 13 B, 3 tokens]");
    chat.send("\r");
    chat.wait_for("npu to cpu after 5 tokens");
    chat.wait_for("○ cpu  ");
    chat.send(&format!("and @{folder}/other.bin\r"));
    chat.wait_for("is not UTF-8 text");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn an_editor_has_the_terminal_for_itself() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    chat.send("draft\x07");
    chat.wait_until("main screen", |chat| !chat.alternate_screen());
    // An interrupt is the editor's business; this one is deaf.
    chat.signal(rustix::process::Signal::INT);
    chat.send("written elsewhere\n");
    chat.wait_for("written elsewhere");
    chat.wait_until("second screen", |chat| chat.alternate_screen());
    chat.wait_for("written elsewhere");
    assert!(!chat.screen().contains("draft"), "{}", chat.screen());
    chat.send("!");
    chat.wait_for("elsewhere!");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
    chat.assert_restored();
}

#[test]
fn what_was_sent_is_found_in_the_next_session() {
    let mut chat = Chat::start("demo", 80, 24);
    chat.wait_for("Ask something");
    chat.send("a question of yesterday\r");
    chat.wait_for("Paris");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), 0);
    let mut chat = chat.restart();
    chat.wait_for("Ask something");
    chat.send("\x12yesterday");
    chat.wait_for("1 of 1");
    chat.send("\r today");
    chat.wait_for("a question of yesterday today");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), 0);
}
