//! A stand-in for a server that speaks OpenAI's interface: it answers with given pieces, and fails in chosen ways.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The pieces of an answer without a fault.
pub const PIECES: [&str; 5] = ["The ", "capital ", "is ", "Paris", "."];

/// What the answers to `/v1/chat/completions` are.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// These pieces, then the counts where `usage` says so.
    Answer { pieces: Vec<String>, usage: bool },
    /// The connection ends after so many pieces.
    Cut(usize),
    /// Nothing more comes after so many pieces, the head included where it is none.
    Silent(usize),
    /// No answer at all: status, headers and body.
    Status(u16, String, String),
    /// An error in place of the piece with this number.
    Reported(usize),
    /// The body of a stream that is this text, ended properly.
    Text(String),
    /// This text, as JSON.
    Json(String),
    /// Fields that are refused by name, as servers do that do not know them.
    Refuses(Vec<String>),
}

impl Behaviour {
    pub fn good() -> Self {
        Self::pieces(&PIECES)
    }

    pub fn pieces(pieces: &[&str]) -> Self {
        Self::Answer { pieces: pieces.iter().map(|piece| piece.to_string()).collect(), usage: true }
    }
}

#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub key: Option<String>,
    pub body: Value,
}

struct State {
    behaviour: Behaviour,
    /// From the second chat on.
    next: Option<Behaviour>,
    models: String,
    pause: Duration,
    asked: Vec<Asked>,
    connections: usize,
    /// When a client went away in the middle of an answer.
    left: Option<Instant>,
}

pub struct Server {
    state: Arc<Mutex<State>>,
    pub address: String,
}

impl Server {
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let models = json!({"object": "list", "data": [{"id": "far-model", "object": "model", "owned_by": "tests",
            "max_model_len": 4096}]});
        let state = State {
            behaviour,
            next: None,
            models: models.to_string(),
            pause: Duration::from_millis(2),
            asked: Vec::new(),
            connections: 0,
            left: None,
        };
        let state = Arc::new(Mutex::new(state));
        std::thread::spawn({
            let state = state.clone();
            move || {
                for connection in listener.incoming().flatten() {
                    state.lock().unwrap().connections += 1;
                    let state = state.clone();
                    // A client that goes away is no fault here.
                    std::thread::spawn(move || drop(serve(connection, &state)));
                }
            }
        });
        Self { state, address }
    }

    pub fn become_(&self, behaviour: Behaviour) {
        self.state.lock().unwrap().behaviour = behaviour;
    }

    /// After the next chat.
    pub fn then(&self, behaviour: Behaviour) {
        self.state.lock().unwrap().next = Some(behaviour);
    }

    /// Between two pieces.
    pub fn pause(&self, pause: Duration) {
        self.state.lock().unwrap().pause = pause;
    }

    pub fn models(&self, json: &str) {
        self.state.lock().unwrap().models = json.to_owned();
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }

    /// The chats among them.
    pub fn chats(&self) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.path == "/v1/chat/completions").collect()
    }

    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    pub fn left(&self) -> Option<Instant> {
        self.state.lock().unwrap().left
    }
}

fn serve(connection: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    loop {
        let Some(asked) = read(&mut reader)? else { return Ok(()) };
        let (behaviour, models, pause) = {
            let mut state = state.lock().unwrap();
            state.asked.push(asked.clone());
            let now = (state.behaviour.clone(), state.models.clone(), state.pause);
            if asked.path == "/v1/chat/completions" {
                state.behaviour = state.next.take().unwrap_or(now.0.clone());
            }
            now
        };
        match asked.path.as_str() {
            "/v1/models" => whole(&connection, 200, "", &models)?,
            "/v1/chat/completions" => {
                let mut answer = Answer { connection: &connection, state, pause };
                if !answer.give(behaviour, &asked.body)? {
                    return Ok(());
                }
            }
            _ => whole(&connection, 404, "", r#"{"error": {"message": "no such path"}}"#)?,
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let (mut length, mut key) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "authorization" => key = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Asked { path, key, body: serde_json::from_slice(&body).unwrap_or_default() }))
}

fn whole(mut to: &TcpStream, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let kind =
        if headers.to_ascii_lowercase().contains("content-type") { "" } else { "Content-Type: application/json\r\n" };
    to.write_all(format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n{kind}{headers}\r\n{body}").as_bytes())
}

struct Answer<'a> {
    connection: &'a TcpStream,
    state: &'a Mutex<State>,
    pause: Duration,
}

impl Answer<'_> {
    /// False where the connection is of no use any more.
    fn give(&mut self, behaviour: Behaviour, asked: &Value) -> std::io::Result<bool> {
        match behaviour {
            Behaviour::Answer { pieces, usage } => {
                self.head()?;
                self.pieces(&pieces)?;
                self.finish(&pieces, usage)?;
            }
            Behaviour::Cut(after) => {
                self.head()?;
                self.pieces(&PIECES[..after].map_owned())?;
                return Ok(false);
            }
            Behaviour::Silent(after) => {
                if after > 0 {
                    self.head()?;
                    self.pieces(&PIECES[..after].map_owned())?;
                }
                self.wait_for_the_end();
                return Ok(false);
            }
            Behaviour::Status(status, headers, body) => whole(self.connection, status, &headers, &body)?,
            Behaviour::Reported(after) => {
                self.head()?;
                self.pieces(&PIECES[..after].map_owned())?;
                self.event(&json!({"error": {"message": "out of memory", "type": "server_error"}}).to_string())?;
                self.chunk("")?;
            }
            Behaviour::Text(text) => {
                self.head()?;
                self.chunk(&text)?;
                self.chunk("")?;
            }
            Behaviour::Json(text) => whole(self.connection, 200, "", &text)?,
            Behaviour::Refuses(fields) => match fields.iter().find(|field| asked.get(field.as_str()).is_some()) {
                Some(field) => {
                    let error = json!({"error": {"message": format!("unsupported: '{field}'"), "param": field}});
                    whole(self.connection, 400, "", &error.to_string())?;
                }
                None => return self.give(Behaviour::good(), asked),
            },
        }
        Ok(true)
    }

    fn head(&mut self) -> std::io::Result<()> {
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
        self.write(head)
    }

    fn pieces(&mut self, pieces: &[String]) -> std::io::Result<()> {
        self.event(&json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}).to_string())?;
        for piece in pieces {
            std::thread::sleep(self.pause);
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": null}]});
            self.event(&chunk.to_string())?;
        }
        Ok(())
    }

    fn finish(&mut self, pieces: &[String], usage: bool) -> std::io::Result<()> {
        self.event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).to_string())?;
        if usage {
            let usage = json!({"prompt_tokens": 20, "completion_tokens": pieces.len() + 2});
            self.event(&json!({"choices": [], "usage": usage}).to_string())?;
        }
        self.event("[DONE]")?;
        self.chunk("")
    }

    fn event(&mut self, data: &str) -> std::io::Result<()> {
        self.chunk(&format!("data: {data}\n\n"))
    }

    /// Of HTTP's chunked encoding; an empty one ends the body.
    fn chunk(&mut self, text: &str) -> std::io::Result<()> {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len()))
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.connection.write_all(text.as_bytes()).inspect_err(|_| self.note_end())
    }

    fn wait_for_the_end(&mut self) {
        while matches!(self.connection.read(&mut [0; 64]), Ok(1..)) {}
        self.note_end();
    }

    fn note_end(&self) {
        self.state.lock().unwrap().left.get_or_insert_with(Instant::now);
    }
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|piece| piece.to_string()).collect()
    }
}
