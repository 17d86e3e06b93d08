//! `ortalk_npu.json`: how the graphs of a model folder built for an NPU are fed.
//!
//! Such a folder has four graphs. `embeddings` and `lm_head` run on the CPU, any number of tokens at a time; `prefill` and
//! `decode` run on the NPU with fixed shapes, `chunk` tokens and one token. Names and shapes of what goes in and out
//! (S: the graph's tokens; C: `context`; T = C + S):
//!
//! | graph | in | out |
//! | --- | --- | --- |
//! | embeddings | `input_ids` int64 `[1, n]` | `hidden_states` float32 `[1, n, hidden]` |
//! | prefill, decode | `hidden_states` `[1, S, hidden]`; `cos`, `sin` `[1, 1, S, head_size]`; `mask` `[1, 1, S, T]`; `past_key_values.N.key`, `.value` `[1, kv_heads, C, head_size]` | `output_hidden_states` `[1, S, hidden]`, after the last norm; `present.N.key`, `.value` `[1, kv_heads, S, head_size]`: the new rows |
//! | lm_head | `output_hidden_states` float32 `[1, n, hidden]` | `logits` float32 `[1, n, vocabulary]` |
//!
//! Whoever runs them keeps the cache: the new rows of the real tokens are copied behind the past ones. Column t < C of the
//! mask is slot t of the past, column C + s is token s of this pass; a column is 0 where it is seen and `masked` where not.
//! `cos` holds each pair's cosine twice, in the first and the second half of the head; `sin` likewise with the first
//! half negated, so that rotation is `x * cos + swap_halves(x) * sin`. Where fewer values than the head's are turned, these
//! come first, and those behind them have the cosine 1 and the sine 0.
//!
//! A token may see only the last `window` tokens. With `window_layers`, some layers are told so by inputs of their own,
//! `mask_window`, or turn otherwise, by `cos_window` and `sin_window`; these have
//! the shapes and the quantization of `cos`, `sin` and `mask`. (`NpuBundle::position_inputs` has the order of all.)
//!
//! With `quantization`, all inputs and outputs of the NPU's graphs are integers (real = (code - zero point) * scale), and
//! whoever runs them quantizes. Without, they are float32.
//!
//! With `sink`, slot 0 of the past holds constant keys and values of that token, computed in float: the first token's
//! activations are so large that they would cost all others their precision. Every sequence must start with it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ModelError, read_json};

/// The file that makes a model folder one for the NPU.
pub const NPU_FILE: &str = "ortalk_npu.json";

/// The version of this description that is read and written here.
pub const NPU_FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpuBundle {
    /// `NPU_FORMAT`.
    pub format: u32,
    pub precision: Precision,
    pub target: NpuTarget,
    /// Slots of the past: the longest sequence, in tokens.
    pub context: usize,
    /// Tokens in one pass of the prefill graph.
    pub chunk: usize,
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_size: usize,
    pub vocabulary: usize,
    /// Radians per position for each of the head's pairs that are turned: at most `head_size / 2`.
    pub rotary_frequencies: Vec<f64>,
    /// What turned values are multiplied by.
    #[serde(default = "one")]
    pub rotary_magnitude: f64,
    /// How many tokens a token sees by `mask`, itself among them; without it, all.
    #[serde(default)]
    pub window: Option<usize>,
    #[serde(default)]
    pub window_layers: Option<WindowLayers>,
    /// What is added to the score of a column that is not seen.
    pub masked: f32,
    pub files: BundleFiles,
    /// Where the NPU's graphs are compiled: how many nodes they had before, all of which the compiler took.
    #[serde(default)]
    pub compiled_nodes: Option<CompiledNodes>,
    pub sink: Option<Sink>,
    pub quantization: Option<Quantization>,
}

/// What layers with a window over the past have of their own, where others have none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowLayers {
    /// How many tokens a token sees by `mask_window`, which is there with it.
    pub window: Option<usize>,
    /// Those of `cos_window` and `sin_window`, which are there with it; as many as those of `cos` and `sin`.
    pub rotary_frequencies: Option<Vec<f64>>,
}

fn one() -> f64 {
    1.0
}

/// How numbers are kept in the NPU's graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Weights in 8 bits, activations in 16.
    W8a16,
    /// 16-bit floating point: not quantized.
    Fp16,
}

/// What the NPU's graphs are compiled for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpuTarget {
    /// The system on a chip, as `ortalk build --soc` names it: "x-elite".
    pub soc: String,
    /// QNN's number of it.
    pub soc_model: u32,
    /// The Hexagon architecture: 73 for v73.
    pub htp_arch: u32,
}

