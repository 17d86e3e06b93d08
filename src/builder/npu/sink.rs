//! The attention sink: the first token of every conversation, whose keys and values are constants of the bundle.

use std::path::Path;

use crate::decoder::{DecodeError, StaticDecoder};
use crate::model::{ModelFolder, NpuBundle, TemplateMessage};
use crate::onnx_runtime::{CpuSessionOptions, OnnxRuntime};

/// The token that every conversation starts with, or nothing where conversations start differently.
pub fn first_token(model: &ModelFolder) -> Option<u32> {
    let message = |role, content| TemplateMessage { role, content };
    let user = message("user", "What is the capital of France?");
    let conversations: [&[TemplateMessage<'_>]; 5] = [
        &[user],
        &[message("user", "a")],
        &[message("user", "1 + 1 = ?")],
        &[message("system", "Be brief."), user],
        &[user, message("assistant", "Paris."), message("user", "And of Italy?")],
    ];
    let mut first = None;
    for conversation in conversations {
        // Templates may refuse a system message.
        let Ok(text) = model.template.render(conversation, true) else { continue };
        let token = *model.tokenizer.encode(&text).ok()?.first()?;
        if *first.get_or_insert(token) != token {
            return None;
        }
    }
    first
}

/// The keys and values of `token` at position 0, as the contract has them in the sink's file. `bundle` is in float and has
/// no sink; its graphs run on the CPU.
pub fn keys_and_values(
    runtime: &OnnxRuntime,
    folder: &Path,
    bundle: &NpuBundle,
    token: u32,
    options: CpuSessionOptions,
) -> Result<Vec<u8>, DecodeError> {
    // For one token.
    let session = |path: &Path| runtime.mapped_cpu_session(path, options);
    let mut decoder = StaticDecoder::new(runtime, folder, bundle.clone(), options, &session)?;
    let mut bytes = Vec::new();
    // The new rows come layer by layer, keys before values.
    decoder.forward_observed(&[token], &mut |observed| {
        if observed.name.starts_with("present.") {
            bytes.extend(observed.values.iter().flat_map(|value| value.to_le_bytes()));
        }
    })?;
    Ok(bytes)
}
