//! Killed, stopped, or started twice: the next run always recovers, and nothing is fetched twice without need.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::home::{Home, expect_success, stderr};

/// Writes half a wheel where pip would, then its process ids (a child's too), and hangs.
const HANGS: &str = "mkdir -p \"$TMPDIR/pip-unpack-x\"\nhead -c 1000000 /dev/zero > \"$TMPDIR/pip-unpack-x/half.whl\"\n\
                     sleep 1000 &\necho $$ $! > \"$FAKE_PIDS.part\"\nmv \"$FAKE_PIDS.part\" \"$FAKE_PIDS\"\nwait";

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32).unwrap()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts `setup` with the Python that hangs, and gives it and the hanging processes.
fn hanging(home: &Home) -> (Child, Vec<Pid>) {
    let pids = home.path("pids");
    let child = spawn(home.setup().env("FAKE_PIDS", &pids));
    eventually("the hanging download", || pids.exists());
    let text = fs::read_to_string(pids).unwrap();
    (child, text.split_whitespace().map(|word| Pid::from_raw(word.parse().unwrap()).unwrap()).collect())
}

/// Ctrl-C, and what a terminal and a service manager send when they close.
#[test]
fn a_stop_ends_the_download_and_the_program_in_order() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = Home::with_fake("hangs", HANGS);
        let (child, hanging) = hanging(&home);
        let start = Instant::now();
        kill_process(pid(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{signal:?}: {}", stderr(&output));
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(stderr(&output).contains("stopped"), "{}", stderr(&output));
        eventually("the end of the child", || hanging.iter().all(|pid| test_kill_process(*pid).is_err()));
        home.expect_nothing();
    }
}

#[test]
fn a_kill_leaves_only_staging_and_the_next_run_recovers() {
    let mut home = Home::with_fake("hangs", HANGS);
    let (mut child, hanging) = hanging(&home);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(home.working("staging").len(), 1);
    home.real_pip();
    expect_success(&home.setup_from_folder().output().unwrap());
    home.expect_complete();
    for pid in hanging {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Kills at random moments of the real path, then lets it finish. ORTALK_TEST_SEED chooses other moments.
#[test]
fn kills_at_random_moments() {
    let seed = std::env::var("ORTALK_TEST_SEED").map_or(20_240_607, |text| text.parse().unwrap());
    println!("ORTALK_TEST_SEED={seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let home = Home::with_real_pip();
    let start = Instant::now();
    expect_success(&home.setup_from_folder().output().unwrap());
    let whole = start.elapsed();
    for round in 0..10 {
        // A run that was killed late is done, but for what it and its pip left: the next start puts that away.
        if !home.model_folders().is_empty() {
            home.expect_whole();
            eventually("an empty workplace", || {
                expect_success(&home.setup_from_folder().output().unwrap());
                home.working("staging").is_empty() && home.working("wheels").is_empty()
            });
            home.expect_complete();
            fs::remove_dir_all(home.path("home")).unwrap();
        }
        let moment = whole.mul_f64(random.random_range(0.0..1.0));
        println!("kill {round} after {moment:?} of {whole:?}; staging {:?}", home.working("wheels"));
        let mut child = spawn(&mut home.setup_from_folder());
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // What the kills left, the next run makes whole, and it answers.
    let answer = home.run_from_folder("What is the capital of France?").output().unwrap();
    expect_success(&answer);
    assert!(String::from_utf8_lossy(&answer.stdout).contains("Paris"), "{answer:?}");
    home.expect_complete();
    assert_eq!(home.model_folders().len(), 1);
}

#[test]
fn two_at_once_download_once() {
    let home = Home::with_real_pip();
    let children = [(); 2].map(|()| spawn(&mut home.setup_from_folder()));
    let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    outputs.iter().for_each(expect_success);
    home.expect_complete();
    // One for each wheel, by whichever process was first.
    assert_eq!(home.pip_calls(), 2);
    assert!(outputs.iter().any(|output| stderr(output).contains("waiting for another ortalk")));
}
