//! `genai_config.json`: the part of it that ortalk reads. The format is onnxruntime-genai's (`src/config.h` there, from
//! which the defaults come); keys that are not read are left alone, since other programs' folders have many.

use serde::Deserialize;

use super::pipeline::{Pipeline, SlidingWindow};
use super::session_options::SessionOptions;

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GenaiConfig {
    pub model: ModelConfig,
    #[serde(default)]
    pub search: SearchConfig,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ModelConfig {
    #[serde(rename = "type")]
    pub architecture: String,
    /// The longest prompt and answer together, in tokens.
    pub context_length: usize,
    pub vocab_size: usize,
    #[serde(default)]
    pub eos_token_id: TokenIds,
    pub decoder: DecoderConfig,
}

/// One id or a list of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct TokenIds(pub Vec<u32>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a token's number or a list of them was expected")]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

impl From<OneOrMany> for TokenIds {
    fn from(ids: OneOrMany) -> Self {
        match ids {
            OneOrMany::One(id) => Self(vec![id]),
            OneOrMany::Many(ids) => Self(ids),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DecoderConfig {
    /// The graph of a decoder that is in one piece.
    pub filename: Option<String>,
    /// The graphs of one that is not.
    #[serde(default)]
    pub pipeline: Pipeline,
    pub sliding_window: Option<SlidingWindow>,
    #[serde(default)]
    pub session_options: SessionOptions,
    #[serde(default)]
    pub hidden_size: usize,
    pub head_size: usize,
    pub num_hidden_layers: usize,
    pub num_key_value_heads: usize,
    #[serde(default)]
    pub inputs: DecoderInputs,
    #[serde(default)]
    pub outputs: DecoderOutputs,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DecoderInputs {
    pub input_ids: String,
    pub attention_mask: String,
    pub position_ids: String,
    /// With `%d` for the layer.
    pub past_key_names: String,
    pub past_value_names: String,
    pub past_sequence_length: String,
    pub total_sequence_length: String,
}

impl Default for DecoderInputs {
    fn default() -> Self {
        Self {
            input_ids: "input_ids".into(),
            attention_mask: "attention_mask".into(),
            position_ids: "position_ids".into(),
            past_key_names: "past_key_values.%d.key".into(),
            past_value_names: "past_key_values.%d.value".into(),
            past_sequence_length: "past_sequence_length".into(),
            total_sequence_length: "total_sequence_length".into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DecoderOutputs {
    pub logits: String,
    pub present_key_names: String,
    pub present_value_names: String,
}

impl Default for DecoderOutputs {
    fn default() -> Self {
        Self {
            logits: "logits".into(),
            present_key_names: "present.%d.key".into(),
            present_value_names: "present.%d.value".into(),
        }
    }
}

/// How the folder's maker suggests to sample.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SearchConfig {
    pub do_sample: bool,
    pub temperature: Option<f32>,
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
}

impl GenaiConfig {
    /// What the types cannot say. Sizes beyond those of any model would only exhaust the machine.
    pub(super) fn check(&self) -> Result<(), String> {
        let model = &self.model;
        let decoder = &model.decoder;
        for (name, value, most) in [
            ("model.context_length", model.context_length, i32::MAX as usize),
            ("model.vocab_size", model.vocab_size, 1 << 24),
            ("model.decoder.head_size", decoder.head_size, 1 << 16),
            ("model.decoder.num_hidden_layers", decoder.num_hidden_layers, 1 << 12),
            ("model.decoder.num_key_value_heads", decoder.num_key_value_heads, 1 << 16),
        ] {
            if value == 0 {
                return Err(format!("{name} is 0; a model needs at least 1"));
            }
            if value > most {
                return Err(format!("{name} is {value}; no model has more than {most}"));
            }
        }
        Ok(())
    }

    /// What a folder must say that has no other description of its graphs.
    pub(super) fn check_graphs(&self) -> Result<(), String> {
        let decoder = &self.model.decoder;
        if decoder.filename.is_none() && decoder.pipeline.0.is_empty() {
            return Err("model.decoder has neither a filename nor a pipeline, so there is no graph to run".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(eos: &str, extra: &str) -> GenaiConfig {
        parse_graphs(r#""filename": "m.onnx""#, eos, extra)
    }

    fn parse_graphs(graphs: &str, eos: &str, extra: &str) -> GenaiConfig {
        serde_json::from_str(&format!(
            r#"{{"model": {{"type": "llama", "context_length": 64, "vocab_size": 10, "eos_token_id": {eos}, "decoder":
            {{{graphs}, "head_size": 4, "num_hidden_layers": 1, "num_key_value_heads": 1}}}},
            "search": {{"do_sample": true {extra}}}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn stop_tokens_are_one_or_many() {
        assert_eq!(parse("2", "").model.eos_token_id.0, [2]);
        assert_eq!(parse("[2, 0]", "").model.eos_token_id.0, [2, 0]);
    }

    #[test]
    fn names_have_the_defaults_of_genai() {
        let config = parse("2", "");
        assert_eq!(config.model.decoder.inputs.past_key_names, "past_key_values.%d.key");
        assert_eq!(config.model.decoder.outputs.present_value_names, "present.%d.value");
        assert_eq!(config.model.decoder.inputs.past_sequence_length, "past_sequence_length");
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.check_graphs(), Ok(()));
    }

    #[test]
    fn a_zero_size_is_named() {
        let mut config = parse("2", ", \"unknown\": 1");
        config.model.decoder.head_size = 0;
        assert!(config.check().unwrap_err().contains("head_size is 0"));
        config.model.decoder.head_size = usize::MAX;
        assert!(config.check().unwrap_err().contains("no model has more than 65536"));
    }

    #[test]
    fn there_is_a_graph_or_a_pipeline() {
        let pipeline = parse_graphs(r#""pipeline": {"a": {"filename": "a.onnx"}}"#, "2", "");
        assert_eq!(pipeline.check_graphs(), Ok(()));
        assert_eq!(pipeline.model.decoder.filename, None);
        let none = parse_graphs(r#""pipeline": []"#, "2", "");
        assert!(none.check_graphs().unwrap_err().contains("neither a filename nor a pipeline"));
    }
}
