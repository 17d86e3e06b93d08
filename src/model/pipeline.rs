//! `decoder.pipeline` of a `genai_config.json`: a decoder that is split into several graphs, which run one after the other.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Map, Value};

/// The stages in the order in which they run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Pipeline(pub Vec<PipelineStage>);

#[derive(Debug, Clone, PartialEq)]
pub struct PipelineStage {
    pub name: String,
    pub graph: StageGraph,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StageGraph {
    pub filename: String,
    #[serde(default)]
    pub inputs: Vec<String>,
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Runs over a prompt.
    #[serde(default = "yes")]
    pub run_on_prompt: bool,
    /// Runs for each new token.
    #[serde(default = "yes")]
    pub run_on_token_gen: bool,
    #[serde(default)]
    pub is_lm_head: bool,
}

fn yes() -> bool {
    true
}

/// How a window moves over a prompt that a pipeline's graphs cannot take at once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SlidingWindow {
    /// Tokens in one pass over a prompt.
    #[serde(default)]
    pub window_size: usize,
    /// What fills a window that the prompt does not.
    #[serde(default)]
    pub pad_value: u32,
    #[serde(default)]
    pub alignment: Alignment,
    /// Whether keys and values move through the cache as tokens come, or stay where they are.
    #[serde(default = "yes")]
    pub slide_key_value_cache: bool,
}

/// The side of the window on which a prompt's end lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alignment {
    /// Padding comes behind the tokens.
    Left,
    #[default]
    Right,
}

/// Programs write one object with a key for each stage, alone or in a list, or a list of objects with one key each. The
/// order of the keys counts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Object(Map<String, Value>),
    List(Vec<Map<String, Value>>),
}

impl TryFrom<Written> for Pipeline {
    type Error = serde_json::Error;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let objects = match written {
            Written::Object(object) => vec![object],
            Written::List(objects) => objects,
        };
        let stages = objects.into_iter().flatten().map(|(name, value)| {
            let graph = serde_json::from_value(value)
                .map_err(|error| serde_json::Error::custom(format!("the pipeline stage '{name}': {error}")))?;
            Ok(PipelineStage { name, graph })
        });
        stages.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_way_to_write_one_gives_the_same_stages_in_order() {
        // Not in the alphabet's order, nor in its reverse.
        let one = r#""embeddings": {"filename": "e.onnx", "outputs": ["h"]}"#;
        let two = r#""context": {"filename": "c.onnx", "run_on_token_gen": false, "session_options": {"log_id": "x"}}"#;
        let three = r#""lm_head": {"filename": "l.onnx", "is_lm_head": true}"#;
        let written = [
            format!("{{{one}, {two}, {three}}}"),
            format!("[{{{one}, {two}, {three}}}]"),
            format!("[{{{one}}}, {{{two}}}, {{{three}}}]"),
        ];
        for written in written {
            let pipeline: Pipeline = serde_json::from_str(&written).unwrap();
            let found: Vec<_> = pipeline
                .0
                .iter()
                .map(|stage| {
                    let graph = &stage.graph;
                    (stage.name.as_str(), graph.filename.as_str(), graph.run_on_token_gen, graph.is_lm_head)
                })
                .collect();
            let expected = [
                ("embeddings", "e.onnx", true, false),
                ("context", "c.onnx", false, false),
                ("lm_head", "l.onnx", true, true),
            ];
            assert_eq!(found, expected, "{written}");
            assert_eq!(pipeline.0[0].graph.outputs, ["h"]);
        }
    }

    #[test]
    fn a_stage_without_a_file_is_named() {
        let error = serde_json::from_str::<Pipeline>(r#"[{"context": {"inputs": []}}]"#).unwrap_err().to_string();
        assert!(error.contains("'context'") && error.contains("filename"), "{error}");
    }

    #[test]
    fn a_window_has_the_defaults_of_genai() {
        let window: SlidingWindow = serde_json::from_str(r#"{"window_size": 64}"#).unwrap();
        assert_eq!((window.window_size, window.pad_value, window.slide_key_value_cache), (64, 0, true));
        assert_eq!(window.alignment, Alignment::Right);
    }
}
