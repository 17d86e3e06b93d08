//! Which stage of a pipeline does what; pipelines that are laid out otherwise are refused.

use std::path::Path;

use ort::session::Session;

use crate::decoder::DecodeError;
use crate::decoder::ends::EndNames;
use crate::model::{Alignment, GenaiConfig, StageGraph};
use crate::onnx_runtime::RuntimeError;

#[derive(Debug)]
pub struct Layout<'c> {
    pub embeddings: &'c StageGraph,
    /// In the order in which they run over a window of a prompt.
    pub context: Vec<&'c StageGraph>,
    /// In the order in which they run for a token.
    pub iterator: Vec<&'c StageGraph>,
    pub head: &'c StageGraph,
    pub window: usize,
    pub padding: u32,
}

impl<'c> Layout<'c> {
    /// The error says what is different.
    pub fn of(config: &'c GenaiConfig) -> Result<Self, String> {
        let decoder = &config.model.decoder;
        let stages = &decoder.pipeline.0;
        let Some(window) = &decoder.sliding_window else {
            return Err("it has no sliding_window, so it is not known how many tokens a prompt's graph takes".into());
        };
        // Qualcomm AI Hub's own: masks and positions are made by graphs, the cache is quantized and moves.
        let is_ai_hub = stages.iter().any(|stage| stage.name.contains("processor") && stage.name.contains("position"));
        if is_ai_hub || window.slide_key_value_cache || window.alignment != Alignment::Left {
            let names: Vec<_> = stages.iter().map(|stage| stage.name.as_str()).collect();
            return Err(format!(
                "its cache slides, as in Qualcomm AI Hub's layout (stages {}), and only pipelines that update their cache \
                 in place run here; build the model from its GGUF file with `ortalk build --target npu`",
                names.join(", ")
            ));
        }
        if window.window_size == 0 || decoder.hidden_size == 0 {
            return Err("its sliding_window.window_size or hidden_size is 0 or missing".into());
        }
        let (mut embeddings, mut head, mut context, mut iterator) = (None, None, Vec::new(), Vec::new());
        for stage in stages {
            let graph = &stage.graph;
            match (graph.run_on_prompt, graph.run_on_token_gen) {
                (true, false) => context.push(graph),
                (false, true) => iterator.push(graph),
                (true, true) if graph.inputs.contains(&decoder.inputs.input_ids) => embeddings = Some(graph),
                (true, true) if graph.is_lm_head || graph.outputs.contains(&decoder.outputs.logits) => {
                    head = Some(graph);
                }
                _ => return Err(format!("its stage '{}' is not known here", stage.name)),
            }
        }
        match (embeddings, head) {
            (Some(embeddings), Some(head)) if !context.is_empty() && !iterator.is_empty() => {
                let (window, padding) = (window.window_size, window.pad_value);
                Ok(Self { embeddings, context, iterator, head, window, padding })
            }
            _ => Err("it lacks one of the stages embeddings, context, iterator and lm_head".into()),
        }
    }
}

/// Opens the graphs of stages; each with its file's name.
pub fn open(
    stages: &[&StageGraph],
    folder: &Path,
    session: &dyn Fn(&Path) -> Result<Session, RuntimeError>,
) -> Result<Vec<(String, Session)>, DecodeError> {
    let open = |stage: &&StageGraph| Ok((stage.filename.clone(), session(&folder.join(&stage.filename))?));
    stages.iter().map(open).collect()
}

/// The names of what goes into and comes out of a graph that has one of each.
pub fn end_names(session: &Session, graph: &str) -> Result<EndNames, String> {
    match (session.inputs(), session.outputs()) {
        ([input], [output]) => {
            Ok(EndNames { graph: graph.to_owned(), input: input.name().to_owned(), output: output.name().to_owned() })
        }
        (inputs, outputs) => {
            Err(format!("has {} inputs and {} outputs; expected one of each", inputs.len(), outputs.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn config(window: &str, pipeline: &str) -> GenaiConfig {
        serde_json::from_str(&format!(
            r#"{{"model": {{"type": "decoder-pipeline", "context_length": 64, "vocab_size": 10, "decoder": {{
            "hidden_size": 8, "head_size": 4, "num_hidden_layers": 1, "num_key_value_heads": 1,
            "sliding_window": {window}, "pipeline": [{pipeline}]}}}}}}"#
        ))
        .unwrap()
    }

    const IN_PLACE: &str =
        r#"{"window_size": 64, "alignment": "left", "slide_key_value_cache": false, "pad_value": 3}"#;
    const EMBEDDINGS: &str = r#"{"embedding": {"filename": "e.onnx", "inputs": ["input_ids"]}}"#;
    const CONTEXT: &str = r#"{"prompt-processor": {"filename": "c.onnx", "run_on_token_gen": false}}"#;
    const ITERATOR: &str = r#"{"token-generator": {"filename": "i.onnx", "run_on_prompt": false}}"#;
    const HEAD: &str = r#"{"transformer-head": {"filename": "h.onnx", "outputs": ["logits"]}}"#;

    #[test]
    fn stages_are_told_by_what_they_do() {
        let config = config(IN_PLACE, &[EMBEDDINGS, CONTEXT, CONTEXT, ITERATOR, HEAD].join(","));
        let layout = Layout::of(&config).unwrap();
        assert_eq!((layout.window, layout.padding), (64, 3));
        assert_eq!((layout.context.len(), layout.iterator.len()), (2, 1));
        assert_eq!(layout.iterator[0].filename, "i.onnx");
        assert_eq!((layout.embeddings.filename.as_str(), layout.head.filename.as_str()), ("e.onnx", "h.onnx"));
    }

    #[test]
    fn other_layouts_are_named() {
        let hub = [
            r#"{"position-processor": {"filename": "p.onnx"}}"#,
            r#"{"quantizer": {"filename": "q.onnx"}}"#,
            CONTEXT,
            ITERATOR,
        ]
        .join(",");
        let cases = [
            (
                r#"{"window_size": 128, "pad_value": 128}"#,
                hub.as_str(),
                "Qualcomm AI Hub's layout (stages position-proc",
            ),
            (IN_PLACE, &[EMBEDDINGS, CONTEXT, HEAD].join(","), "lacks one of the stages"),
            (IN_PLACE, r#"{"other": {"filename": "o.onnx"}}"#, "stage 'other'"),
            ("null", EMBEDDINGS, "no sliding_window"),
        ];
        for (window, pipeline, expected) in cases {
            let config = config(window, pipeline);
            let error = Layout::of(&config).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
