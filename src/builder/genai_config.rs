//! `genai_config.json`, by which onnxruntime-genai (and ortalk) run a model folder, and `ortalk_build.json`, which says
//! where the folder comes from.
//!
//! The schema of the former is onnxruntime-genai's `src/config.h`; nothing of our own goes into it.

use serde_json::{Value, json};

use super::architecture::{Architecture, Dimensions};
use super::source::SpecialTokens;
use crate::model::NpuBundle;

/// How answers are sampled where nobody says otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingDefaults {
    /// 0 takes the most likely token every time.
    pub temperature: f32,
    /// Draw from the most likely tokens that together have this probability; 1 means all.
    pub top_p: f32,
    /// Draw from so many most likely tokens; 0 means all.
    pub top_k: u32,
}

impl Default for SamplingDefaults {
    fn default() -> Self {
        Self { temperature: 0.7, top_p: 0.9, top_k: 40 }
    }
}

/// The graphs of a model folder.
#[derive(Debug, Clone, Copy)]
pub enum Graphs<'b> {
    /// A file with `decoder_graph`'s inputs and outputs.
    One(&'b str),
    /// A bundle for an NPU.
    Bundle(&'b NpuBundle),
}

/// The contents of `genai_config.json`.
pub fn genai_config(
    architecture: &Architecture,
    dimensions: &Dimensions,
    special: &SpecialTokens,
    sampling: &SamplingDefaults,
    graphs: Graphs<'_>,
) -> Value {
    let (context, one) = match graphs {
        Graphs::One(_) => (dimensions.context, true),
        Graphs::Bundle(bundle) => (bundle.context, false),
    };
    let eos = match special.ends.as_slice() {
        [only] => json!(only),
        several => json!(several),
    };
    let mut model = json!({
        "context_length": context,
        "decoder": {
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
            "head_size": dimensions.head_size,
            "hidden_size": dimensions.hidden,
            "inputs": {
                "input_ids": "input_ids",
                "attention_mask": "attention_mask",
                "past_key_names": "past_key_values.%d.key",
                "past_value_names": "past_key_values.%d.value",
            },
            "outputs": {
                "logits": "logits",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
            "num_attention_heads": dimensions.heads,
            "num_hidden_layers": dimensions.layers,
            "num_key_value_heads": dimensions.kv_heads,
        },
        "eos_token_id": eos,
        "type": architecture.genai_type,
        "vocab_size": dimensions.vocabulary,
    });
    match graphs {
        Graphs::One(file) => model["decoder"]["filename"] = json!(file),
        Graphs::Bundle(bundle) => model["decoder"]["pipeline"] = pipeline(bundle),
    }
    if let Some(bos) = special.bos {
        model["bos_token_id"] = json!(bos);
    }
    // genai wants one; a token that ends answers pads as well as any.
    if let Some(padding) = special.padding.or(special.ends.first().copied()) {
        model["pad_token_id"] = json!(padding);
    }
    json!({
        "model": model,
        "search": {
            "do_sample": sampling.temperature > 0.0,
            "early_stopping": true,
            "length_penalty": 1.0,
            "max_length": context,
            "min_length": 0,
            "no_repeat_ngram_size": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
            "past_present_share_buffer": one,
            "repetition_penalty": 1.0,
            "temperature": decimal(sampling.temperature),
            "top_k": sampling.top_k,
            "top_p": decimal(sampling.top_p),
        },
    })
}

/// The stages of a bundle: what each takes and gives, and whether it runs on a prompt and on each token after it.
fn pipeline(bundle: &NpuBundle) -> Value {
    let cache = |names: &str| -> Vec<String> {
        let names = &names;
        (0..bundle.layers).flat_map(|layer| ["key", "value"].map(|part| format!("{names}.{layer}.{part}"))).collect()
    };
    let position_inputs: Vec<String> = bundle.position_inputs().map(str::to_owned).collect();
    let inputs = [vec!["hidden_states".to_owned()], position_inputs, cache("past_key_values")].concat();
    let outputs = [vec!["output_hidden_states".to_owned()], cache("present")].concat();
    let files = &bundle.files;
    let decoder = |file: &str, prompt: bool| {
        json!({
            "filename": file,
            "inputs": inputs,
            "outputs": outputs,
            "run_on_prompt": prompt,
            "run_on_token_gen": !prompt,
        })
    };
    json!([
        {"embeddings": {"filename": files.embeddings, "inputs": ["input_ids"], "outputs": ["hidden_states"]}},
        {"prefill": decoder(&files.prefill, true)},
        {"decode": decoder(&files.decode, false)},
        {"lm_head": {
            "filename": files.lm_head,
            "inputs": ["output_hidden_states"],
            "outputs": ["logits"],
            "is_lm_head": true,
        }},
    ])
}

/// A float32 as people wrote it: 0.7 and not 0.699999988079071.
fn decimal(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
