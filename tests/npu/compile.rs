//! Compiling in a child process: a result that loads and runs, and what is left when the child does not come so far.

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use ortalk::onnx_runtime::{ChildError, CompileError, CompileReport, CompileRequest, compile_in_child};
use rustix::process::{Pid, Signal, kill_process};

use super::support::{
    cpu_session, difference, graph, home, library, ortalk, plugin, run_float, run_qdq, runtime, x_elite,
};

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_ortalk");
const LIMIT: Duration = Duration::from_secs(120);

fn request(name: &str, folder: &Path) -> CompileRequest {
    CompileRequest {
        library: library().into(),
        plugin: plugin(),
        model: graph(name),
        output: folder.join(format!("{name}.onnx")),
        options: x_elite(),
    }
}

fn compile(request: &CompileRequest) -> Result<CompileReport, CompileError> {
    compile_in_child(Path::new(EXECUTABLE), request, LIMIT, &mut |_| ControlFlow::Continue(()))
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_a_child_compiled_loads_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    for (name, nodes) in [("float", 3), ("qdq", 11)] {
        let report = compile(&request(name, dir.path())).unwrap();
        assert_eq!(report.output, dir.path().join(format!("{name}.onnx")));
        assert_eq!(report.binary, dir.path().join(format!("{name}_qnn.bin")));
        let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
        assert_eq!((report.nodes, report.bytes), (nodes, size(&report.output) + size(&report.binary)));

        let mut npu = runtime().npu_session(&report.output, &plugin(), &x_elite()).unwrap();
        let run = if name == "float" { run_float } else { run_qdq };
        let difference = difference(&run(&mut npu), &run(&mut cpu_session(&graph(name))));
        assert!(difference < 0.01, "{name}: {difference}");
    }
    assert_eq!(files(dir.path()), ["float.onnx", "float_qnn.bin", "qdq.onnx", "qdq_qnn.bin"]);
}

#[test]
fn what_is_there_is_replaced_as_a_whole_or_kept() {
    let dir = tempfile::tempdir().unwrap();
    let first = compile(&request("float", dir.path())).unwrap();
    let before = fs::read(&first.output).unwrap();
    let failing = CompileRequest { model: graph("hardmax"), ..request("float", dir.path()) };
    let error = compile(&failing).unwrap_err().to_string();
    assert!(error.contains("hardmax.onnx' could not be compiled for the NPU: "), "{error}");
    assert!(error.contains("y/Hardmax (Hardmax) on CPUExecutionProvider"), "{error}");
    assert_eq!(fs::read(&first.output).unwrap(), before);
    compile(&request("float", dir.path())).unwrap();
    assert_eq!(files(dir.path()), ["float.onnx", "float_qnn.bin"]);
}

/// The one child of this thread.
fn child() -> Pid {
    let text = fs::read_to_string("/proc/thread-self/children").unwrap();
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

#[test]
fn a_child_that_dies_is_told_by_its_signal() {
    for (signal, name) in [(Signal::KILL, "SIGKILL"), (Signal::SEGV, "SIGSEGV")] {
        let dir = tempfile::tempdir().unwrap();
        let kill = &mut |_| {
            let _ = kill_process(child(), signal);
            ControlFlow::Continue(())
        };
        let error = compile_in_child(Path::new(EXECUTABLE), &request("qdq", dir.path()), LIMIT, kill).unwrap_err();
        assert!(matches!(error, CompileError::Child { error: ChildError::Died { .. }, .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(files(dir.path()), [] as [&str; 0]);
    }
}

#[test]
fn a_child_that_takes_too_long_or_is_not_wanted_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut pid = None;
    let note = &mut |_| {
        pid = Some(child());
        ControlFlow::Continue(())
    };
    let request = request("qdq", dir.path());
    let error = compile_in_child(Path::new(EXECUTABLE), &request, Duration::ZERO, note).unwrap_err();
    assert!(matches!(error, CompileError::Child { error: ChildError::TooLong { .. }, .. }), "{error}");
    assert!(rustix::process::test_kill_process(pid.unwrap()).is_err());
    let error = compile_in_child(Path::new(EXECUTABLE), &request, LIMIT, &mut |_| ControlFlow::Break(())).unwrap_err();
    assert!(matches!(error, CompileError::Child { error: ChildError::Stopped, .. }), "{error}");
    assert_eq!(files(dir.path()), [] as [&str; 0]);
}

#[test]
fn a_child_that_is_another_program_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    let ended = compile_in_child(Path::new("/bin/false"), &request("qdq", dir.path()), LIMIT, go_on).unwrap_err();
    assert!(ended.to_string().contains("the child process ended with exit status: 1"), "{ended}");
    let missing =
        compile_in_child(Path::new("/no/such/ortalk"), &request("qdq", dir.path()), LIMIT, go_on).unwrap_err();
    assert!(missing.to_string().contains("'/no/such/ortalk' could not be started: "), "{missing}");
    assert_eq!(files(dir.path()), [] as [&str; 0]);
}

/// A wrong request must not look like a crash without words.
#[test]
fn what_the_child_says_last_is_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = CompileRequest { library: graph("qdq"), ..request("qdq", dir.path()) };
    let error = compile(&wrong).unwrap_err().to_string();
    assert!(error.contains("ONNX Runtime could not be loaded from"), "{error}");
}

/// A parent that is killed cannot end its child: what the child reads from it comes to its end.
#[test]
fn a_child_ends_with_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let request = request("qdq", dir.path());
    let mut child =
        ortalk(&home(), &["worker", "compile"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", serde_json::to_string(&request).unwrap()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(files(dir.path()), [] as [&str; 0]);
}
