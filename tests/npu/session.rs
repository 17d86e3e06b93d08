//! Sessions with every node on QNN, or an error that says what is in the way.

use std::fs;
use std::path::Path;

use ortalk::onnx_runtime::{DeviceKind, QNN_PROVIDER, QnnPlugin, placement};

use super::support::{cpu_session, difference, graph, plugin, run_float, run_qdq, runtime, x_elite};

#[test]
fn the_simulator_is_listed_and_not_taken_for_an_npu() {
    runtime().register_qnn(&plugin()).unwrap();
    // To register it again does nothing; another by the same name is refused.
    runtime().register_qnn(&plugin()).unwrap();
    let other = QnnPlugin { library: graph("float"), ..plugin() };
    let error = runtime().register_qnn(&other).unwrap_err().to_string();
    assert!(error.contains("is registered by that name already"), "{error}");

    let device = runtime().qnn_device().unwrap();
    assert!(device.emulated && device.name.starts_with("simulator on"), "{device:?}");
    let listed = runtime().devices();
    let qnn = listed.iter().find(|device| device.execution_provider == QNN_PROVIDER).unwrap();
    assert_eq!((qnn.kind, qnn.library.as_deref()), (DeviceKind::Cpu, Some(plugin().library.as_path())));
}

#[test]
fn all_nodes_are_on_qnn_and_compute_what_the_cpu_does() {
    for (name, nodes) in [("float", 3), ("qdq", 11)] {
        let mut npu = runtime().npu_session(&graph(name), &plugin(), &x_elite()).unwrap();
        assert_eq!(placement(&npu).unwrap().nodes_by_provider, [(QNN_PROVIDER.to_owned(), nodes)]);
        let mut cpu = cpu_session(&graph(name));
        assert_eq!(placement(&cpu).unwrap().nodes_on(QNN_PROVIDER), 0);
        let run = if name == "float" { run_float } else { run_qdq };
        // The float graph is computed with the 11 significant bits of 16-bit floating point.
        let difference = difference(&run(&mut npu), &run(&mut cpu));
        assert!(difference < 0.01, "{name}: {difference}");
    }
}

#[test]
fn an_operator_that_qnn_has_not_is_named_with_qnn_s_reason() {
    let error = runtime().npu_session(&graph("hardmax"), &plugin(), &x_elite()).unwrap_err().to_string();
    assert!(error.contains("1 of its 4 nodes would run elsewhere"), "{error}");
    assert!(error.contains("y/Hardmax (Hardmax) on CPUExecutionProvider"), "{error}");
    assert!(error.contains("QNN says:\n  Operators of type `Hardmax` are not supported"), "{error}");
}

#[test]
fn files_that_are_missing_are_named_before_qnn_answers_on_the_cpu() {
    let none = Path::new("/no/such/libQnnHtp.so");
    let without_backend = QnnPlugin { backend: none.into(), ..plugin() };
    let error = runtime().npu_session(&graph("float"), &without_backend, &x_elite()).unwrap_err().to_string();
    assert!(
        error.starts_with("QNN's backend '/no/such/libQnnHtp.so' cannot be used: there is no such file"),
        "{error}"
    );
    let without_library = QnnPlugin { library: none.into(), ..plugin() };
    let error = runtime().npu_session(&graph("float"), &without_library, &x_elite()).unwrap_err().to_string();
    assert!(error.starts_with("QNN's plug-in '/no/such/libQnnHtp.so'"), "{error}");
    let error = runtime().npu_session(Path::new("none.onnx"), &plugin(), &x_elite()).unwrap_err().to_string();
    assert!(error.contains("none.onnx") && error.contains("cannot be read"), "{error}");
}

/// QNN itself would make a session on the CPU of it.
#[test]
fn a_library_that_is_no_backend_is_refused() {
    let other = QnnPlugin { backend: plugin().backend.with_file_name("libQnnSystem.so"), ..plugin() };
    let error = runtime().npu_session(&graph("float"), &other, &x_elite()).unwrap_err().to_string();
    assert!(error.contains("3 of its 3 nodes would run elsewhere"), "{error}");
    assert!(error.contains("Unable to access symbol: QnnInterface_getProviders"), "{error}");
}

#[test]
fn a_model_for_another_chip_or_a_newer_sdk_or_without_its_binary_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("float.onnx");
    let report = runtime().compile_context(&plugin(), &graph("float"), &path, &x_elite()).unwrap();
    let refused = |options| runtime().npu_session(&path, &plugin(), &options).unwrap_err().to_string();

    let mut other = x_elite();
    other.provider.set("soc_model", "88").unwrap();
    assert!(refused(other).starts_with("soc_model is '88', but the model is compiled for x-elite (soc_model 60)"));
    let mut other = x_elite();
    other.target.as_mut().unwrap().soc_model = 88;
    let error = refused(other);
    assert!(error.contains("it was compiled for soc_model 60, but soc_model is 88 here"), "{error}");

    let wrapper = fs::read(&path).unwrap();
    let at = wrapper.windows(7).position(|text| text == b"v2.51.0").unwrap();
    let mut newer = wrapper.clone();
    newer[at..at + 7].copy_from_slice(b"v2.99.0");
    fs::write(&path, newer).unwrap();
    let error = refused(x_elite());
    assert!(error.contains("compiled with QNN SDK 2.99.0, which is newer than the plug-in's 2.51.0"), "{error}");

    fs::write(&path, wrapper).unwrap();
    let whole = fs::read(&report.binary).unwrap();
    for broken in [&whole[..whole.len() / 2], &whole[..100], &[7; 5000]] {
        fs::write(&report.binary, broken).unwrap();
        let error = refused(x_elite());
        assert!(error.contains("QNN does not take its binary: Failed to load from EpContext model."), "{error}");
        assert!(error.contains("`ortalk build --target npu`"), "{error}");
    }
    fs::remove_file(&report.binary).unwrap();
    let error = refused(x_elite());
    assert!(error.contains("its binary 'float_qnn.bin' is missing"), "{error}");
}
