//! The two ends of the decoder that run on the CPU: the lookup of embeddings, and the output projection. Both share one
//! data file, and one matrix where the model has them tied.
//!
//! In 8 bits as the CPU target stores them, or in float32 for the reference that quantized graphs are compared with.

use std::path::Path;

use crate::builder::architecture::{Dimensions, EMBEDDING, OUTPUT, find_tensor};
use crate::builder::blockwise::{self, Accuracy};
use crate::builder::error::ModelError;
use crate::builder::gguf::Gguf;
use crate::builder::graph::{Attribute, DataFile, GraphWriter, ONNX, Opset, Region, Size, float_bytes};
use crate::builder::onnx_proto::DataType;
use crate::builder::weights::{Purpose, Rows, StoreError, choose_layout, store};
use crate::model::BundleFiles;

/// The data file of both.
pub const DATA: &str = "vocabulary.onnx.data";

/// Rows of float32 values written at a time.
const PIECE: usize = 1024;

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
    let looked_up = if dimensions.embedding_scale.is_some() { "embedding" } else { "hidden_states" };
    let mut matrix = match storage {
        Storage::Blocks => {
            let layout = choose_layout(&[embedding], Purpose::Vocabulary);
            let stored = store(graph.data(), &[embedding], layout, threads, &mut |_| ())?;
            blockwise::quants(&mut graph, "vocabulary.quants", &stored);
            blockwise::gather(&mut graph, "vocabulary.quants", &stored, "input_ids", looked_up);
            Matrix::Blocks(stored)
        }
        Storage::Floats => {
            let region = write_rows(embedding, graph.data())?;
            graph.external("vocabulary", DataType::Float, &shape(dimensions), region);
            let attributes = [Attribute::Int("axis", 0)];
            graph.node(ONNX, "Gather", &["vocabulary", "input_ids"], &[looked_up], &attributes);
            Matrix::Floats(region)
        }
    };
    if let Some(scale) = dimensions.embedding_scale {
        graph.inside("embedding.scale", DataType::Float, &[], float_bytes(&[scale]));
        graph.node(ONNX, "Mul", &[looked_up, "embedding.scale"], &["hidden_states"], &[]);
    }
    let mut data = graph.finish(folder, &files.embeddings)?;

    if let Some(head) = head {
        matrix = match storage {
            Storage::Blocks => {
                let layout = choose_layout(&[head], Purpose::Vocabulary);
                Matrix::Blocks(store(&mut data, &[head], layout, threads, &mut |_| ())?)
            }
            Storage::Floats => Matrix::Floats(write_rows(head, &mut data)?),
        };
    }
    let mut graph = GraphWriter::new("lm_head", Opset::V21, data);
    graph.input("output_hidden_states", DataType::Float, &hidden);
    let logits = [Size::Fixed(1), Size::Named("tokens"), Size::Fixed(dimensions.vocabulary)];
    graph.output("logits", DataType::Float, &logits);
    let output = if dimensions.logit_softcap.is_some() { "head/logits" } else { "logits" };
    match matrix {
        Matrix::Blocks(stored) => {
            blockwise::quants(&mut graph, "head.quants", &stored);
            let input = "output_hidden_states";
            // One position a token: reading the weights takes the time, so float32 costs little.
            blockwise::multiply(&mut graph, "head", "head.quants", &stored, None, Accuracy::Float, input, output)?;
        }
        Matrix::Floats(region) => {
            graph.external("head", DataType::Float, &shape(dimensions), region);
            // `Gemm` takes the matrix as it lies, and two dimensions.
            graph.integers("rows", &[2], &[-1, dimensions.hidden as i64]);
            graph.integers("positions", &[3], &[1, -1, dimensions.vocabulary as i64]);
            graph.node(ONNX, "Reshape", &["output_hidden_states", "rows"], &["head/rows"], &[]);
            graph.node(ONNX, "Gemm", &["head/rows", "head"], &["head/product"], &[Attribute::Int("transB", 1)]);
            graph.node(ONNX, "Reshape", &["head/product", "positions"], &[output], &[]);
        }
    }
    if let Some(cap) = dimensions.logit_softcap {
        blockwise::softcap(&mut graph, cap, output, "logits");
    }
    graph.finish(folder, &files.lm_head)?;
    Ok(())
}

enum Matrix {
    Blocks(crate::builder::weights::Stored),
    Floats(Region),
}

fn shape(dimensions: &Dimensions) -> [usize; 2] {
    [dimensions.vocabulary, dimensions.hidden]
}

/// Writes a matrix row by row as float32.
fn write_rows(rows: Rows<'_, '_>, data: &mut DataFile) -> Result<Region, StoreError> {
    let width = rows.tensor.shape[0];
    let region = data.reserve(rows.tensor.elements() as u64 * 4)?;
    for first in (0..rows.count()).step_by(PIECE) {
        let mut values = vec![0.0; rows.count().min(first + PIECE).saturating_sub(first) * width];
        for (index, row) in values.chunks_exact_mut(width).enumerate() {
            rows.read(first + index, row);
        }
        if !values.iter().all(|value| value.is_finite()) {
            return Err(ModelError::NotFinite { tensor: rows.tensor.name.to_string() }.into());
        }
        data.write(region.offset + (first * width) as u64 * 4, &float_bytes(&values))?;
    }
    Ok(region)
}
