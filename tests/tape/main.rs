//! Plays demo.tape, which VHS plays too, against the real binary in a pseudo-terminal: the chat from end to end, as a
//! person would use it. The pictures of the README come from the same run:
//!
//! `cargo test --release --test tape -- --ignored` writes them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod player;
#[path = "../support/pty.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod pty;
mod svg;
mod tape;

use std::path::Path;

use player::Picture;

fn demo() -> Vec<Picture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let commands = tape::read(&root.join("demo.tape"), root).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_ortalk")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
    player::play(&commands, &path, &home).unwrap_or_else(|fault| panic!("{fault}"))
}

fn write(pictures: &[Picture], folder: &Path) {
    for picture in pictures {
        let path = folder.join(&picture.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &picture.svg).unwrap();
    }
}

#[test]
fn the_demonstration_runs_as_its_tape_says() {
    let pictures = demo();
    // To look at, not in the place of those that are published.
    write(&pictures, &Path::new(env!("CARGO_TARGET_TMPDIR")).join("tape"));
    let named: Vec<_> = pictures.iter().map(|picture| picture.path.to_str().unwrap()).collect();
    assert_eq!(named, ["docs/chat.svg", "docs/palette.svg", "docs/theme.svg"]);
    for (picture, expected) in pictures.iter().zip([
        ["Show me a Python function", "CPUExecutionProvider", "token latency", "tok/s"],
        ["/help", "/model", "commands", "Python function"],
        ["projector-light", "for a projector in a bright room", "Enter", "Python function"],
    ]) {
        for text in expected {
            assert!(picture.text.contains(text), "{}: {text}\n{}", picture.path.display(), picture.text);
        }
    }
    // The theme that the list stands at is the one that is shown.
    assert!(pictures[2].svg.contains("fill=\"#004f9e\""));
}

#[test]
#[ignore = "writes the pictures of the README"]
fn write_the_pictures() {
    write(&demo(), Path::new(env!("CARGO_MANIFEST_DIR")));
}
