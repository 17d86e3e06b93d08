//! The keys and values of the tokens so far: a tensor for the keys and one for the values of each layer, which both of a
//! bundle's graphs read.

use std::path::Path;

use super::buffer::Buffer;
use crate::decoder::DecodeError;
use crate::model::{NpuBundle, Sink};

pub struct Cache {
    /// Keys, then values, of each layer: `[1, kv_heads, context, head_size]`.
    past: Vec<Buffer>,
}

/// Makes the buffers for the keys, then the values of each layer, `rows` of them, named by `prefix`.
pub fn layer_buffers(bundle: &NpuBundle, prefix: &str, rows: usize) -> ort::Result<Vec<Buffer>> {
    let shape = [1, bundle.kv_heads, rows, bundle.head_size];
    let mut buffers = Vec::with_capacity(bundle.layers * 2);
    for layer in 0..bundle.layers {
        let quantization = bundle.quantization.as_ref();
        let (keys, values) = (quantization.map(|q| &q.keys[layer]), quantization.map(|q| &q.values[layer]));
        buffers.push(Buffer::new(format!("{prefix}.{layer}.key"), &shape, keys)?);
        buffers.push(Buffer::new(format!("{prefix}.{layer}.value"), &shape, values)?);
    }
    Ok(buffers)
}

impl Cache {
    /// Empty but for the sink, whose rows are read from its file in the folder.
    pub fn new(bundle: &NpuBundle, folder: &Path) -> Result<Self, DecodeError> {
        let past = layer_buffers(bundle, "past_key_values", bundle.context).map_err(DecodeError::run)?;
        let mut cache = Self { past };
        if let Some(sink) = &bundle.sink {
            let rows = read_sink(sink, folder, bundle)?;
            for (buffer, rows) in cache.past.iter_mut().zip(rows.chunks_exact(bundle.kv_heads * bundle.head_size)) {
                for (head, row) in rows.chunks_exact(bundle.head_size).enumerate() {
                    buffer.write(head * bundle.context * bundle.head_size, row.iter().copied());
                }
            }
        }
        Ok(cache)
    }

    pub fn past(&self) -> &[Buffer] {
        &self.past
    }

    /// Copies the first `rows` of each of the `new` buffers behind `position` tokens.
    pub fn append(&mut self, new: &[Buffer], position: usize, rows: usize) {
        for (past, new) in self.past.iter_mut().zip(new) {
            past.copy_rows(position, new, rows);
        }
    }
}

fn read_sink(sink: &Sink, folder: &Path, bundle: &NpuBundle) -> Result<Vec<f32>, DecodeError> {
    let path = folder.join(&sink.file);
    let bytes =
        std::fs::read(&path).map_err(|error| DecodeError::File { path: path.clone(), what: error.to_string() })?;
    let expected = bundle.layers * 2 * bundle.kv_heads * bundle.head_size * 4;
    if bytes.len() != expected {
        let what = format!("it has {} bytes; the keys and values of one token are {expected}", bytes.len());
        return Err(DecodeError::File { path, what });
    }
    Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
