//! A person with a home folder and a Hub's cache of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::server::{COMMIT, Server};

pub struct User {
    dir: tempfile::TempDir,
    endpoint: String,
}

/// What a test must not see of whoever runs it.
const FOREIGN: [&str; 14] = [
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN_PATH",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "HF_HUB_DISABLE_SYMLINKS",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

impl User {
    pub fn of(server: &Server) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), endpoint: server.address.clone() }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
        command.args(arguments);
        self.at_home(&mut command);
        command
    }

    /// Sets what says where everything is.
    pub fn at_home(&self, command: &mut Command) {
        for name in FOREIGN {
            command.env_remove(name);
        }
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
            .env("HF_ENDPOINT", &self.endpoint)
            .env("HF_HOME", self.path("hf"))
            .env("ORTALK_HOME", self.path("home"));
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The path that `pull` printed; fails with what it said.
    pub fn pull(&self, model: &str) -> PathBuf {
        succeeded(&self.run(&["pull", model]))
    }

    /// What `pull` said when it failed.
    pub fn pull_fails(&self, arguments: &[&str]) -> String {
        failed(&self.command(&["pull"]).args(arguments).output().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn repo(&self, name: &str) -> PathBuf {
        self.path("hf/hub").join(format!("models--{}", name.replace('/', "--")))
    }

    pub fn snapshot(&self, repo: &str) -> PathBuf {
        self.repo(repo).join("snapshots").join(COMMIT)
    }

    /// Names and sizes of a repository's blobs.
    pub fn blobs(&self, repo: &str) -> BTreeMap<String, u64> {
        let entries = fs::read_dir(self.repo(repo).join("blobs")).into_iter().flatten().flatten();
        entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())).collect()
    }

    /// What a person reads, without what differs from run to run.
    pub fn plain(&self, text: &str) -> String {
        text.replace(self.dir.path().to_str().unwrap(), "HOME").replace(&self.endpoint, "http://hub")
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn succeeded(output: &Output) -> PathBuf {
    assert!(output.status.success(), "{}: {}", output.status, stderr(output));
    PathBuf::from(stdout(output).trim_end())
}

/// One message, an exit status that says so, and nothing on standard output.
pub fn failed(output: &Output) -> String {
    let text = stderr(output);
    assert_eq!((output.status.code(), stdout(output).as_str()), (Some(1), ""), "{text}");
    assert_eq!(text.matches("ortalk: ").count(), 1, "{text}");
    text[text.find("ortalk: ").unwrap()..].trim_end().to_string()
}

pub fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
