//! The first two layers of the default model, and the bundle that `ortalk build` makes of them: nonsense for text, but real
//! tokens and real graphs, in the time of a small model. Built once for all tests, and again when `ortalk` has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use ortalk::builder::{self, BuildOptions};
use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
use ortalk::paths::Paths;
use ortalk::provision;

use crate::support::{home, library, ortalk, plugin};
use crate::truncated;

pub const LAYERS: u32 = 2;

pub struct TwoLayers {
    /// The GGUF file.
    pub source: PathBuf,
    /// Compiled for the NPU.
    pub bundle: PathBuf,
    /// What the build's stages left for each other: bundles by the names `float` and `quantized`.
    pub work: PathBuf,
    /// What the build said before it was stopped behind its first stage, and after that.
    pub said: [String; 2],
}

/// The first layers of the default model, as `two-layers.gguf` in a folder.
pub fn write_source(folder: &Path) -> PathBuf {
    let mut display = FetchDisplay::new(AfterFetch::Exit);
    let paths = Paths::below(&home());
    let whole = provision::ensure_default_model_source(&paths, &mut |progress| display.report(progress)).unwrap().path;
    let path = folder.join("two-layers.gguf");
    truncated::write(&whole, LAYERS, &path);
    path
}

/// `ortalk build two-layers.gguf` in its folder, for the NPU.
pub fn build(folder: &Path, arguments: &[&str]) -> Output {
    // What the program finds in its folders it does not fetch, so that only the build takes time.
    library();
    plugin();
    let all = [&["build", "two-layers.gguf", "--target", "npu", "--soc", "x-elite"], arguments].concat();
    ortalk(&home(), &all).current_dir(folder).output().unwrap()
}

/// What a build says that ends well.
pub fn built(folder: &Path, arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = build(folder, arguments);
    let text = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{arguments:?}: {text}");
    text
}

pub fn two_layers() -> &'static TwoLayers {
    static BUILT: OnceLock<TwoLayers> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two-layers");
        let (built_by, executable) = (folder.join("built-by"), executable());
        if fs::read_to_string(&built_by).ok().as_ref() != Some(&executable) {
            make(&folder);
            fs::write(&built_by, executable).unwrap();
        }
        let source = folder.join("two-layers.gguf");
        // For the CPU lane: what is in the cache is not built, and not talked about, while a test listens.
        let models = Paths::below(&home()).models();
        builder::cached(&source, &models, &BuildOptions::default(), &mut |_| ()).unwrap();
        TwoLayers {
            source,
            bundle: folder.join("bundle"),
            work: folder.join(".bundle.work"),
            said: ["stopped.log", "built.log"].map(|log| fs::read_to_string(folder.join(log)).unwrap()),
        }
    })
}

/// Which `ortalk` it is.
fn executable() -> String {
    let found = fs::metadata(env!("CARGO_BIN_EXE_ortalk")).unwrap();
    let age = found.modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    format!("{} bytes of {age:?}", found.len())
}

fn make(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    let source = write_source(folder);
    // ortalk tells files apart by their age, too, and would build the same model for its CPU lane once more.
    fs::File::options().write(true).open(source).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let stopped = built(folder, &["--output", "bundle", "--stop-after", "export"]);
    assert!(!folder.join("bundle").exists() && folder.join(".bundle.work/float/prefill.onnx").is_file());
    fs::write(folder.join("stopped.log"), stopped).unwrap();
    fs::write(folder.join("built.log"), built(folder, &["--output", "bundle", "--keep"])).unwrap();
}