/// File names in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleFiles {
    pub embeddings: String,
    pub prefill: String,
    pub decode: String,
    pub lm_head: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompiledNodes {
    pub prefill: usize,
    pub decode: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    pub token: u32,
    /// Float32, little endian: for each layer the keys `[kv_heads, head_size]` (rotated for position 0), then the values.
    pub file: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantization {
    pub hidden_states: TensorQuantization,
    pub output_hidden_states: TensorQuantization,
    pub cos: TensorQuantization,
    pub sin: TensorQuantization,
    pub mask: TensorQuantization,
    /// For each layer; past and new rows share them.
    pub keys: Vec<TensorQuantization>,
    pub values: Vec<TensorQuantization>,
}

/// real = (code - zero point) * scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorQuantization {
    pub r#type: IntegerType,
    pub scale: f32,
    pub zero_point: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntegerType {
    U8,
    U16,
    I16,
}

impl IntegerType {
    /// The smallest and the largest code.
    pub fn range(self) -> (i32, i32) {
        match self {
            Self::U8 => (0, 255),
            Self::U16 => (0, 65_535),
            Self::I16 => (-32_768, 32_767),
        }
    }
}

impl TensorQuantization {
    /// The nearest code, at the ends of the range for what lies outside.
    pub fn quantize(&self, real: f32) -> i32 {
        let (least, most) = self.r#type.range();
        // Saturates, and makes 0 of what is no number.
        let code = (f64::from(real) / f64::from(self.scale)).round_ties_even() as i64;
        code.saturating_add(i64::from(self.zero_point)).clamp(i64::from(least), i64::from(most)) as i32
    }

    pub fn dequantize(&self, code: i32) -> f32 {
        (code - self.zero_point) as f32 * self.scale
    }
}

impl NpuBundle {
    /// Reads and checks the description in a model folder. Files that it names are not opened.
    pub fn read(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join(NPU_FILE);
        let bundle: Self = read_json(&path)?;
        bundle.check().map_err(|reason| ModelError::Invalid { path, reason })?;
        Ok(bundle)
    }

    /// The names of the inputs that say where tokens are, in their order.
    pub fn position_inputs(&self) -> impl Iterator<Item = &'static str> {
        let own = self.window_layers.as_ref();
        let rotation = own.filter(|own| own.rotary_frequencies.is_some()).map(|_| ["cos_window", "sin_window"]);
        let mask = own.filter(|own| own.window.is_some()).map(|_| "mask_window");
        ["cos", "sin"].into_iter().chain(rotation.into_iter().flatten()).chain(["mask"]).chain(mask)
    }

    /// The first of the files that are named here and are not in the folder.
    pub fn missing_file(&self, folder: &Path) -> Option<&str> {
        let BundleFiles { embeddings, prefill, decode, lm_head } = &self.files;
        let sink = self.sink.as_ref().map(|sink| &sink.file);
        let mut files = [embeddings, prefill, decode, lm_head].into_iter().chain(sink);
        files.find(|file| !folder.join(file).is_file()).map(String::as_str)
    }

    /// What the types cannot say.
    fn check(&self) -> Result<(), String> {
        if self.format != NPU_FORMAT {
            return Err(format!(
                "format is {}, but this ortalk reads format {NPU_FORMAT}; build the folder again with `ortalk build`",
                self.format
            ));
        }
        for (name, value) in [
            ("chunk", self.chunk),
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("kv_heads", self.kv_heads),
            ("head_size", self.head_size),
            ("vocabulary", self.vocabulary),
        ] {
            if value == 0 || value > 1 << 24 {
                return Err(format!("{name} is {value}; expected 1 to {}", 1 << 24));
            }
        }
        if self.context < 2 || self.context > 1 << 20 {
            return Err(format!("context is {}; expected 2 to {}", self.context, 1 << 20));
        }
        if self.chunk > self.context {
            return Err(format!("chunk is {}; expected at most the context of {}", self.chunk, self.context));
        }
        let found = self.rotary_frequencies.len();
        if found == 0 || found * 2 > self.head_size {
            let most = self.head_size / 2;
            return Err(format!("there are {found} rotary_frequencies; expected 1 to {most}, half of head_size"));
        }
        let own = self.window_layers.as_ref();
        if let Some(other) = own.and_then(|own| own.rotary_frequencies.as_ref()).filter(|own| own.len() != found) {
            return Err(format!("window_layers has {} rotary_frequencies; expected {found}", other.len()));
        }
        if !self.rotary_magnitude.is_finite() || self.rotary_magnitude <= 0.0 {
            return Err(format!("rotary_magnitude is {}; expected a number above 0", self.rotary_magnitude));
        }
        if self.window == Some(0) || own.is_some_and(|own| own.window == Some(0)) {
            return Err("a window is 0; expected at least 1, as a token sees itself".to_owned());
        }
        let Some(quantization) = &self.quantization else { return Ok(()) };
        for (name, list) in [("keys", &quantization.keys), ("values", &quantization.values)] {
            if list.len() != self.layers {
                return Err(format!("quantization.{name} has {} entries; expected {} layers", list.len(), self.layers));
            }
        }
        let Quantization { hidden_states, output_hidden_states, cos, sin, mask, keys, values } = quantization;
        let all = [hidden_states, output_hidden_states, cos, sin, mask].into_iter().chain(keys).chain(values);
        for tensor in all {
            let (least, most) = tensor.r#type.range();
            if !tensor.scale.is_finite() || tensor.scale <= 0.0 || !(least..=most).contains(&tensor.zero_point) {
                return Err(format!(
                    "quantization has scale {} and zero_point {}; expected a scale above 0 and a zero point from {least} \
                     to {most}",
                    tensor.scale, tensor.zero_point
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn quantization(r#type: IntegerType, scale: f32, zero_point: i32) -> TensorQuantization {
        TensorQuantization { r#type, scale, zero_point }
    }

    #[test]
    fn codes() {
        let half = quantization(IntegerType::U8, 0.5, 10);
        for (real, code) in [(0.0, 10), (1.0, 12), (-100.0, 0), (1e30, 255), (f32::NAN, 10), (0.25, 10), (0.75, 12)] {
            assert_eq!(half.quantize(real), code, "{real}");
        }
        assert_eq!(half.dequantize(255), 122.5);
        assert_eq!(quantization(IntegerType::I16, 1.0, 0).quantize(-1e9), -32_768);
    }

    fn bundle() -> NpuBundle {
        let code = quantization(IntegerType::U16, 0.1, 100);
        NpuBundle {
            format: NPU_FORMAT,
            precision: Precision::W8a16,
            target: NpuTarget { soc: "x-elite".into(), soc_model: 60, htp_arch: 73 },
            context: 512,
            chunk: 64,
            layers: 1,
            hidden: 8,
            heads: 2,
            kv_heads: 1,
            head_size: 4,
            vocabulary: 100,
            rotary_frequencies: vec![1.0, 0.1],
            rotary_magnitude: 1.0,
            window: None,
            window_layers: Some(WindowLayers { window: Some(32), rotary_frequencies: Some(vec![1.0, 0.5]) }),
            masked: -1000.0,
            files: BundleFiles {
                embeddings: "embeddings.onnx".into(),
                prefill: "prefill.onnx".into(),
                decode: "decode.onnx".into(),
                lm_head: "lm_head.onnx".into(),
            },
            compiled_nodes: Some(CompiledNodes { prefill: 300, decode: 290 }),
            sink: Some(Sink { token: 1, file: "sink.bin".into() }),
            quantization: Some(Quantization {
                hidden_states: code,
                output_hidden_states: code,
                cos: code,
                sin: code,
                mask: code,
                keys: vec![code],
                values: vec![code],
            }),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(NPU_FILE), serde_json::to_vec(&bundle()).unwrap()).unwrap();
        assert_eq!(NpuBundle::read(dir.path()).unwrap(), bundle());
    }

    #[test]
    fn a_file_that_is_not_there_is_found_out() {
        let (dir, bundle) = (tempfile::tempdir().unwrap(), bundle());
        for file in ["embeddings.onnx", "prefill.onnx", "decode.onnx", "lm_head.onnx", "sink.bin"] {
            assert_eq!(bundle.missing_file(dir.path()), Some(file));
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        assert_eq!(bundle.missing_file(dir.path()), None);
    }

    #[test]
    fn older_bundles_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = serde_json::to_value(bundle()).unwrap();
        for key in ["rotary_magnitude", "window", "window_layers"] {
            old.as_object_mut().unwrap().remove(key);
        }
        std::fs::write(dir.path().join(NPU_FILE), old.to_string()).unwrap();
        let found = NpuBundle::read(dir.path()).unwrap();
        assert_eq!(found, NpuBundle { window_layers: None, ..bundle() });
        assert_eq!(found.position_inputs().collect::<Vec<_>>(), ["cos", "sin", "mask"]);
    }

    #[test]
    fn layers_with_a_window_have_inputs_of_their_own() {
        let all = ["cos", "sin", "cos_window", "sin_window", "mask", "mask_window"];
        assert_eq!(bundle().position_inputs().collect::<Vec<_>>(), all);
        let own = WindowLayers { window: Some(8), rotary_frequencies: None };
        let found = NpuBundle { window_layers: Some(own), ..bundle() };
        assert_eq!(found.position_inputs().collect::<Vec<_>>(), ["cos", "sin", "mask", "mask_window"]);
    }

    type Change = fn(&mut NpuBundle);

    #[test]
    fn what_does_not_fit_is_named() {
        let cases: [(Change, &str); 9] = [
            (|b| b.format = 2, "format is 2"),
            (|b| b.layers = 0, "layers is 0"),
            (|b| b.context = 32, "chunk is 64"),
            (|b| b.rotary_frequencies = vec![1.0; 3], "there are 3 rotary_frequencies; expected 1 to 2"),
            (|b| b.rotary_frequencies = vec![1.0], "window_layers has 2 rotary_frequencies; expected 1"),
            (|b| b.rotary_magnitude = f64::NAN, "rotary_magnitude is NaN"),
            (|b| b.window = Some(0), "a window is 0"),
            (|b| b.quantization.as_mut().unwrap().keys.clear(), "quantization.keys has 0 entries"),
            (|b| b.quantization.as_mut().unwrap().values[0].scale = f32::NAN, "scale NaN"),
        ];
        for (change, expected) in cases {
            let mut changed = bundle();
            change(&mut changed);
            let error = changed.check().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
