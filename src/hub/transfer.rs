//! One exchange with a server, on a thread of its own, so that whoever waits for it can be stopped and can say how it stands.
//!
//! Redirects are followed here: the access token goes to the host that was asked, and to no other.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use ureq::http::Uri;
use ureq::{Agent, Body};

use super::error::Fault;
use super::progress::Meter;
use super::settings::{HubSettings, Token};
use crate::http::{self, Head};

/// More are no way to a file.
const MOST_REDIRECTS: usize = 10;

const CHUNK: usize = 1 << 16;

/// Chunks that may wait to be written.
const QUEUE: usize = 16;

/// How often a waiting person hears how it stands.
const TICK: Duration = Duration::from_millis(100);

/// Standing still for so long is worth a word.
const WORTH_A_WORD: Duration = Duration::from_secs(3);

/// A sender that is slower than this is as good as silent, in bytes a second.
const SLOWEST: u64 = 500;

/// What is asked of a server.
#[derive(Debug, Clone)]
pub struct Request {
    pub url: String,
    pub token: Option<Token>,
    /// Bytes of the file that are here already.
    pub from: u64,
    /// Only the header, and the first that another host would be asked after.
    pub header_only: bool,
}

/// Why an exchange came to nothing.
#[derive(Debug)]
pub enum Trouble {
    /// It may go better next time; the text says what happened.
    Passing(String),
    /// The server asks to be left alone for a while; the fault is for who does not wait.
    Busy {
        fault: Fault,
        wait: Option<Duration>,
    },
    Lasting(Fault),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Lasting(fault)
    }
}

enum Event {
    Head(Head),
    Bytes(Vec<u8>),
    End,
    Failed(Trouble),
}

/// What the thread that asks has to know; cheap to clone.
pub fn agent(settings: &HubSettings) -> Agent {
    http::agent(settings.silence)
        .timeout_recv_response(Some(settings.silence * 3))
        .timeout_per_read(Some(settings.silence))
        .build()
        .new_agent()
}

/// Gets an answer's bytes as they come.
pub type Take<'f> = &'f mut dyn FnMut(&[u8], &mut Meter<'_>) -> Result<(), Fault>;

/// Runs one exchange; `take` gets the bytes of an answer that `accept` did not refuse.
pub fn exchange(
    agent: &Agent,
    request: Request,
    silence: Duration,
    meter: &mut Meter<'_>,
    accept: &mut dyn FnMut(&Head) -> Result<(), Trouble>,
    take: Take<'_>,
) -> Result<Head, Trouble> {
    let events = start(agent.clone(), request)?;
    let mut head = None;
    let (mut heard, mut window, mut in_window) = (Instant::now(), Instant::now(), 0);
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Head(found)) => {
                accept(&found)?;
                head = Some(found);
                (heard, window) = (Instant::now(), Instant::now());
            }
            Ok(Event::Bytes(bytes)) => {
                take(&bytes, meter)?;
                heard = Instant::now();
                in_window += bytes.len() as u64;
            }
            Ok(Event::End) => return head.ok_or_else(|| Trouble::Passing("no answer".into())),
            Ok(Event::Failed(trouble)) => return Err(trouble),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Trouble::Passing("no answer".into())),
        }
        let waited = heard.elapsed();
        let note = (waited >= WORTH_A_WORD).then(|| format!("no data for {} s", waited.as_secs()));
        meter.tick(note)?;
        let period = silence * 6;
        if window.elapsed() >= period {
            if head.is_some() && in_window < SLOWEST * period.as_secs() {
                return Err(Trouble::Passing(format!("only {in_window} bytes in {} s", period.as_secs())));
            }
            (window, in_window) = (Instant::now(), 0);
        }
    }
}

fn start(agent: Agent, request: Request) -> Result<Receiver<Event>, Trouble> {
    let (sender, receiver) = sync_channel(QUEUE);
    // It ends by itself when nobody listens any more, at the latest when the server has been silent long enough.
    let run = move || {
        let last = match answer(&agent, request) {
            Ok((head, body)) => match pass_on(head, body, &sender) {
                Ok(last) => last,
                Err(NobodyListens) => return,
            },
            Err(trouble) => Event::Failed(trouble),
        };
        let _ = sender.send(last);
    };
    let started = std::thread::Builder::new().name("transfer".into()).spawn(run);
    started.map_err(|error| Trouble::Passing(format!("no thread could be started: {error}")))?;
    Ok(receiver)
}

