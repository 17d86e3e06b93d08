//! The command line's grammar: what may be typed, and the help that explains it. Running a command is `commands`' work.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::engine::LaneId;

/// Chat with a language model on your own machine, and see which silicon answers.
///
/// Without a command, `ortalk` opens the chat. The first run fetches ONNX Runtime and a small model (about 120 MB) with
/// your own pip; after that it works offline.
#[derive(Debug, Parser)]
#[command(name = "ortalk", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub chat: ChatArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer one prompt on standard output.
    Run(RunArgs),
    /// Fetch ONNX Runtime and the default model now.
    Setup(SetupArgs),
    /// Make a model folder from a GGUF file.
    Build(BuildArgs),
}

/// What the chat and `run` share.
#[derive(Debug, Clone, Default, Args)]
pub struct ChatArgs {
    /// A model folder or a GGUF file; the default is SmolLM2-135M-Instruct.
    #[arg(long, short, value_name = "PATH")]
    pub model: Option<PathBuf>,
    /// The system prompt.
    #[arg(long, short, value_name = "TEXT")]
    pub system: Option<String>,
    /// The longest answer, in tokens.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// 0 takes the most likely token every time; higher is more varied.
    #[arg(long, short, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Draw from the K most likely tokens; 0 means all.
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
    /// Draw from the most likely tokens that together have this probability.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Draw from tokens at least this fraction as likely as the most likely one.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Make tokens that were seen less likely; 1 changes nothing.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f32>,
    /// The same seed gives the same text.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Answer in this lane, whatever the router would choose.
    #[arg(long, value_name = "LANE")]
    pub lane: Option<LaneId>,
    /// Threads for the CPU lane; the default is one for each physical core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The prompt. Without it, or as '-', it is read from standard input; with both, standard input follows the prompt.
    pub prompt: Option<String>,
    /// Print one JSON object with the answer, the timings and the routing decision.
    #[arg(long)]
    pub json: bool,
    /// End the answer at this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    #[command(flatten)]
    pub chat: ChatArgs,
}

#[derive(Debug, Args)]
pub struct SetupArgs {}

#[derive(Debug, Args)]
pub struct BuildArgs {
    /// A GGUF file.
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// The folder to write; it must not exist, or be empty.
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    /// What the model folder is built for.
    #[arg(long, value_enum, default_value_t = BuildTarget::Cpu)]
    pub target: BuildTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BuildTarget {
    Cpu,
}
