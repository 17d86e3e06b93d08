//! Which of a repository's models is the one for this machine. A pure function: names, sizes and memory in, a choice with
//! its reason out.

use super::variants::{CHECKPOINT, FileEntry, Format, Variant, find};

/// What the model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Chatting on the CPU.
    Cpu,
    /// Building a model for the NPU.
    NpuBuild,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub variant: Variant,
    /// Why this one, for people.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error(
        "it has nothing that ortalk runs. Expected were a GGUF file, a folder with genai_config.json, config.json with \
         onnx/model*.onnx, or config.json with safetensors; it has {0}"
    )]
    Nothing(String),
    #[error("it has no variant '{wanted}'; it has:\n{offered}")]
    NoSuchVariant { wanted: String, offered: String },
    #[error("'{wanted}' names several of its variants:\n{offered}")]
    Several { wanted: String, offered: String },
    #[error("'{name}' cannot be read: ortalk has no {quantization}. It has:\n{offered}")]
    Unreadable { name: String, quantization: String, offered: String },
    #[error(
        "none of its variants is one to choose unasked; name one with a colon, as in owner/name:{example}. It has:\n{offered}"
    )]
    NoneUnasked { example: String, offered: String },
    #[error(
        "the smallest of its variants, '{name}', needs about {needed} MB of memory, and this machine has {memory} MB; name a \
         variant with a colon to pull it anyway. It has:\n{offered}"
    )]
    TooLarge { name: String, needed: u64, memory: u64, offered: String },
}

/// Quantizations of GGUF files that the builder reads, the best first. Those in floating point come last, for the builder
/// rounds them to 8 bits, and they are twice as large as what it makes of them.
const GGUF_TYPES: [&str; 15] = [
    "Q8_0", "Q6_K", "Q5_K_M", "Q5_1", "Q5_K_S", "Q5_0", "Q4_K_M", "Q4_1", "Q4_K_S", "Q4_0", "Q5_K", "Q4_K", "BF16",
    "F16", "F32",
];

/// Graphs of Optimum's that the CPU runs well, the best first. In 16-bit floating point it runs them slowly, so those are last.
const GRAPHS: [&str; 7] = ["q4", "quantized", "int8", "uint8", "fp32", "q4f16", "fp16"];

/// What a folder's name says where its model is for other hardware.
const OTHER_HARDWARE: [&str; 11] =
    ["cuda", "directml", "dml", "gpu", "npu", "qnn", "vitis", "openvino", "trt", "tensorrt", "rocm"];

/// Chooses among all models in these files. `memory` is this machine's, in bytes.
pub fn choose(files: &[FileEntry], wanted: Option<&str>, purpose: Purpose, memory: u64) -> Result<Choice, ChoiceError> {
    let found = find(files);
    if found.is_empty() {
        return Err(ChoiceError::Nothing(endings(files)));
    }
    match wanted {
        Some(wanted) => named(found, wanted),
        None => unasked(found, purpose, memory),
    }
}

/// The variant that a person named, by its whole name, its last part, or a part that only one has.
pub fn named(found: Vec<Variant>, wanted: &str) -> Result<Choice, ChoiceError> {
    let lower = wanted.to_lowercase();
    let lower = match lower.as_str() {
        "q8" => "quantized",
        "safetensors" => CHECKPOINT,
        other => other,
    };
    let tests: [&dyn Fn(&str) -> bool; 4] = [
        &|name| name == lower,
        &|name| name.rsplit('/').next() == Some(lower),
        &|name| name.rsplit('/').next().is_some_and(|last| last.starts_with(lower)),
        &|name| name.contains(lower),
    ];
    for test in tests {
        let fitting: Vec<&Variant> = found.iter().filter(|variant| test(&variant.name.to_lowercase())).collect();
        match fitting[..] {
            [] => {}
            [variant] => {
                return match unreadable(variant) {
                    Some(quantization) => {
                        let name = variant.name.clone();
                        Err(ChoiceError::Unreadable { name, quantization, offered: offered(&found) })
                    }
                    None => Ok(Choice { variant: variant.clone(), why: "as you asked".to_string() }),
                };
            }
            _ => return Err(ChoiceError::Several { wanted: wanted.to_string(), offered: offered_of(&fitting) }),
        }
    }
    Err(ChoiceError::NoSuchVariant { wanted: wanted.to_string(), offered: offered(&found) })
}

