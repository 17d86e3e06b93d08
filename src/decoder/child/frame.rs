//! What goes over the socket between ortalk and the process of a lane: a byte for the kind, the length of the body as a
//! little-endian u32, the body. Whatever else arrives is an error, never trusted: the other side may have crashed.

use std::io::{self, ErrorKind, Read, Write};

/// To the lane's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Forget all tokens from `position` on, append these, and reply with the logits after the last one.
    Forward { position: u32, tokens: Vec<u32> },
    /// End in order.
    Close,
}

/// From the lane's process.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The first frame: shows that this is the process that was started.
    Hello(Vec<u8>),
    /// `LaneReady` as JSON.
    Ready(Vec<u8>),
    Logits(Vec<f32>),
    /// What went wrong.
    Failed(String),
}

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the connection ended in the middle of a frame")]
    Cut,
    #[error("a frame of the unknown kind {0} came")]
    Kind(u8),
    #[error("a frame of kind {kind} with {length} bytes came, which is no right length")]
    Length { kind: u8, length: usize },
}

/// The longest body, in bytes: logits for the largest vocabulary that a bundle may have.
const LONGEST: usize = 4 << 24;

const FORWARD: u8 = 1;
const CLOSE: u8 = 2;
const HELLO: u8 = 16;
const READY: u8 = 17;
const LOGITS: u8 = 18;
const FAILED: u8 = 19;

impl Request {
    pub fn send(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Forward { position, tokens } => {
                send(to, FORWARD, [*position].iter().chain(tokens).map(|number| number.to_le_bytes()))
            }
            Self::Close => send(to, CLOSE, [[]]),
        }
    }

    /// `None` at the connection's end.
    pub fn receive(from: &mut impl Read) -> Result<Option<Self>, FrameError> {
        let Some((kind, body)) = receive(from)? else { return Ok(None) };
        let length = body.len();
        match kind {
            FORWARD => match numbers(&body, u32::from_le_bytes).as_deref() {
                Some([position, tokens @ ..]) => Ok(Some(Self::Forward { position: *position, tokens: tokens.into() })),
                _ => Err(FrameError::Length { kind, length }),
            },
            CLOSE if length == 0 => Ok(Some(Self::Close)),
            CLOSE => Err(FrameError::Length { kind, length }),
            _ => Err(FrameError::Kind(kind)),
        }
    }
}

impl Reply {
    pub fn send(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Hello(bytes) => send(to, HELLO, [bytes]),
            Self::Ready(bytes) => send(to, READY, [bytes]),
            Self::Logits(logits) => Self::send_logits(logits, to),
            Self::Failed(text) => send(to, FAILED, [text]),
        }
    }

    /// For messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "a greeting",
            Self::Ready(_) => "a description",
            Self::Logits(_) => "logits",
            Self::Failed(_) => "an error",
        }
    }

    pub fn send_logits(logits: &[f32], to: &mut impl Write) -> io::Result<()> {
        send(to, LOGITS, logits.iter().map(|number| number.to_le_bytes()))
    }

    /// `None` at the connection's end.
    pub fn receive(from: &mut impl Read) -> Result<Option<Self>, FrameError> {
        let Some((kind, body)) = receive(from)? else { return Ok(None) };
        let length = body.len();
        Ok(Some(match kind {
            HELLO => Self::Hello(body),
            READY => Self::Ready(body),
            LOGITS => Self::Logits(numbers(&body, f32::from_le_bytes).ok_or(FrameError::Length { kind, length })?),
            FAILED => Self::Failed(String::from_utf8_lossy(&body).into_owned()),
            _ => return Err(FrameError::Kind(kind)),
        }))
    }
}

fn send(to: &mut impl Write, kind: u8, pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> io::Result<()> {
    let mut frame = vec![kind, 0, 0, 0, 0];
    pieces.into_iter().for_each(|piece| frame.extend_from_slice(piece.as_ref()));
    let length = frame.len() - 5;
    if length > LONGEST {
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("a frame of {length} bytes is too long")));
    }
    frame[1..5].copy_from_slice(&(length as u32).to_le_bytes());
    // Not flushed: a named pipe's flush waits for the other side, without a deadline.
    to.write_all(&frame)
}

fn receive(from: &mut impl Read) -> Result<Option<(u8, Vec<u8>)>, FrameError> {
    let mut header = [0; 5];
    let mut filled = 0;
    while filled < header.len() {
        match from.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(FrameError::Cut),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let [kind, length @ ..] = header;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(FrameError::Length { kind, length });
    }
    // Grows with what comes, not with what the header claims.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(FrameError::Cut);
    }
    Ok(Some((kind, body)))
}

/// `None` where the bytes are no whole number of numbers.
fn numbers<T>(bytes: &[u8], number: impl Fn([u8; 4]) -> T) -> Option<Vec<T>> {
    let (chunks, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| chunks.iter().map(|bytes| number(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_is_kind_length_body() {
        let mut bytes = Vec::new();
        Request::Forward { position: 3, tokens: vec![258] }.send(&mut bytes).unwrap();
        assert_eq!(bytes, [1, 8, 0, 0, 0, 3, 0, 0, 0, 2, 1, 0, 0]);
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        let cases: [(&[u8], &str); 6] = [
            (&[9, 0, 0, 0, 0], "unknown kind 9"),
            (&[18, 5, 0], "middle of a frame"),
            (&[18, 5, 0, 0, 0, 1], "middle of a frame"),
            (&[18, 2, 0, 0, 0, 1, 2], "kind 18 with 2 bytes"),
            (&[18, 0, 0, 0, 255], "kind 18 with 4278190080 bytes"),
            (b"Starting stage: ...\n", "kind 83"),
        ];
        for (mut bytes, expected) in cases {
            let error = Reply::receive(&mut bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(matches!(Request::receive(&mut [1, 0, 0, 0, 0].as_slice()), Err(FrameError::Length { .. })));
        assert!(matches!(Reply::receive(&mut [].as_slice()), Ok(None)));
    }

    proptest! {
        #[test]
        fn frames_arrive_as_they_were_sent(
            position in any::<u32>(),
            tokens in prop::collection::vec(any::<u32>(), 0..80),
            logits in prop::collection::vec(-1e30f32..1e30, 0..80),
            text in "\\PC{0,40}",
        ) {
            let requests = [Request::Forward { position, tokens }, Request::Close];
            let mut bytes = Vec::new();
            requests.iter().for_each(|request| request.send(&mut bytes).unwrap());
            let mut bytes = bytes.as_slice();
            for request in requests {
                prop_assert_eq!(Request::receive(&mut bytes).unwrap(), Some(request));
            }
            let replies = [Reply::Hello(vec![1, 2]), Reply::Ready(vec![]), Reply::Logits(logits), Reply::Failed(text)];
            let mut bytes = Vec::new();
            replies.iter().for_each(|reply| reply.send(&mut bytes).unwrap());
            let mut bytes = bytes.as_slice();
            for reply in replies {
                prop_assert_eq!(Reply::receive(&mut bytes).unwrap(), Some(reply));
            }
        }

        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..24) {
            for bytes in [bytes.clone(), [&[kind, bytes.len() as u8, 0, 0, 0], bytes.as_slice()].concat()] {
                let mut replies = bytes.as_slice();
                while let Ok(Some(_)) = Reply::receive(&mut replies) {}
                let mut requests = bytes.as_slice();
                while let Ok(Some(_)) = Request::receive(&mut requests) {}
            }
        }
    }
}
