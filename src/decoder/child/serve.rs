//! The lane's process: opens what it was asked for, then answers one request after the other.

use std::io;

use interprocess::local_socket::traits::Stream as _;
use interprocess::local_socket::{GenericNamespaced, Stream, ToNsName};
use serde::{Deserialize, Serialize};

use super::frame::{FrameError, Reply, Request};
use super::lane::LaneRequest;
use crate::decoder::{DecodeError, Decoder};

/// The line that a lane's process gets on standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invitation {
    /// The name of the socket at which the parent listens.
    pub socket: String,
    /// To say back, so that the parent knows who connects.
    pub key: String,
    pub lane: LaneRequest,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the invitation to a lane cannot be read: {0}")]
    Invitation(#[from] serde_json::Error),
    #[error("the connection to ortalk failed: {0}")]
    Connection(#[from] io::Error),
    #[error("the connection to ortalk failed: {0}")]
    Frame(#[from] FrameError),
}

/// Serves until the parent closes the connection. What goes wrong in the lane is told to the parent and is no error here.
pub fn serve_lane(invitation: &str) -> Result<(), ServeError> {
    let Invitation { socket, key, lane } = serde_json::from_str(invitation)?;
    let mut stream = Stream::connect(socket.to_ns_name::<GenericNamespaced>()?)?;
    Reply::Hello(key.into_bytes()).send(&mut stream)?;
    let mut decoder = match lane.open() {
        Ok((decoder, ready)) => {
            Reply::Ready(serde_json::to_vec(&ready)?).send(&mut stream)?;
            decoder
        }
        Err(error) => return Ok(Reply::Failed(error.to_string()).send(&mut stream)?),
    };
    while let Some(Request::Forward { position, tokens }) = Request::receive(&mut stream)? {
        match forward(&mut *decoder, position as usize, &tokens) {
            Ok(()) => Reply::send_logits(decoder.logits(), &mut stream)?,
            Err(error) => return Ok(Reply::Failed(error.to_string()).send(&mut stream)?),
        }
    }
    Ok(())
}

fn forward(decoder: &mut dyn Decoder, position: usize, tokens: &[u32]) -> Result<(), DecodeError> {
    decoder.rewind(position);
    if decoder.position() < position {
        let what = format!("position {position} was asked for, but only {} tokens are known", decoder.position());
        return Err(DecodeError::Run(what));
    }
    decoder.forward(tokens)
}
