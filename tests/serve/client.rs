//! HTTP/1.1 by hand, so that a test says every byte that it sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// No answer of these tests takes so long, even on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(240);

pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The message, the parameter and the code of an error, which must have OpenAI's shape.
    pub fn error(&self) -> (String, Option<String>, Option<String>) {
        assert!(self.status >= 400, "{}: {}", self.status, self.text());
        let body = self.json();
        let error = body["error"].as_object().unwrap_or_else(|| panic!("{body}"));
        let names: Vec<&str> = error.keys().map(String::as_str).collect();
        assert_eq!(names, ["message", "type", "param", "code"], "{body}");
        let text = |name: &str| error[name].as_str().map(str::to_owned);
        assert!(text("type").is_some(), "{body}");
        (text("message").unwrap(), text("param"), text("code"))
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A request's bytes. The connection ends with it.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    [text.as_bytes(), b"\r\n", body].concat()
}

pub const JSON: (&str, &str) = ("Content-Type", "application/json");

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    send(address, &request("POST", path, &[JSON], body.to_string().as_bytes()))
}

pub fn get(address: SocketAddr, path: &str) -> Reply {
    send(address, &request("GET", path, &[], b""))
}

pub fn send(address: SocketAddr, bytes: &[u8]) -> Reply {
    try_send(address, bytes).expect("a reply")
}

/// `None` where the connection ended without a whole reply.
pub fn try_send(address: SocketAddr, bytes: &[u8]) -> Option<Reply> {
    let mut stream = connect(address);
    // A server may answer and hang up before it has read all.
    let _ = stream.write_all(bytes);
    let mut opened = Opened::read(stream)?;
    let mut body = Vec::new();
    opened.body.read_to_end(&mut body).ok()?;
    Some(Reply { status: opened.status, headers: opened.headers, body })
}

/// A reply whose head has come.
pub struct Opened {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    body: Body,
}

impl Opened {
    pub fn read(stream: TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ")?;
            headers.push((name.to_owned(), value.to_owned()));
        }
        let is_chunked = find(&headers, "transfer-encoding") == Some("chunked");
        let left = find(&headers, "content-length").and_then(|length| length.parse().ok());
        Some(Self { status, headers, body: Body { reader, is_chunked, left: if is_chunked { Some(0) } else { left } } })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

/// A body as it comes, without its chunks' marks.
struct Body {
    reader: BufReader<TcpStream>,
    is_chunked: bool,
    /// Bytes of the chunk or of the whole that are still to come; `None`: up to the connection's end.
    left: Option<usize>,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.is_chunked && self.left == Some(0) {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                line.clear();
                self.reader.read_line(&mut line)?;
            }
            let invalid = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            let length = usize::from_str_radix(line.trim(), 16).map_err(|_| invalid())?;
            if length == 0 {
                self.is_chunked = false;
                return Ok(0);
            }
            self.left = Some(length);
        }
        let room = self.left.unwrap_or(usize::MAX).min(into.len());
        let read = self.reader.read(&mut into[..room])?;
        if let Some(left) = &mut self.left {
            if read == 0 && *left > 0 && room > 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            *left -= read;
        }
        Ok(read)
    }
}

/// An answer that is streamed.
pub struct Events {
    pub opened: Opened,
    buffer: Vec<u8>,
}

/// One event: its name, where it has one, and its data.
pub type Event = (Option<String>, String);

impl Events {
    pub fn open(address: SocketAddr, path: &str, body: &Value) -> Self {
        let mut stream = connect(address);
        stream.write_all(&request("POST", path, &[JSON], body.to_string().as_bytes())).unwrap();
        let opened = Opened::read(stream).expect("a reply's head");
        if opened.status != 200 {
            let mut opened = opened;
            let mut text = String::new();
            let _ = opened.body.read_to_string(&mut text);
            panic!("{}: {text}", opened.status);
        }
        assert_eq!(opened.header("content-type"), Some("text/event-stream; charset=utf-8"));
        Self { opened, buffer: Vec::new() }
    }

    /// The next event; `None` at the end, an error where the connection broke.
    pub fn next(&mut self) -> std::io::Result<Option<Event>> {
        loop {
            let text = String::from_utf8_lossy(&self.buffer).into_owned();
            if let Some((event, rest)) = text.split_once("\n\n") {
                self.buffer = rest.as_bytes().to_vec();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                match field("data: ") {
                    Some(data) => return Ok(Some((field("event: "), data))),
                    None => continue,
                }
            }
            let mut piece = [0; 4096];
            match self.opened.body.read(&mut piece)? {
                0 => return Ok(None),
                read => self.buffer.extend_from_slice(&piece[..read]),
            }
        }
    }

    /// All of them to the end.
    pub fn all(mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next().unwrap()).collect()
    }

    /// All of them as chunks of completions, without the end's mark, which must be there.
    pub fn chunks(self) -> Vec<Value> {
        let mut all = self.all();
        assert_eq!(all.pop().unwrap().1, "[DONE]");
        all.iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
    }
}

/// The text that the chunks add to one choice's content.
pub fn content(chunks: &[Value], index: u64) -> String {
    let choices = chunks.iter().flat_map(|chunk| chunk["choices"].as_array().unwrap());
    let own = choices.filter(|choice| choice["index"] == index);
    own.filter_map(|choice| choice["delta"]["content"].as_str()).collect()
}
