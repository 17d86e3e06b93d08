#![allow(clippy::unwrap_used, clippy::expect_used)]
use ortalk::model::*;
use ortalk::onnx_runtime::*;
use std::path::*;
use std::time::Instant;
fn plugin() -> QnnPlugin {
    QnnPlugin::with_backend_beside(Path::new("/tmp/rt/x/onnxruntime_qnn/libonnxruntime_providers_qnn.so"))
}
#[test]
fn explore() {
    let lib = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("home/cache/lib/onnxruntime-1.31.1-linux-x86_64/libonnxruntime.so.1.31.1");
    let rt = OnnxRuntime::load(&lib, std::sync::Arc::new(|l| eprintln!("LOG {l}"))).unwrap();
    let t = Instant::now();
    rt.register_qnn(&plugin()).unwrap();
    eprintln!("register {:?}", t.elapsed());
    eprintln!("{:#?}\n{:?}", rt.devices(), rt.qnn_device());
    let options = NpuOptions {
        target: Some(NpuTarget { soc: "x-elite".into(), soc_model: 60, htp_arch: 73 }),
        ..NpuOptions::default()
    };
    for name in ["float", "qdq", "hardmax"] {
        let t = Instant::now();
        let p = PathBuf::from(format!("tests/fixtures/npu/{name}.onnx"));
        match rt.npu_session(&p, &plugin(), &options) {
            Ok(s) => eprintln!("{name}: {:?} {:?}", placement(&s), t.elapsed()),
            Err(e) => eprintln!("{name}: ERROR {e} {:?}", t.elapsed()),
        }
    }
    let dir = Path::new("/tmp/rt/out");
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).unwrap();
    for name in ["float", "qdq"] {
        let t = Instant::now();
        let p = PathBuf::from(format!("tests/fixtures/npu/{name}.onnx"));
        let out = dir.join(format!("{name}_ctx.onnx"));
        eprintln!("{:?} {:?}", rt.compile_context(&plugin(), &p, &out, &options), t.elapsed());
        let s = rt.npu_session(&out, &plugin(), &options);
        eprintln!("{:?}", s.map(|s| placement(&s)));
    }
}