fn unasked(found: Vec<Variant>, purpose: Purpose, memory: u64) -> Result<Choice, ChoiceError> {
    let mut ranked: Vec<(u32, &Variant)> =
        found.iter().filter_map(|variant| Some((rank(variant, purpose)?, variant))).collect();
    // Equal ones: the smaller name, so that a choice is the same every time.
    ranked.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    let Some((_, first)) = ranked.first() else {
        let example = found.first().map_or_else(String::new, |variant| variant.name.clone());
        return Err(ChoiceError::NoneUnasked { example, offered: offered(&found) });
    };
    let Some((_, best)) = ranked.iter().find(|(_, variant)| memory_needed(variant) <= memory) else {
        let smallest =
            ranked.iter().map(|(_, variant)| *variant).min_by_key(|variant| memory_needed(variant)).unwrap_or(first);
        return Err(ChoiceError::TooLarge {
            name: smallest.name.clone(),
            needed: memory_needed(smallest).div_ceil(1_000_000),
            memory: memory / 1_000_000,
            offered: offered(&found),
        });
    };
    let mut why = reason(best, purpose).to_string();
    if best.name != first.name {
        why = format!("{why}; '{}' would need about {} MB of memory", first.name, memory_needed(first) / 1_000_000);
    }
    Ok(Choice { variant: (*best).clone(), why })
}

/// The smaller the better; `None` for what is taken only by who names it.
fn rank(variant: &Variant, purpose: Purpose) -> Option<u32> {
    let place = |names: &[&str]| {
        let at = names.iter().position(|name| name.eq_ignore_ascii_case(&variant.name))?;
        u32::try_from(at).ok()
    };
    match (variant.format, purpose) {
        (Format::Checkpoint, Purpose::NpuBuild) => Some(0),
        (Format::Gguf, Purpose::NpuBuild) => Some(100 + place(&GGUF_TYPES)?),
        (Format::Genai | Format::Optimum, Purpose::NpuBuild) => None,
        (Format::Genai, Purpose::Cpu) => {
            let name = variant.name.to_lowercase();
            let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
            if OTHER_HARDWARE.iter().any(|other| words.contains(other)) {
                return None;
            }
            // Activations in 8 bits (accuracy level 4) make the kernels several times faster.
            Some(if name.contains("acc-level-4") { 0 } else { 1 })
        }
        (Format::Gguf, Purpose::Cpu) => Some(100 + place(&GGUF_TYPES)?),
        (Format::Optimum, Purpose::Cpu) => Some(200 + place(&GRAPHS)?),
        (Format::Checkpoint, Purpose::Cpu) => Some(300),
    }
}

fn reason(variant: &Variant, purpose: Purpose) -> &'static str {
    match (variant.format, purpose) {
        (Format::Genai, _) => "a model folder for the CPU runs as it is",
        (Format::Gguf, Purpose::Cpu) => "the most exact GGUF file that ortalk reads and this machine has memory for",
        (Format::Gguf, Purpose::NpuBuild) => {
            "there is no checkpoint, and the most exact GGUF file builds for the NPU, too"
        }
        (Format::Optimum, _) => "the graph that the CPU runs best",
        (Format::Checkpoint, Purpose::Cpu) => "ortalk builds the model from the checkpoint the first time it runs",
        (Format::Checkpoint, Purpose::NpuBuild) => "`ortalk build --target npu` builds from the checkpoint",
    }
}

/// The quantization of a GGUF file that the builder cannot read; what is not known is left to the builder.
fn unreadable(variant: &Variant) -> Option<String> {
    let name = variant.name.to_ascii_uppercase();
    let unread = ["IQ", "TQ", "MXFP", "Q2_K", "Q3_K", "Q1_"].iter().any(|start| name.starts_with(start));
    (variant.format == Format::Gguf && unread).then_some(name)
}

/// Roughly what loading takes, in bytes: the weights and the copy that the kernels pack. What is built from floating point
/// is rounded to 8 bits before that.
fn memory_needed(variant: &Variant) -> u64 {
    let in_floats = variant.format == Format::Checkpoint || ["F16", "BF16", "F32"].contains(&variant.name.as_str());
    if in_floats { variant.bytes() } else { variant.bytes().saturating_mul(2) }
}

