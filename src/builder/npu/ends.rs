//! The two ends of the decoder that run on the CPU: the lookup of embeddings, and the output projection. Both share one
//! data file, and one matrix where the model has them tied.
//!
//! In 8 bits as the CPU target stores them, or in float32 for the reference that quantized graphs are compared with.

use std::path::Path;

use crate::builder::architecture::{Dimensions, EMBEDDING, OUTPUT, find_tensor};
use crate::builder::decoder_graph::{scale_embedding, softcap};
use crate::builder::error::ModelError;
use crate::builder::gguf::Gguf;
use crate::builder::graph::{DataFile, GraphWriter, Opset, Size};
use crate::builder::matrices::{self, Accuracy, Product};
use crate::builder::precision::CpuPrecision;
use crate::builder::weights::{Rows, StoreError, store};
use crate::model::BundleFiles;
use crate::onnx_file::DataType;

/// The data file of both.
pub const DATA: &str = "vocabulary.onnx.data";

/// How the ends are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    Blocks,
    Floats,
}

/// Writes both graphs into `folder`.
pub fn write(
    gguf: &Gguf<'_>,
    dimensions: &Dimensions,
    storage: Storage,
    folder: &Path,
    files: &BundleFiles,
    threads: usize,
) -> Result<(), StoreError> {
    let rows = |name: &str| -> Result<Rows<'_, '_>, ModelError> {
        let (tensor, expected) = (find_tensor(gguf, name)?, vec![dimensions.hidden, dimensions.vocabulary]);
        if tensor.shape != expected {
            let (tensor, found) = (name.to_owned(), tensor.shape.clone());
            return Err(ModelError::TensorShape { tensor, found, expected });
        }
        Ok(Rows { tensor, interleaved_head: None })
    };
    let embedding = rows(EMBEDDING)?;
    let head = gguf.tensor(OUTPUT).map(|_| rows(OUTPUT)).transpose()?;
    let data = DataFile::create(folder, DATA)?;
    let hidden = [Size::Fixed(1), Size::Named("tokens"), Size::Fixed(dimensions.hidden)];

    let mut graph = GraphWriter::new("embeddings", Opset::V21, data);
    graph.input("input_ids", DataType::Int64, &[Size::Fixed(1), Size::Named("tokens")]);
    graph.output("hidden_states", DataType::Float, &hidden);
    let precision = match storage {
        Storage::Blocks => CpuPrecision::Int8,
        Storage::Floats => CpuPrecision::Fp32,
    };
    let layout = |rows| precision.layout(&[rows]);
    let mut stored = store(graph.data(), &[embedding], layout(embedding), threads, &mut |_| ())?;
    matrices::declare(&mut graph, "vocabulary", &stored);
    let looked_up = if dimensions.embedding_scale.is_some() { "embedding" } else { "hidden_states" };
    matrices::gather(&mut graph, "vocabulary", &stored, "input_ids", looked_up);
    scale_embedding(&mut graph, dimensions, looked_up, "hidden_states");
    let mut data = graph.finish(folder, &files.embeddings)?;

    if let Some(head) = head {
        stored = store(&mut data, &[head], layout(head), threads, &mut |_| ())?;
    }
    let mut graph = GraphWriter::new("lm_head", Opset::V21, data);
    graph.input("output_hidden_states", DataType::Float, &hidden);
    let logits = [Size::Fixed(1), Size::Named("tokens"), Size::Fixed(dimensions.vocabulary)];
    graph.output("logits", DataType::Float, &logits);
    matrices::declare(&mut graph, "head.values", &stored);
    let output = if dimensions.logit_softcap.is_some() { "head" } else { "logits" };
    let product = Product {
        name: "head",
        values: "head.values",
        stored: &stored,
        bias: None,
        // One position a token: reading the weights takes the time, so float32 costs little.
        accuracy: Accuracy::Float,
        input: "output_hidden_states",
        output,
    };
    matrices::multiply(&mut graph, &product)?;
    if let Some(cap) = dimensions.logit_softcap {
        softcap(&mut graph, cap, output, "logits");
    }
    graph.finish(folder, &files.lm_head)?;
    Ok(())
}
