//! The arguments of `ortalk bench`.

use std::path::PathBuf;

use clap::Args;

use crate::engine::LaneId;

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The lanes to measure, with commas between; the default is every one that can run here.
    #[arg(long, value_name = "LANES", value_delimiter = ',')]
    pub lanes: Vec<LaneId>,
    /// Prompts of so many tokens, the chat template included; 0 for none.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [128, 512, 1024])]
    pub prompt_lengths: Vec<u32>,
    /// Fixed-length passes over so many tokens, with nothing generated after them; 0 for none.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1024])]
    pub pass_lengths: Vec<u32>,
    /// Tokens to generate after each prompt.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// How often each is measured.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,
    /// How often each is done before that, without counting.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub warmup: u32,
    /// Print one JSON object, described by docs/bench.schema.json.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print a table for a README.
    #[arg(long)]
    pub markdown: bool,
    /// Show what changed since an older run, from the JSON that it printed.
    #[arg(long, value_name = "OLD.json")]
    pub compare: Option<PathBuf>,
    /// A model, as for the chat; the default is SmolLM2-135M-Instruct.
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// The longest sequence, in tokens; the default is the model's limit, or what there is memory for.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub context: Option<u32>,
    /// Run the NPU lane on QNN's simulator. Its times say nothing about an NPU, and are marked so.
    #[arg(long)]
    pub emulate_npu: bool,
    /// A folder that `ortalk build --target npu` made of the same model, for the NPU lane.
    #[arg(long, value_name = "DIR")]
    pub npu_model: Option<PathBuf>,
    /// Threads on the CPU; the default is one for each physical core.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub tuning: TuneArgs,
    #[command(flatten)]
    pub server: LoadArgs,
}

/// `ortalk bench --tune`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub struct TuneArgs {
    /// Find how the CPU lane runs fastest here, in place of measuring lanes: threads, spinning, and tokens of a prompt's pass.
    ///
    /// Takes a minute for a small model, while nothing else should run. What was found can be stored for this model on this
    /// machine; chats use it then, where neither --threads nor the settings name threads.
    #[arg(long, conflicts_with_all = ["lanes", "prompt_lengths", "pass_lengths", "tokens", "repetitions", "warmup", "compare", "markdown", "emulate_npu", "npu_model", "threads"])]
    pub tune: bool,
    /// The most rounds in which settings are compared; fewer than six find only what is far slower.
    #[arg(long, value_name = "N", requires = "tune", default_value_t = 12, value_parser = clap::value_parser!(u32).range(3..))]
    pub rounds: u32,
    /// Store what --tune found, without asking.
    #[arg(long, requires = "tune", conflicts_with = "no_store")]
    pub store: bool,
    /// Do not store what --tune found, and do not ask.
    #[arg(long, requires = "tune")]
    pub no_store: bool,
}

/// `ortalk bench --server`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Loading a server")]
pub struct LoadArgs {
    /// Load a server that speaks OpenAI's interface with real prompts, in place of measuring lanes: http://127.0.0.1:8080
    ///
    /// Throughput, time to first token, latencies between tokens and errors, as the clients see them. --model is a name of the
    /// server's then, by default its first; --tokens is the longest answer.
    #[arg(long, value_name = "URL", conflicts_with_all = ["tune", "lanes", "prompt_lengths", "pass_lengths", "repetitions", "compare", "emulate_npu", "npu_model", "threads", "context"])]
    pub server: Option<String>,
    /// Clients at once; several numbers are measured one after the other.
    #[arg(long, value_name = "N,...", requires = "server", value_delimiter = ',', default_values_t = [1, 2, 4, 8], value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: Vec<u16>,
    /// Requests for each number of clients.
    #[arg(long, value_name = "N", requires = "server", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub requests: u32,
    /// The variable that has the server's key, where it wants one.
    #[arg(long, value_name = "NAME", requires = "server", default_value = "ORTALK_API_KEY")]
    pub api_key_env: String,
}
