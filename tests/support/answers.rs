//! What transformers answers with the tiny models of `tests/fixtures/make_tiny_models.py`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// What they were asked.
pub const PROMPT: &str = "hello world. abc";

/// The likeliest token each time.
#[derive(Deserialize)]
pub struct Answer {
    pub tokens: Vec<u32>,
    /// By how much each leads before the second likeliest, as a part of the largest logit.
    pub leads: Vec<f32>,
}

impl Answer {
    /// The first tokens, all of which lead by more than this.
    pub fn sure(&self, lead: f32) -> &[u32] {
        &self.tokens[..self.leads.iter().take_while(|found| **found > lead).count()]
    }
}

/// A GGUF file or a checkpoint folder.
pub fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models").join(name)
}

/// The models that have learnt something, of every architecture, and the random ones.
pub fn answers() -> [Vec<(String, Answer)>; 2] {
    let answers: Value = serde_json::from_slice(&std::fs::read(model("answers.json")).unwrap()).unwrap();
    let answers = answers.as_object().unwrap().clone().into_iter();
    let answers = answers.map(|(name, answer)| (name, serde_json::from_value(answer).unwrap()));
    let (trained, random): (Vec<_>, Vec<_>) = answers.partition(|(name, _)| name.contains("-trained"));
    for architecture in ["llama", "mistral", "qwen2", "qwen3", "gemma3", "phi3"] {
        assert!(trained.iter().any(|(name, _): &(String, Answer)| name.starts_with(architecture)), "{architecture}");
    }
    [trained, random]
}
