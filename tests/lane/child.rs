//! A lane in a process of its own: the real binary, ended, halted and fed with what is not right.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ortalk::decoder::{ChildDecoder, ChildOptions, Deadlines, DecodeError, Decoder, LaneProvider, LaneRequest};
use ortalk::onnx_runtime::CPU_PROVIDER;
use pretty_assertions::assert_eq;

use crate::bundle::{CHUNK, CONTEXT, float_with_sink, quantized};
use crate::support::library;

/// Long for what these models need, short for what hangs.
const DEADLINE: Duration = Duration::from_secs(3);

fn options(executable: &Path) -> ChildOptions {
    let deadlines = Deadlines { opening: 20 * DEADLINE, pass: DEADLINE, emulated_pass: DEADLINE };
    ChildOptions { executable: executable.into(), log: Arc::new(|_| ()), deadlines }
}

fn request(folder: &Path) -> LaneRequest {
    LaneRequest { folder: folder.into(), library: library().into(), provider: LaneProvider::Cpu, threads: 1 }
}

fn open(folder: &Path) -> Result<ChildDecoder, DecodeError> {
    ChildDecoder::open(request(folder), options(Path::new(env!("CARGO_BIN_EXE_ortalk"))))
}

#[test]
fn a_child_answers_as_the_decoder_does_here() {
    for built in [float_with_sink(), quantized()] {
        let mut here = built.decoder();
        let mut child = open(&built.folder).unwrap();
        let ready = child.ready().clone();
        assert_eq!((ready.provider.as_str(), ready.device, ready.emulated), (CPU_PROVIDER, None, false));
        assert_eq!(ready.placement, here.placement());
        assert_eq!((child.context_limit(), child.prefill_chunk()), (CONTEXT, CHUNK));
        let tokens = built.tokens(30);
        for (rewind, next) in [(0, 0..20), (20, 20..21), (21, 21..22), (9, 9..15), (0, 0..1), (5, 1..3)] {
            for decoder in [&mut here as &mut dyn Decoder, &mut child] {
                decoder.rewind(rewind);
                // As the child is asked: a chunk at a time.
                tokens[next.clone()].chunks(CHUNK).for_each(|tokens| decoder.forward(tokens).unwrap());
            }
            assert_eq!(child.position(), next.end);
            assert!(child.logits() == here.logits(), "{rewind} {next:?}");
        }
    }
}

#[test]
fn what_does_not_fit_leaves_the_child_alive() {
    let built = float_with_sink();
    let mut child = open(&built.folder).unwrap();
    let tokens = built.tokens(CONTEXT + 1);
    for (wrong, expected) in [
        (&tokens[..], "49 more tokens do not fit"),
        (&tokens[1..3], "starts with token"),
        (&[][..], "no tokens"),
        (&[1, 9999][..], "token 9999"),
    ] {
        let error = child.forward(wrong).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    child.forward(&tokens[..CONTEXT]).unwrap();
    assert_eq!(child.position(), CONTEXT);
}

#[test]
fn what_cannot_be_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.starts_with("the NPU lane failed: '") && error.contains("is no model folder"), "{error}");

    let built = float_with_sink();
    std::fs::write(built.folder.join("decode.onnx"), "no graph").unwrap();
    let error = open(&built.folder).err().unwrap().to_string();
    assert!(error.contains("decode.onnx' failed") || error.contains("could not open"), "{error}");

    let mut no_library = request(&built.folder);
    no_library.library = "/nowhere/libonnxruntime.so".into();
    let executable = Path::new(env!("CARGO_BIN_EXE_ortalk"));
    let error = ChildDecoder::open(no_library, options(executable)).err().unwrap().to_string();
    assert!(error.contains("ONNX Runtime could not be loaded from '/nowhere/"), "{error}");

    let error = ChildDecoder::open(request(&built.folder), options(Path::new("/nowhere/ortalk"))).err().unwrap();
    assert!(error.to_string().contains("'/nowhere/ortalk' could not be started"), "{error}");
}

#[cfg(unix)]
mod signals {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    use interprocess::local_socket::traits::Listener as _;
    use interprocess::local_socket::{GenericNamespaced, ListenerOptions, ToNsName};

    use pretty_assertions::assert_eq;

    use super::*;

    fn signal(name: &str, process: u32) {
        assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
    }

    fn is_running(process: u32) -> bool {
        // A process that ended but was not waited for is still listed, as a zombie.
        let listed = Command::new("ps").args(["-o", "stat=", "-p", &process.to_string()]).output().unwrap();
        let state = String::from_utf8(listed.stdout).unwrap();
        !state.trim().is_empty() && !state.starts_with('Z')
    }