/// A line for each variant.
pub fn offered(found: &[Variant]) -> String {
    offered_of(&found.iter().collect::<Vec<_>>())
}

fn offered_of(found: &[&Variant]) -> String {
    let width = found.iter().map(|variant| variant.name.chars().count()).max().unwrap_or(0);
    let line = |variant: &&Variant| {
        let size = variant.bytes() as f64 / 1e6;
        let note = if unreadable(variant).is_some() { ", which ortalk cannot read" } else { "" };
        format!("  {:width$}  {size:>9.1} MB  {}{note}", variant.name, variant.format)
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What kinds of files there are, for who wonders why nothing was found.
fn endings(files: &[FileEntry]) -> String {
    let mut endings: Vec<String> = files
        .iter()
        .map(|file| file.path.rsplit('/').next().unwrap_or_default())
        .map(|name| name.rsplit_once('.').map_or_else(|| name.to_string(), |(_, ending)| format!(".{ending}")))
        .collect();
    endings.sort();
    endings.dedup();
    endings.truncate(8);
    if endings.is_empty() { "no files".to_string() } else { endings.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::super::variants::tests::files;
    use super::*;

    const PLENTY: u64 = u64::MAX;

    fn chosen(paths: &[&str], wanted: Option<&str>, purpose: Purpose) -> Result<String, ChoiceError> {
        choose(&files(paths), wanted, purpose, PLENTY).map(|choice| choice.variant.name)
    }

    const GGUF: [&str; 6] =
        ["x-Q4_0.gguf", "x-Q4_K_M.gguf", "x-Q8_0.gguf", "x-F16.gguf", "x-IQ4_XS.gguf", "x-Q2_K.gguf"];
    const OPTIMUM: [&str; 6] = [
        "config.json",
        "onnx/model.onnx",
        "onnx/model_fp16.onnx",
        "onnx/model_q4.onnx",
        "onnx/model_q4f16.onnx",
        "onnx/model_quantized.onnx",
    ];
    const GENAI: [&str; 8] = [
        "cpu_and_mobile/cpu-int4-rtn-block-32/genai_config.json",
        "cpu_and_mobile/cpu-int4-rtn-block-32/model.onnx",
        "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4/genai_config.json",
        "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4/model.onnx",
        "gpu/gpu-int4-rtn-block-32/genai_config.json",
        "gpu/gpu-int4-rtn-block-32/model.onnx",
        "cuda-fp16/genai_config.json",
        "cuda-fp16/model.onnx",
    ];

    #[test]
    fn the_best_one_is_chosen_unasked() {
        let checkpoint = &["config.json", "model.safetensors"][..];
        for (paths, purpose, expected) in [
            (&GGUF[..], Purpose::Cpu, "Q8_0"),
            (&GGUF[..2], Purpose::Cpu, "Q4_K_M"),
            (&GGUF[3..], Purpose::Cpu, "F16"),
            (&OPTIMUM[..], Purpose::Cpu, "q4"),
            (&GENAI[..], Purpose::Cpu, "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4"),
            (checkpoint, Purpose::Cpu, "checkpoint"),
            (&[&OPTIMUM[..], checkpoint].concat(), Purpose::Cpu, "q4"),
            (&[&OPTIMUM[..], checkpoint].concat(), Purpose::NpuBuild, "checkpoint"),
            (&[&GGUF[..], checkpoint].concat(), Purpose::NpuBuild, "checkpoint"),
            (&GGUF[..], Purpose::NpuBuild, "Q8_0"),
            (&[&GENAI[..], &GGUF[..]].concat(), Purpose::Cpu, "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4"),
        ] {
            assert_eq!(chosen(paths, None, purpose).as_deref(), Ok(expected), "{paths:?}");
        }
    }

    #[test]
    fn what_is_for_other_hardware_is_not_chosen_unasked() {
        let error = chosen(&GENAI[4..], None, Purpose::Cpu).unwrap_err().to_string();
        assert!(error.contains("owner/name:gpu/gpu-int4-rtn-block-32") && error.contains("cuda-fp16"), "{error}");
        assert_eq!(chosen(&GENAI, Some("cuda-fp16"), Purpose::Cpu).unwrap(), "cuda-fp16");
        let error = chosen(&OPTIMUM, None, Purpose::NpuBuild).unwrap_err();
        assert!(matches!(error, ChoiceError::NoneUnasked { .. }), "{error}");
    }

    #[test]
    fn a_variant_is_named_as_people_name_it() {
        for (paths, wanted, expected) in [
            (&GGUF[..], "q4_k_m", "Q4_K_M"),
            (&GGUF[..], "Q4_0", "Q4_0"),
            (&OPTIMUM[..], "q4", "q4"),
            (&OPTIMUM[..], "q8", "quantized"),
            (&OPTIMUM[..], "fp32", "fp32"),
            (&GENAI[..], "cpu-int4-rtn-block-32", "cpu_and_mobile/cpu-int4-rtn-block-32"),
            (&GENAI[..], "acc-level-4", "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4"),
            (&GENAI[..], "cpu_and_mobile/cpu-int4-rtn-block-32", "cpu_and_mobile/cpu-int4-rtn-block-32"),
            (&GENAI[..], "gpu-int4", "gpu/gpu-int4-rtn-block-32"),
            (&["config.json", "model.safetensors"][..], "safetensors", "checkpoint"),
        ] {
            assert_eq!(chosen(paths, Some(wanted), Purpose::Cpu).as_deref(), Ok(expected), "{wanted}");
        }
    }

    #[test]
    fn an_unknown_variant_lists_what_there_is() {
        let error = chosen(&OPTIMUM, Some("q3"), Purpose::Cpu).unwrap_err().to_string();
        for name in ["'q3'", "fp32", "fp16", "q4f16", "quantized", "0.0 MB"] {
            assert!(error.contains(name), "{error}");
        }
        let error = chosen(&GENAI, Some("cpu-int4"), Purpose::Cpu).unwrap_err().to_string();
        assert!(error.contains("several") && error.contains("acc-level-4") && !error.contains("cuda"), "{error}");
        let error = chosen(&GGUF, Some("IQ4_XS"), Purpose::Cpu).unwrap_err().to_string();
        assert!(error.contains("no IQ4_XS") && error.contains("Q8_0"), "{error}");
    }

    #[test]
    fn a_repository_without_models_says_what_it_has() {
        let error =
            chosen(&["README.md", "pytorch_model.bin", "adapter/x.pt"], None, Purpose::Cpu).unwrap_err().to_string();
        assert!(error.contains(".bin .md .pt") && error.contains("GGUF"), "{error}");
        assert!(chosen(&[], None, Purpose::Cpu).unwrap_err().to_string().contains("no files"));
    }

    #[test]
    fn memory_bounds_the_choice() {
        let sized = |sizes: &[(&str, u64)]| -> Vec<FileEntry> {
            sizes.iter().map(|(path, bytes)| FileEntry { path: path.to_string(), bytes: *bytes }).collect()
        };
        let files =
            sized(&[("x-Q8_0.gguf", 8_000_000_000), ("x-Q4_1.gguf", 5_000_000_000), ("x-Q4_0.gguf", 4_500_000_000)]);
        let choice = |memory| choose(&files, None, Purpose::Cpu, memory);
        assert_eq!(choice(16_000_000_000).unwrap().variant.name, "Q8_0");
        let second = choice(15_999_999_999).unwrap();
        assert_eq!(second.variant.name, "Q4_1");
        assert!(second.why.contains("'Q8_0' would need about 16000 MB"), "{}", second.why);
        assert_eq!(choice(9_000_000_000).unwrap().variant.name, "Q4_0");
        let error = choice(8_999_999_999).unwrap_err().to_string();
        assert!(error.contains("'Q4_0'") && error.contains("9000 MB") && error.contains("8999 MB"), "{error}");
        // Who names one gets it.
        assert_eq!(choose(&files, Some("Q8_0"), Purpose::Cpu, 1).unwrap().variant.name, "Q8_0");
        // Sizes that no disk has add up without a panic.
        let absurd = sized(&[("config.json", u64::MAX), ("model.safetensors", u64::MAX)]);
        assert!(matches!(choose(&absurd, None, Purpose::Cpu, 1), Err(ChoiceError::TooLarge { .. })));
    }
}
