//! Nodes that read a matrix as `weights::store` wrote it: the lookup of rows, and the product. A matrix in blocks takes ONNX
//! Runtime's `GatherBlockQuantized` and `MatMulNBits`, one of floats ONNX's `Gather` and ONNX Runtime's `FusedMatMul`, which
//! multiplies with the matrix as it lies.

use std::io;

use super::graph::{Attribute, GraphWriter, MICROSOFT, ONNX};
use super::repack::{BlockFormat, Layout};
use super::weights::Stored;
use crate::onnx_file::DataType;

/// How a product with a matrix in blocks is computed (`MatMulNBits`' accuracy_level). Others are computed in float32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accuracy {
    /// In float32.
    Float = 1,
    /// With activations in 8 bits a block, as llama.cpp does.
    Int8 = 4,
}

/// Declares a matrix's values as the initializer `name`.
pub fn declare(graph: &mut GraphWriter, name: &str, stored: &Stored) {
    let Stored { n, k, values, .. } = *stored;
    match stored.layout {
        Layout::Float32 => graph.external(name, DataType::Float, &[n, k], values),
        Layout::Float16 => graph.external(name, DataType::Float16, &[n, k], values),
        Layout::Blocks(BlockFormat { size, bits, .. }) => {
            graph.external(name, DataType::Uint8, &[n, k / size, size * bits / 8], values);
        }
    }
}

/// Looks rows of the matrix up by `ids`, `[1, n]`; its `values` are declared. The output is `[1, n, K]` in float32.
pub fn gather(graph: &mut GraphWriter, values: &str, stored: &Stored, ids: &str, output: &str) {
    let rows = [Attribute::Int("axis", 0)];
    match stored.layout {
        Layout::Float32 => graph.node(ONNX, "Gather", &[values, ids], &[output], &rows),
        Layout::Float16 => {
            graph.node(ONNX, "Gather", &[values, ids], &["embedding/half"], &rows);
            to_float32(graph, "embedding/half", output);
        }
        Layout::Blocks(format) => gather_blocks(graph, values, stored, format, ids, output),
    }
}

fn gather_blocks(graph: &mut GraphWriter, quants: &str, stored: &Stored, format: BlockFormat, ids: &str, output: &str) {
    // The operator wants scales and zero points with as many dimensions as the data; the bytes are those of the product.
    let shape = [stored.n, stored.k / format.size, 1];
    graph.external("embedding.scales", DataType::Float, &shape, stored.scales);
    let mut inputs = vec![quants, ids, "embedding.scales"];
    if let Some(region) = stored.zero_points {
        graph.external("embedding.zero_points", DataType::Uint8, &shape, region);
        inputs.push("embedding.zero_points");
    }
    let attributes = [
        Attribute::Int("bits", format.bits as i64),
        Attribute::Int("block_size", format.size as i64),
        Attribute::Int("gather_axis", 0),
        Attribute::Int("quantize_axis", 2),
    ];
    graph.node(MICROSOFT, "GatherBlockQuantized", &inputs, &["embedding/blocks"], &attributes);
    graph.integers("embedding.shape", &[3], &[0, 0, stored.k as i64]);
    graph.node(ONNX, "Reshape", &["embedding/blocks", "embedding.shape"], &[output], &[]);
}

/// A product of activations with a matrix.
#[derive(Debug, Clone, Copy)]
pub struct Product<'p> {
    /// Operands that the matrix has besides its values are named after it.
    pub name: &'p str,
    /// The name of the matrix's values, which are declared.
    pub values: &'p str,
    pub stored: &'p Stored,
    pub bias: Option<&'p [f32]>,
    pub accuracy: Accuracy,
    pub input: &'p str,
    pub output: &'p str,
}

/// Multiplies the input with the matrix and adds the bias.
pub fn multiply(graph: &mut GraphWriter, product: &Product<'_>) -> io::Result<()> {
    let Product { name, values, bias, .. } = *product;
    let bias_name = format!("{name}.bias");
    if let Some(bias) = bias {
        graph.floats(&bias_name, &[bias.len()], bias)?;
    }
    let bias = bias.map(|_| bias_name.as_str());
    match product.stored.layout {
        Layout::Float32 => multiply_floats(graph, product, values, bias),
        Layout::Float16 => {
            // ONNX Runtime does this once, when it loads the model.
            let widened = format!("{name}.widened");
            to_float32(graph, values, &widened);
            multiply_floats(graph, product, &widened, bias);
        }
        Layout::Blocks(format) => multiply_blocks(graph, product, format, bias),
    }
    Ok(())
}

fn multiply_floats(graph: &mut GraphWriter, product: &Product<'_>, values: &str, bias: Option<&str>) {
    let Product { input, output, .. } = *product;
    let turned = [Attribute::Int("transB", 1)];
    let Some(bias) = bias else {
        return graph.node(MICROSOFT, "FusedMatMul", &[input, values], &[output], &turned);
    };
    let plain = format!("{output}/product");
    graph.node(MICROSOFT, "FusedMatMul", &[input, values], &[&plain], &turned);
    graph.node(ONNX, "Add", &[&plain, bias], &[output], &[]);
}

fn multiply_blocks(graph: &mut GraphWriter, product: &Product<'_>, format: BlockFormat, bias: Option<&str>) {
    let Product { name, values, stored, accuracy, input, output, .. } = *product;
    let Stored { n, k, .. } = *stored;
    let [scales, zero_points] = ["scales", "zero_points"].map(|operand| format!("{name}.{operand}"));
    graph.external(&scales, DataType::Float, &[n, k / format.size], stored.scales);
    let mut inputs = vec![input, values, &scales];
    if let Some(region) = stored.zero_points {
        graph.external(&zero_points, DataType::Uint8, &[n, format.zero_point_bytes(k)], region);
        inputs.push(&zero_points);
    }
    if let Some(bias) = bias {
        // The operator's sixth input; the fifth is a group index of other quantizers.
        inputs.resize(5, "");
        inputs.push(bias);
    }
    let attributes = [
        Attribute::Int("K", k as i64),
        Attribute::Int("N", n as i64),
        Attribute::Int("bits", format.bits as i64),
        Attribute::Int("block_size", format.size as i64),
        Attribute::Int("accuracy_level", accuracy as i64),
    ];
    graph.node(MICROSOFT, "MatMulNBits", &inputs, &[output], &attributes);
}

fn to_float32(graph: &mut GraphWriter, input: &str, output: &str) {
    graph.node(ONNX, "Cast", &[input], &[output], &[Attribute::Int("to", i32::from(DataType::Float).into())]);
}
