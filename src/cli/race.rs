//! The arguments of `ortalk race` and `ortalk replay`, and of recordings.

use std::path::PathBuf;

use clap::Args;

use super::ChatArgs;
use crate::engine::LaneId;

/// What the chat is recorded to.
#[derive(Debug, Clone, Default, Args)]
pub struct RecordArgs {
    /// Write the run into a file that `ortalk replay` plays: texts, token times, decisions, sensors. It must not be there.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RaceArgs {
    /// The prompt. Without it, or as '-', it is read from standard input; with both, standard input follows the prompt.
    pub prompt: Option<String>,
    /// The lanes, with commas between; the default is every one on this machine.
    #[arg(long, value_name = "LANES", value_delimiter = ',')]
    pub lanes: Vec<LaneId>,
    /// How often each lane answers; numbers are then medians, and latencies of all rounds.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Run the lanes one after the other also where they share no cores, so that each has the machine and its sensors alone.
    #[arg(long)]
    pub in_turn: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub recording: RecordArgs,
    #[command(flatten)]
    pub chat: ChatArgs,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A file that --record wrote, or - for standard input.
    pub file: PathBuf,
    /// Play it so many times as fast.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Play a recording that was cut off as far as it goes.
    #[arg(long)]
    pub partial: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let range = 0.01..=1000.0;
    text.parse().ok().filter(|speed| range.contains(speed)).ok_or_else(|| "expected a number from 0.01 to 1000".into())
}
