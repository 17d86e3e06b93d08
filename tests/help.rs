//! What `--help` says, as text in `snapshots/`: a change of wording shows in review, and so does a new option without one.
//! Accept a change with `INSTA_UPDATE=always cargo test --test help`, after reading it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

fn help(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
    // The width of the text follows the terminal, up to a hundred columns.
    let output = command.args(arguments).env("COLUMNS", "100").env("NO_COLOR", "1").output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    // Usage lines quote the program's file name.
    String::from_utf8(output.stdout).unwrap().replace("ortalk.exe", "ortalk")
}

#[test]
fn help_reads_well() {
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("help", help(&["--help"]));
        insta::assert_snapshot!("help_run", help(&["run", "--help"]));
        insta::assert_snapshot!("help_race", help(&["race", "--help"]));
        insta::assert_snapshot!("help_replay", help(&["replay", "--help"]));
        insta::assert_snapshot!("help_serve", help(&["serve", "--help"]));
        insta::assert_snapshot!("help_setup", help(&["setup", "--help"]));
        insta::assert_snapshot!("help_sys", help(&["sys", "--help"]));
        insta::assert_snapshot!("help_inspect", help(&["inspect", "--help"]));
        insta::assert_snapshot!("help_bench", help(&["bench", "--help"]));
        insta::assert_snapshot!("help_chats", help(&["chats", "--help"]));
        insta::assert_snapshot!("help_cost", help(&["cost", "--help"]));
        insta::assert_snapshot!("help_report", help(&["report", "--help"]));
        insta::assert_snapshot!("help_pull", help(&["pull", "--help"]));
        insta::assert_snapshot!("help_models", help(&["models", "--help"]));
        insta::assert_snapshot!("help_models_remove", help(&["models", "remove", "--help"]));
        insta::assert_snapshot!("help_build", help(&["build", "--help"]));
    });
}

#[test]
fn no_line_is_wider_than_a_hundred_columns() {
    let commands = [
        "run", "race", "replay", "serve", "setup", "sys", "inspect", "bench", "chats", "cost", "report", "build",
        "pull", "models",
    ]
    .map(|command| [command, "--help"]);
    for arguments in [&["--help"][..], &["-h"]].into_iter().chain(commands.iter().map(|words| &words[..])) {
        for line in help(arguments).lines() {
            assert!(line.chars().count() <= 100, "{arguments:?}: {line}");
        }
    }
}
