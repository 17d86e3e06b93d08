//! Pulls that end well, some of them after a cut or a kill.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::server::{Faults, Server, bytes, etag};
use super::user::{User, read, stderr, succeeded};

const REPO: &str = "some/model-GGUF";

fn gguf() -> Server {
    let small = bytes(900, 3);
    Server::with(REPO, &[("x-Q8_0.gguf", bytes(300_000, 1)), ("x-Q4_0.gguf", bytes(200_000, 2)), ("README.md", small)])
}

fn optimum_files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("config.json", b"{}".to_vec()),
        ("tokenizer.json", bytes(5000, 4)),
        ("onnx/model_q4.onnx", bytes(4000, 5)),
        ("onnx/model_q4.onnx_data", bytes(150_000, 6)),
        ("onnx/model.onnx", bytes(400_000, 7)),
        ("LICENSE", b"free".to_vec()),
        ("pictures/x.png", bytes(2000, 8)),
    ]
}

#[test]
fn a_pull_says_what_it_chose_and_lays_the_files_where_others_have_them() {
    let server = gguf();
    let user = User::of(&server);
    let output = user.run(&["pull", REPO]);
    let path = succeeded(&output);
    assert_eq!(path, user.snapshot(REPO).join("x-Q8_0.gguf"));
    assert_eq!(read(&path), bytes(300_000, 1));
    let said = stderr(&output);
    for words in
        ["some/model-GGUF:Q8_0 (GGUF; the most exact", "1 file, 0.3 MB", "fetched, 0.3 MB", "ortalk -m some/model-GGUF"]
    {
        assert!(said.contains(words), "{said}");
    }
    let name = etag(&bytes(300_000, 1));
    assert_eq!(fs::read_link(&path).unwrap().to_str().unwrap(), format!("../../blobs/{name}"));
    assert_eq!(user.blobs(REPO).into_keys().collect::<Vec<_>>(), [name]);
    assert_eq!(read(&user.repo(REPO).join("refs/main")), super::server::COMMIT.as_bytes());
    // Again asks for the list alone.
    server.asked();
    assert!(stderr(&user.run(&["pull", REPO])).contains("all here already"));
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn every_file_of_a_graph_comes_and_nothing_else() {
    let server = Server::with("some/model-ONNX", &optimum_files());
    let user = User::of(&server);
    let path = user.pull("some/model-ONNX");
    assert_eq!(path, user.snapshot("some/model-ONNX").join("onnx/model_q4.onnx"));
    for (name, expected) in optimum_files() {
        let path = user.snapshot("some/model-ONNX").join(name);
        match name {
            "onnx/model.onnx" | "pictures/x.png" => assert!(!path.exists(), "{name}"),
            _ => assert_eq!(read(&path), expected, "{name}"),
        }
    }
    assert_eq!(user.pull("some/model-ONNX:fp32"), user.snapshot("some/model-ONNX").join("onnx/model.onnx"));
}

#[test]
fn where_links_are_not_to_be_had_files_lie_in_the_snapshot() {
    let server = Server::with("some/model-ONNX", &optimum_files());
    let user = User::of(&server);
    let pull = || user.command(&["pull", "some/model-ONNX"]).env("HF_HUB_DISABLE_SYMLINKS", "1").output().unwrap();
    let path = succeeded(&pull());
    assert!(!path.is_symlink() && user.blobs("some/model-ONNX").is_empty());
    assert_eq!(read(&path), bytes(4000, 5));
    assert!(stderr(&pull()).contains("all here already"));
}

#[test]
fn the_token_goes_to_the_hub_and_to_no_other_host() {
    let server = gguf();
    server.fail(Faults { gated: Some("hf_right"), ..Faults::default() });
    let user = User::of(&server);
    succeeded(&user.command(&["pull", REPO]).env("HF_TOKEN", "hf_right").output().unwrap());
    let asked = server.asked();
    assert!(asked.iter().any(|asked| asked.on_second_host));
    for asked in asked {
        assert_eq!(asked.token.is_some(), !asked.on_second_host, "{asked:?}");
    }
}

#[test]
fn a_mirror_that_lists_names_alone_is_asked_for_the_rest() {
    let server = gguf();
    server.fail(Faults { bare_list: true, ..Faults::default() });
    let user = User::of(&server);
    assert_eq!(read(&user.pull("some/model-GGUF:Q4_0")), bytes(200_000, 2));
    assert!(server.asked().iter().any(|asked| asked.method == "HEAD" && !asked.on_second_host));
}

#[test]
fn a_cut_connection_is_taken_up_where_it_broke() {
    let server = gguf();
    server.fail(Faults { cut: Some((3, 70_000)), ..Faults::default() });
    let user = User::of(&server);
    assert_eq!(read(&user.pull(REPO)), bytes(300_000, 1));
    let from: Vec<usize> = server.asked().iter().filter(|asked| asked.on_second_host).map(|asked| asked.from).collect();
    assert_eq!(from, [0, 70_000, 140_000, 210_000]);
}

#[test]
fn a_server_without_ranges_sends_the_file_anew() {
    let server = gguf();
    server.fail(Faults { cut: Some((1, 70_000)), no_ranges: true, ..Faults::default() });
    let user = User::of(&server);
    assert_eq!(read(&user.pull(REPO)), bytes(300_000, 1));
}

#[test]
fn a_damaged_beginning_is_fetched_again() {
    let server = gguf();
    let user = User::of(&server);
    let part = user.repo(REPO).join("blobs").join(format!("{}.incomplete", etag(&bytes(300_000, 1))));
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    fs::write(&part, vec![0; 100_000]).unwrap();
    assert_eq!(read(&user.pull(REPO)), bytes(300_000, 1));
    assert!(!part.exists());
    // One that is too long is no beginning at all.
    fs::remove_dir_all(user.repo(REPO)).unwrap();
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    fs::write(&part, vec![0; 300_001]).unwrap();
    assert_eq!(read(&user.pull(REPO)), bytes(300_000, 1));
}

#[test]
fn an_overloaded_server_is_waited_for() {
    let server = gguf();
    server.fail(Faults { status: Some(("/", 2, 429, "Retry-After: 1\r\n")), ..Faults::default() });
    let user = User::of(&server);
    let started = Instant::now();
    assert_eq!(read(&user.pull(REPO)), bytes(300_000, 1));
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    server.fail(Faults { status: Some(("/resolve/", 2, 503, "")), ..Faults::default() });
    assert_eq!(read(&user.pull("some/model-GGUF:Q4_0")), bytes(200_000, 2));
}

#[test]
fn a_killed_pull_goes_on_and_ends_with_the_right_bytes() {
    let server = gguf();
    // About a second for the file.
    server.fail(Faults { drip: Some(3000), ..Faults::default() });
    let user = User::of(&server);
    let (mut longest, mut kills) = (0, 0);
    for moment in [40, 130, 290, 370, 610, 90, 450] {
        let mut child = user.command(&["pull", REPO]).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(moment));
        child.kill().unwrap();
        kills += usize::from(child.wait().unwrap().signal() == Some(9));
        // What is in its place is whole, or it is not there.
        let path = user.snapshot(REPO).join("x-Q8_0.gguf");
        assert!(!path.exists() || read(&path) == bytes(300_000, 1));
        // What was fetched is not fetched again.
        let here: u64 = user.blobs(REPO).values().sum();
        assert!(here >= longest, "{here} of {longest}");
        longest = here;
    }
    assert!(kills >= 3, "{kills}");
    assert_eq!(read(&user.pull(REPO)), bytes(300_000, 1));
    assert_eq!(user.blobs(REPO).into_keys().collect::<Vec<_>>(), [etag(&bytes(300_000, 1))]);
}

