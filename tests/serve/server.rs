//! A running `ortalk serve`, on a port of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{Reply, get};

/// For a first start, which fetches what is needed.
const START: Duration = Duration::from_secs(600);

pub struct Server {
    pub address: SocketAddr,
    child: Mutex<Child>,
    printed: Arc<Mutex<Vec<String>>>,
}

/// The real binary with the tests' folder, and nothing of the caller's settings.
pub fn ortalk(arguments: &[&str]) -> Command {
    let home: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
    command.args(arguments).env("ORTALK_HOME", home).env_remove("ORT_DYLIB_PATH").env_remove("ORTALK_API_KEY");
    command.stdin(Stdio::null());
    command
}

impl Server {
    /// The port is a free one unless the arguments name another.
    pub fn start(arguments: &[&str]) -> Self {
        let port: &[&str] = if arguments.contains(&"--port") { &[] } else { &["--port", "0"] };
        Self::start_command(ortalk(&["serve"]).args(port).args(arguments))
    }

    pub fn start_command(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let printed = Arc::<Mutex<Vec<String>>>::default();
        let (tell, told) = mpsc::channel();
        let kept = printed.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once(" answers at http://") {
                    let _ = tell.send(address.parse().unwrap());
                }
                kept.lock().unwrap().push(line);
            }
        });
        let Ok(address) = told.recv_timeout(START) else {
            let _ = child.kill();
            panic!("the server did not start: {:?}", printed.lock().unwrap());
        };
        Self { address, child: Mutex::new(child), printed }
    }

    /// One that tests share which leave it as it was. It ends with the last of them.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(&[]));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// What it printed on standard error so far.
    pub fn printed(&self) -> String {
        self.printed.lock().unwrap().join("\n")
    }

    #[cfg(unix)]
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child.lock().unwrap());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// How it ended, where it did so in time.
    pub fn ended_within(&self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.lock().unwrap().try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn metrics(&self) -> String {
        let reply = get(self.address, "/metrics");
        assert_eq!(reply.status, 200);
        reply.text()
    }

    /// The sum of a metric's samples whose labels are these.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        sum(&self.metrics(), name, labels)
    }

    /// Waits until no answer runs or waits.
    pub fn becomes_idle(&self, patience: Duration) -> bool {
        self.becomes(patience, |page| {
            sum(page, "ortalk_answers_running", &[]) + sum(page, "ortalk_queue_length", &[]) == 0.0
        })
    }

    /// Waits until no connection is open but the one that asks.
    pub fn closes_connections(&self, patience: Duration) -> bool {
        self.becomes(patience, |page| sum(page, "ortalk_connections", &[]) == 1.0)
    }

    fn becomes(&self, patience: Duration, wanted: impl Fn(&str) -> bool) -> bool {
        let until = Instant::now() + patience;
        loop {
            if wanted(&self.metrics()) {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// That it still answers.
    pub fn answers(&self) -> Value {
        let reply = self.ask("/v1/chat/completions", &capital());
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    pub fn ask(&self, path: &str, body: &Value) -> Reply {
        super::client::post(self.address, path, body)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A question whose answer is short and always the same.
pub fn capital() -> Value {
    serde_json::json!({
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "temperature": 0,
    })
}

/// One whose answer is long.
pub fn long_story() -> Value {
    serde_json::json!({
        "messages": [{"role": "user", "content": "Tell me a very long story about a river."}],
        "temperature": 0,
        "max_tokens": 4000,
        "stream": true,
        "repetition_penalty": 1.2,
    })
}

pub fn sum(page: &str, name: &str, labels: &[&str]) -> f64 {
    let of_metric = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    };
    let samples = page.lines().filter(of_metric);
    samples.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}
