//! A stand-in for the Hub: it speaks the Hub's protocol, with a second host that large files are redirected to, and fails in
//! chosen ways.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Files of at least so many bytes are kept as large ones are.
const LARGE: usize = 1000;

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What goes wrong.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// So many answers end after so many bytes of their bodies.
    pub cut: Option<(usize, usize)>,
    /// So many bodies have one wrong byte.
    pub damaged: usize,
    /// Answers to addresses with this in them, so many times: status and headers.
    pub status: Option<(&'static str, usize, u16, &'static str)>,
    /// The list of files is this text.
    pub list: Option<String>,
    /// Extra entries of the list: name and size.
    pub listed: Vec<(String, u64)>,
    /// The list has names alone, as some mirrors' have.
    pub bare_list: bool,
    /// Large files lead around in a circle.
    pub circle: bool,
    /// Bodies begin, and then nothing comes.
    pub silent: bool,
    /// Bodies come by so many bytes at a time, with a pause of ten milliseconds.
    pub drip: Option<usize>,
    /// `Range` is not honoured.
    pub no_ranges: bool,
    /// Only this token may read files: 401 without one, 403 with another.
    pub gated: Option<&'static str>,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub on_second_host: bool,
    pub from: usize,
    pub token: Option<String>,
}

#[derive(Default)]
struct State {
    /// Repository to path to bytes.
    repos: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    faults: Faults,
    asked: Vec<Asked>,
}

pub struct Server {
    state: Arc<Mutex<State>>,
    pub address: String,
}

impl Server {
    pub fn start() -> Self {
        let (hub, store) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = format!("http://{}", hub.local_addr().unwrap());
        let second = format!("http://{}", store.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        for (listener, is_second) in [(hub, false), (store, true)] {
            let (state, second) = (state.clone(), second.clone());
            std::thread::spawn(move || {
                for connection in listener.incoming().flatten() {
                    let (state, second) = (state.clone(), second.clone());
                    // A client that goes away is no fault here.
                    std::thread::spawn(move || drop(serve(connection, &state, &second, is_second)));
                }
            });
        }
        Self { state, address }
    }

    pub fn with(repo: &str, files: &[(&str, Vec<u8>)]) -> Self {
        let server = Self::start();
        server.add(repo, files);
        server
    }

    pub fn add(&self, repo: &str, files: &[(&str, Vec<u8>)]) {
        let files = files.iter().map(|(path, bytes)| (path.to_string(), bytes.clone())).collect();
        self.state.lock().unwrap().repos.insert(repo.to_string(), files);
    }

    pub fn fail(&self, faults: Faults) {
        self.state.lock().unwrap().faults = faults;
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }
}

/// Bytes that look like no others, the same every time.
pub fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// The name that the Hub gives a file's bytes.
pub fn etag(bytes: &[u8]) -> String {
    let hex = |digest: &[u8]| {
        digest.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    };
    if bytes.len() >= LARGE {
        hex(&Sha256::digest(bytes))
    } else {
        let mut hash = Sha1::new();
        hash.update(format!("blob {}\0", bytes.len()));
        hash.update(bytes);
        hex(&hash.finalize())
    }
}

fn serve(connection: TcpStream, state: &Mutex<State>, second: &str, is_second: bool) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default().to_string(), words.next().unwrap_or_default().to_string());
    let (mut from, mut token) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "range" => from = value.trim().trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap(),
            "authorization" => token = Some(value.trim().trim_start_matches("Bearer ").to_string()),
            _ => {}
        }
    }
    let asked = Asked { method, path, on_second_host: is_second, from, token };
    let answer = {
        let mut state = state.lock().unwrap();
        state.asked.push(asked.clone());
        answer(&mut state, &asked, second)
    };
    answer.send(connection, asked.method == "HEAD")
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    cut: Option<usize>,
    silent: bool,
    drip: Option<usize>,
}

impl Answer {
    fn new(status: u16, headers: &str, body: Vec<u8>) -> Self {
        Self { status, headers: headers.to_string(), body, cut: None, silent: false, drip: None }
    }

