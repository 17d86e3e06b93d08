//! The arguments of `ortalk build`.

use std::path::PathBuf;

use clap::Args;

use crate::builder::FourBits;
use crate::builder::npu::NpuStage;
use crate::model::NpuTarget;

#[derive(Debug, Clone, Args)]
pub struct BuildArgs {
    /// A GGUF file of a llama, qwen2, qwen3, gemma3 or phi3 model, in F32, F16, BF16, Q8_0, Q4_0 to Q5_1 or Q4_K to Q6_K; or a
    /// folder of Hugging Face's with config.json, tokenizer.json and safetensors in F32, F16 or BF16; or the name of either, as
    /// `ortalk models` lists it.
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// The folder to write; it must not exist, or be empty.
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    /// What the model folder is built for.
    #[arg(long, value_enum, default_value_t = BuildTarget::Cpu)]
    pub target: BuildTarget,
    /// How numbers are kept: for the CPU int4, int8 (the default), fp16 or fp32, for an NPU w8a16 (the default) or fp16.
    #[arg(long, value_enum, value_name = "PRECISION")]
    pub precision: Option<PrecisionName>,
    /// The longest prompt and answer together, in tokens; the default is 512 for an NPU, and for the CPU what the model was
    /// trained for.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub context: Option<usize>,
    #[command(flatten)]
    pub int4: Int4Args,
    #[command(flatten)]
    pub npu: NpuBuildArgs,
}

/// The precisions of both targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PrecisionName {
    /// Weights in 4 bits, in 8 where 4 cost most: smaller than int8 and less exact
    Int4,
    /// Weights in 8 bits; what a GGUF file has in 4 bits keeps its values
    Int8,
    /// 16-bit floating point. The CPU computes in float32 and needs as much memory; the files are half as large
    Fp16,
    /// 32-bit floating point: the weights exactly as they are
    Fp32,
    /// Weights in 8 bits, activations in 16
    W8a16,
}

/// How weights are rounded to 4 bits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "For --precision int4")]
pub struct Int4Args {
    /// Weights that share a scale: 32 (the default), 64 or 128. Larger ones are smaller on the disk and less exact.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = block_size)]
    pub block_size: Option<usize>,
    /// Scales without zero points: a little smaller and less exact.
    #[arg(long)]
    pub symmetric: bool,
}

fn block_size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| FourBits::SIZES.contains(size));
    size.ok_or_else(|| "expected 32, 64 or 128".to_owned())
}

/// What is chosen for an NPU only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "For --target npu")]
pub struct NpuBuildArgs {
    /// The chip to compile for: x-elite, x-plus, x2-elite, 8-gen-2, 8-gen-3, 8-elite and others.
    #[arg(long, value_name = "CHIP", value_parser = NpuTarget::named, required_if_eq("target", "npu"))]
    pub soc: Option<NpuTarget>,
    /// Tokens of a prompt that go through the NPU at a time; the default is 64.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub chunk: Option<usize>,
    /// End after this stage; the same command without it goes on from there.
    #[arg(long, value_name = "STAGE", value_enum)]
    pub stop_after: Option<NpuStage>,
    /// Keep what the stages leave for each other, in the folder .DIR.work beside DIR.
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BuildTarget {
    Cpu,
    Npu,
}
