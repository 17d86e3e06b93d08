//! What the screen costs: decode speed in the chat as a ratio to `ortalk run` on the same prompt, taken in turns within
//! one run, and the bytes that the chat writes to the terminal for each token.
//!
//! And what a conversation of 2,000 messages costs to open and to draw while its last answer streams.
//!
//! `cargo bench --bench screen`. Both speeds are the engine's own, stamped where the tokens are made. With
//! `-- reading` only the conversation is measured, without a model.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(unix)]
#[path = "../tests/support/pty.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod pty;

#[path = "screen/reading.rs"]
mod reading;

#[cfg(not(unix))]
fn main() {
    reading::run();
    println!("the rest of this benchmark needs a pseudo-terminal");
}

#[cfg(unix)]
fn main() {
    reading::run();
    if std::env::args().any(|argument| argument == "reading") {
        return;
    }
    let home = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
    let setup =
        std::process::Command::new(env!("CARGO_BIN_EXE_ortalk")).arg("setup").env("ORTALK_HOME", &home).status();
    assert!(setup.unwrap().success());
    run(&home, "in the chat, 120x36, of `ortalk run`", 120, 36);
    run(&home, "in the chat, 80x24, of `ortalk run`", 80, 24);
}

#[cfg(unix)]
const PROMPT: &str = "Tell me a very long story about the sea.";
#[cfg(unix)]
const TOKENS: &str = "200";
#[cfg(unix)]
const ROUNDS: usize = 9;

#[cfg(unix)]
fn run(home: &std::path::Path, name: &str, columns: u16, rows: u16) {
    let (mut chat, mut plain, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(in_run(home));
        let (rate, written) = in_chat(home, columns, rows);
        chat.push(rate);
        bytes.push(written);
    }
    // What the machine does when nothing else runs on it.
    let best = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    let best_ratio = best(&chat) / best(&plain);
    let (chat, plain, bytes) = (median(chat), median(plain), median(bytes));
    println!(
        "{name}: {chat:.1} of {plain:.1} tokens/s, ratio {:.3}, of the best {best_ratio:.3} (at least 0.970); \
         {bytes:.0} bytes a token",
        chat / plain
    );
}

#[cfg(unix)]
fn in_run(home: &std::path::Path) -> f64 {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_ortalk"))
        .args(["run", PROMPT, "--temperature", "0", "--max-tokens", TOKENS, "--json"])
        .env("ORTALK_HOME", home)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["timings"]["decode_tokens_per_second"].as_f64().unwrap()
}

/// The decode speed that the chat shows when the answer is complete, and the bytes it wrote for each token.
#[cfg(unix)]
fn in_chat(home: &std::path::Path, columns: u16, rows: u16) -> (f64, f64) {
    let mut command = portable_pty::CommandBuilder::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(["--temperature", "0", "--max-tokens", TOKENS]);
    command.env("ORTALK_HOME", home);
    let mut terminal = pty::Terminal::start(command, columns, rows);
    terminal.wait_for("○ cpu");
    let before = terminal.raw().len();
    terminal.send(&format!("{PROMPT}\r"));
    terminal.wait_for("● cpu");
    terminal.wait_for("○ cpu");
    let written = terminal.raw().len() - before;
    let screen = terminal.screen();
    terminal.send("\x04");
    terminal.exit_code();
    // The speed panel's line, or the strip's.
    let after =
        |label: &str| screen.lines().find_map(|line| line.split_once(label)?.1.split_whitespace().next()?.parse().ok());
    let rate =
        after("decode").or_else(|| after("speed ")).unwrap_or_else(|| panic!("no speed on the screen:\n{screen}"));
    (rate, written as f64 / TOKENS.parse::<f64>().unwrap())
}

#[cfg(unix)]
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
