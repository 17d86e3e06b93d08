//! The real path: an empty home folder, the real pip, the registry.

use std::fs::{self, File};

use super::home::{Home, expect_success, stderr};

#[test]
fn an_empty_home_is_filled_from_the_registry_and_then_needs_nothing() {
    let mut home = Home::with_real_pip();
    let output = home.setup().output().unwrap();
    expect_success(&output);
    home.expect_complete();
    assert_eq!(home.pip_calls(), 2);
    let progress = stderr(&output);
    for stage in ["downloading", "verifying", "unpacking"] {
        assert!(progress.contains(&format!("SmolLM2-135M-Instruct: {stage}")), "{progress}");
    }

    // From now on: no Python, no network, and nothing to say on standard error.
    home.fake("forbidden", "echo 'Python was started' >&2\nexit 1");
    let output = home.setup().output().unwrap();
    expect_success(&output);
    assert_eq!(stderr(&output), "");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("in ortalk's cache") && table.contains("98.4 MB"), "{table}");
}

/// A file that was cut short (a disk error, a careless copy) is noticed by its size and fetched again; the other is not.
#[test]
fn a_file_of_the_wrong_size_is_fetched_again() {
    let home = Home::with_real_pip();
    expect_success(&home.setup_from_folder().output().unwrap());
    File::options().write(true).open(home.model()).unwrap().set_len(1000).unwrap();
    expect_success(&home.setup_from_folder().output().unwrap());
    home.expect_complete();
    assert_eq!(home.pip_calls(), 3);
}

/// Verified wheels that a killed run left are unpacked without asking pip; a damaged one is downloaded again.
#[test]
fn kept_wheels_are_used_when_they_are_whole() {
    let home = Home::with_real_pip();
    let kept = home.path("home/cache/provision/wheels");
    fs::create_dir_all(&kept).unwrap();
    for entry in fs::read_dir(super::home::wheels()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), kept.join(entry.file_name())).unwrap();
        if entry.file_name().to_str().unwrap().starts_with("onnxruntime-") {
            File::options().write(true).open(kept.join(entry.file_name())).unwrap().set_len(5000).unwrap();
        }
    }
    expect_success(&home.setup_from_folder().output().unwrap());
    home.expect_complete();
    assert_eq!(home.pip_calls(), 1);
}
