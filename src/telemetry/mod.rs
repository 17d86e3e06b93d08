//! Clocks and instruments: statistics of token latencies, and what the machine's own sensors say.
//!
//! Nothing here draws or decides; front ends read these values.

pub mod device;
pub mod drivers;
pub mod energy;
pub mod latency;
pub mod machine;
pub mod memory;
pub mod statistics;
pub mod surroundings;
pub mod watch;

use serde::{Deserialize, Serialize};

/// A value that was measured, or the reason why it cannot be read here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    Measured(T),
    Unavailable(String),
}

impl<T> Reading<T> {
    pub fn measured(&self) -> Option<&T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }
}