    fn send(self, mut to: TcpStream, header_only: bool) -> std::io::Result<()> {
        let Self { status, headers, body, .. } = &self;
        let head =
            format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n", body.len());
        to.write_all(head.as_bytes())?;
        if header_only {
            return Ok(());
        }
        let end = self.cut.unwrap_or(body.len()).min(body.len());
        if self.silent {
            to.write_all(&body[..end / 2])?;
            std::thread::sleep(Duration::from_secs(30));
            return Ok(());
        }
        for chunk in body[..end].chunks(self.drip.unwrap_or(usize::MAX)) {
            to.write_all(chunk)?;
            if self.drip.is_some() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }
}

fn answer(state: &mut State, asked: &Asked, second: &str) -> Answer {
    let State { repos, faults, .. } = state;
    if let Some((part, times, status, headers)) = &mut faults.status
        && asked.path.contains(*part)
        && *times > 0
    {
        *times -= 1;
        return Answer::new(*status, headers, b"<html>an error page</html>".to_vec());
    }
    let path = asked.path.split('?').next().unwrap();
    if asked.on_second_host {
        let mut files = repos.values().flat_map(BTreeMap::values);
        let file = files.find(|file| path.trim_start_matches("/store/") == etag(file)).unwrap().clone();
        return body(faults, file, asked.from, "");
    }
    if let Some(rest) = path.strip_prefix("/api/models/") {
        if let Some(text) = &faults.list {
            return Answer::new(200, "", text.clone().into_bytes());
        }
        let (repo, revision) = rest.split_once("/revision/").unwrap();
        let Some(files) = repos.get(repo) else { return missing("RepoNotFound") };
        if revision != "main" && revision != COMMIT {
            return missing("RevisionNotFound");
        }
        return Answer::new(200, "", list(files, faults).to_string().into_bytes());
    }
    let Some((repo, rest)) = path.trim_start_matches('/').split_once("/resolve/") else {
        return missing("RepoNotFound");
    };
    let (_, file) = rest.split_once('/').unwrap();
    match (faults.gated, &asked.token) {
        (Some(wanted), Some(token)) if token == wanted => {}
        (Some(_), None) => return Answer::new(401, "X-Error-Code: GatedRepo\r\n", Vec::new()),
        (Some(_), Some(_)) => return Answer::new(403, "X-Error-Code: GatedRepo\r\n", Vec::new()),
        (None, _) => {}
    }
    let Some(bytes) = repos.get(repo).and_then(|files| files.get(file)).cloned() else {
        return missing("EntryNotFound");
    };
    let common = format!("X-Repo-Commit: {COMMIT}\r\n");
    if bytes.len() < LARGE {
        return body(faults, bytes.clone(), asked.from, &format!("{common}ETag: \"{}\"\r\n", etag(&bytes)));
    }
    let target = if faults.circle { asked.path.clone() } else { format!("{second}/store/{}", etag(&bytes)) };
    let linked =
        format!("X-Linked-Size: {}\r\nX-Linked-Etag: \"{}\"\r\nLocation: {target}\r\n", bytes.len(), etag(&bytes));
    Answer::new(302, &format!("{common}{linked}"), Vec::new())
}

fn list(files: &BTreeMap<String, Vec<u8>>, faults: &Faults) -> Value {
    let entry = |(path, bytes): (&String, &Vec<u8>)| {
        let mut entry = json!({"rfilename": path});
        if !faults.bare_list {
            entry["size"] = json!(bytes.len());
            entry["blobId"] = json!("0".repeat(40));
            if bytes.len() >= LARGE {
                entry["lfs"] = json!({"sha256": etag(bytes), "size": bytes.len(), "pointerSize": 130});
            } else {
                entry["blobId"] = json!(etag(bytes));
            }
        }
        entry
    };
    let mut siblings: Vec<Value> = files.iter().map(entry).collect();
    siblings.extend(faults.listed.iter().map(|(path, size)| {
        json!({"rfilename": path, "size": size, "blobId": "0".repeat(40), "lfs": {"sha256": "0".repeat(64), "size": size}})
    }));
    json!({"id": "a/b", "sha": COMMIT, "private": false, "siblings": siblings})
}

fn body(faults: &mut Faults, mut bytes: Vec<u8>, from: usize, headers: &str) -> Answer {
    let total = bytes.len();
    let partial = from > 0 && !faults.no_ranges;
    if partial && from >= total {
        return Answer::new(416, &format!("Content-Range: bytes */{total}\r\n"), Vec::new());
    }
    if faults.damaged > 0 && total >= LARGE {
        faults.damaged -= 1;
        bytes[total / 2] ^= 1;
    }
    let mut answer = if partial {
        let range = format!("Content-Range: bytes {from}-{}/{total}\r\n", total - 1);
        Answer::new(206, &format!("{headers}{range}"), bytes[from..].to_vec())
    } else {
        Answer::new(200, headers, bytes)
    };
    if let Some((times, after)) = &mut faults.cut
        && *times > 0
        && total >= LARGE
    {
        *times -= 1;
        answer.cut = Some(*after);
    }
    answer.silent = faults.silent && total >= LARGE;
    answer.drip = faults.drip;
    answer
}

fn missing(code: &str) -> Answer {
    // Whom the Hub does not know, it does not tell that a repository is missing.
    let status = if code == "RepoNotFound" { 401 } else { 404 };
    Answer::new(status, &format!("X-Error-Code: {code}\r\n"), Vec::new())
}