    fn wait_until(what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < 5 * DEADLINE, "{what} did not come to pass");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_crash_is_an_error_that_stays() {
        let built = float_with_sink();
        let tokens = built.tokens(8);
        let mut child = open(&built.folder).unwrap();
        let process = child.process_id();
        child.forward(&tokens[..4]).unwrap();
        signal("ABRT", process);
        wait_until("the crash", || !is_running(process));
        let error = child.forward(&tokens[4..5]).unwrap_err().to_string();
        assert!(error.contains("its process ended with signal: 6 (SIGABRT)"), "{error}");
        assert_eq!(child.position(), 4);
        child.rewind(0);
        assert_eq!(child.forward(&tokens).unwrap_err().to_string(), error);
    }

    #[test]
    fn a_hang_is_ended_at_the_deadline() {
        let built = float_with_sink();
        let mut child = open(&built.folder).unwrap();
        let process = child.process_id();
        child.forward(&built.tokens(4)).unwrap();
        signal("STOP", process);
        let start = Instant::now();
        let error = child.forward(&[7]).unwrap_err().to_string();
        assert!(error.contains("it did not answer within 3s and was ended"), "{error}");
        assert!((DEADLINE..2 * DEADLINE).contains(&start.elapsed()), "{:?}", start.elapsed());
        assert!(!is_running(process));
    }

    #[test]
    fn a_dropped_decoder_ends_its_process() {
        let built = float_with_sink();
        let child = open(&built.folder).unwrap();
        let process = child.process_id();
        let start = Instant::now();
        drop(child);
        assert!(!is_running(process));
        assert!(start.elapsed() < Duration::from_secs(1), "in order, not by force: {:?}", start.elapsed());
        // One that does not listen any more.
        let child = open(&built.folder).unwrap();
        let process = child.process_id();
        signal("STOP", process);
        drop(child);
        assert!(!is_running(process));
    }

    /// A program that stands in for `ortalk`, as no crash of the real one can be had this early.
    fn faulty_program(folder: &Path, script: &str) -> std::path::PathBuf {
        let path = folder.join("faulty-ortalk");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_process_that_ends_before_it_connects_has_the_last_word() {
        let folder = tempfile::tempdir().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = {
            let lines = lines.clone();
            Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
        };
        let program = faulty_program(folder.path(), "echo one; printf 'two\\033[2J\\n' >&2; exit 7");
        let options = ChildOptions { log, ..options(&program) };
        let error = ChildDecoder::open(request(folder.path()), options).err().unwrap().to_string();
        assert!(error.contains("its process ended with exit status: 7; it printed last:\n  one\n  two[2J"), "{error}");
        assert_eq!(*lines.lock().unwrap(), ["npu lane: one", "npu lane: two[2J"]);
    }

    #[test]
    fn a_process_that_never_connects_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let program = faulty_program(folder.path(), "exec sleep 600");
        let deadlines = Deadlines { opening: Duration::from_millis(300), ..Deadlines::default() };
        let options = ChildOptions { deadlines, ..options(&program) };
        let error = ChildDecoder::open(request(folder.path()), options).err().unwrap().to_string();
        assert!(error.contains("it did not answer within 300ms and was ended"), "{error}");
    }

    /// What a parent's death closes, one at a time: the child ends with either.
    #[test]
    fn a_child_without_a_parent_ends() {
        let built = float_with_sink();
        for closes_input in [true, false] {
            let socket = format!("ortalk-test-{}-{closes_input}.sock", std::process::id());
            let name = socket.as_str().to_ns_name::<GenericNamespaced>().unwrap();
            let listener = ListenerOptions::new().name(name).create_sync().unwrap();
            let mut child = Command::new(env!("CARGO_BIN_EXE_ortalk"))
                .args(["worker", "lane"])
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            let invitation =
                serde_json::json!({"socket": socket, "key": "secret", "lane": request(&built.folder)}).to_string();
            writeln!(input, "{invitation}").unwrap();
            let mut stream = listener.accept().unwrap();
            let mut hello = [0; 11];
            stream.read_exact(&mut hello).unwrap();
            assert_eq!(&hello, b"\x10\x06\0\0\0secret");
            let mut kind = [0];
            stream.read_exact(&mut kind).unwrap();
            assert_eq!(kind, [17], "ready");
            let mut closed: (Option<_>, Option<_>) = (Some(input), Some(stream));
            if closes_input {
                closed.0 = None
            } else {
                closed.1 = None
            }
            wait_until("the child's end", || !is_running(child.id()));
            child.wait().unwrap();
        }
    }
}