#[test]
fn a_stopped_pull_says_so_and_keeps_what_it_has() {
    let server = gguf();
    server.fail(Faults { drip: Some(1000), ..Faults::default() });
    let user = User::of(&server);
    let child = user.command(&["pull", REPO]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while user.blobs(REPO).values().sum::<u64>() == 0 {
        assert!(Instant::now() < until, "nothing came");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("what was fetched is kept"), "{}", stderr(&output));
    assert!(user.blobs(REPO).values().sum::<u64>() > 0);
}

#[test]
fn two_pulls_at_once_fetch_a_file_once() {
    let server = gguf();
    server.fail(Faults { drip: Some(5000), ..Faults::default() });
    let user = User::of(&server);
    let start = || {
        user.command(&["pull", REPO])
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
    for output in &both {
        assert_eq!(read(&succeeded(output)), bytes(300_000, 1));
    }
    assert_eq!(server.asked().iter().filter(|asked| asked.on_second_host).count(), 1);
}

#[test]
fn offline_only_what_is_here_is_given() {
    let server = gguf();
    let user = User::of(&server);
    let path = user.pull("some/model-GGUF:Q4_0");
    server.asked();
    let offline = |model: &str| user.command(&["pull", model]).env("HF_HUB_OFFLINE", "1").output().unwrap();
    assert_eq!(succeeded(&offline("some/model-GGUF:Q4_0")), path);
    let said = super::user::failed(&offline("some/model-GGUF:Q8_0"));
    assert!(said.contains("HF_HUB_OFFLINE is set"), "{said}");
    assert_eq!(server.asked(), []);
}