struct NobodyListens;

fn pass_on(head: Head, body: Body, sender: &SyncSender<Event>) -> Result<Event, NobodyListens> {
    let send = |event| sender.send(event).map_err(|_| NobodyListens);
    send(Event::Head(head))?;
    let mut reader = body.into_reader();
    let mut chunk = vec![0; CHUNK];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(Event::End),
            Ok(n) => send(Event::Bytes(chunk[..n].to_vec()))?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Event::Failed(Trouble::Passing(error.to_string()))),
        }
    }
}

fn answer(agent: &Agent, request: Request) -> Result<(Head, Body), Trouble> {
    let Request { url: first, mut token, from, header_only } = request;
    let mut url = parse(&first, &first)?;
    for _ in 0..=MOST_REDIRECTS {
        let mut message = if header_only { agent.head(&url) } else { agent.get(&url) };
        if let Some(token) = &token {
            message = message.header("Authorization", format!("Bearer {}", token.secret()));
        }
        if from > 0 {
            message = message.header("Range", format!("bytes={from}-"));
        }
        let (parts, body) = message.call().map_err(|error| Trouble::Passing(error.to_string()))?.into_parts();
        let head = Head::from(parts);
        let Some(target) = head.header("Location").filter(|_| matches!(head.status, 301..=303 | 307 | 308)) else {
            return Ok((head, body));
        };
        let next = follow(&url, target)?;
        let elsewhere = origin(&url) != origin(&next);
        if elsewhere && header_only {
            return Ok((head, body));
        }
        if elsewhere {
            token = None;
        }
        url = next;
    }
    Err(Fault::RedirectLoop { url: first }.into())
}

fn parse(text: &str, from: &str) -> Result<Uri, Fault> {
    let problem = "which is no address";
    text.parse()
        .ok()
        .filter(|uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
        .ok_or_else(|| Fault::BadRedirect { url: from.to_string(), target: text.to_string(), problem })
}

/// Where a redirect leads. An address without a host is on the host that was asked.
fn follow(url: &Uri, target: &str) -> Result<Uri, Fault> {
    let (scheme, host) = (url.scheme_str().unwrap_or("https"), url.authority().map_or("", |host| host.as_str()));
    let full = if target.contains("://") {
        target.to_string()
    } else if target.starts_with("//") {
        format!("{scheme}:{target}")
    } else if target.starts_with('/') {
        format!("{scheme}://{host}{target}")
    } else {
        let folder = url.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{host}{folder}/{target}")
    };
    let next = parse(&full, &url.to_string())?;
    if scheme == "https" && next.scheme_str() != Some("https") {
        let problem = "which is not encrypted";
        return Err(Fault::BadRedirect { url: url.to_string(), target: target.to_string(), problem });
    }
    Ok(next)
}

/// Scheme, host and port: who gets to see what is sent.
fn origin(url: &Uri) -> (Option<&str>, Option<String>, Option<u16>) {
    let scheme = url.scheme_str();
    let default = if scheme == Some("https") { 443 } else { 80 };
    (scheme, url.host().map(str::to_ascii_lowercase), url.port_u16().or(Some(default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_followed_as_browsers_do() {
        let url: Uri = "https://hub.example/a/b/resolve/main/x.bin?y=1".parse().unwrap();
        for (target, expected) in [
            ("https://cdn.example/x?sig=1", "https://cdn.example/x?sig=1"),
            ("//cdn.example/x", "https://cdn.example/x"),
            ("/api/x", "https://hub.example/api/x"),
            ("z.bin", "https://hub.example/a/b/resolve/main/z.bin"),
        ] {
            assert_eq!(follow(&url, target).unwrap().to_string(), expected);
        }
        for bad in ["http://hub.example/x", "ftp://x/y", "file:///etc/passwd", "https://", "https://a b/"] {
            assert!(follow(&url, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn another_port_is_another_host() {
        let same = |a: &str, b: &str| origin(&a.parse().unwrap()) == origin(&b.parse().unwrap());
        assert!(same("https://h/x", "https://H:443/y"));
        assert!(!same("https://h/x", "https://h:444/x"));
        assert!(!same("http://h/x", "https://h/x"));
        assert!(!same("https://h/x", "https://h.evil/x"));
    }
}
