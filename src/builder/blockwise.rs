//! Nodes whose matrices are stored in blocks (`weights::store`): ONNX Runtime's `MatMulNBits` and `GatherBlockQuantized`.

use std::io;

use super::graph::{Attribute, GraphWriter, MICROSOFT, ONNX, float_bytes};
use super::onnx_proto::DataType;
use super::repack::BLOCK;
use super::weights::Stored;

/// How a matrix product is computed (`MatMulNBits`' accuracy_level).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accuracy {
    /// In float32.
    Float = 1,
    /// With activations in 8 bits a block, as llama.cpp does.
    Int8 = 4,
}

/// Declares a matrix's quants as the initializer `name`.
pub fn quants(graph: &mut GraphWriter, name: &str, stored: &Stored) {
    let bytes = BLOCK * stored.layout.bits() / 8;
    graph.external(name, DataType::Uint8, &[stored.n, stored.blocks, bytes], stored.quants);
}

/// Looks rows of the matrix up by `ids`, `[1, n]`; its `quants` are declared. The output is `[1, n, K]`.
pub fn gather(graph: &mut GraphWriter, quants: &str, stored: &Stored, ids: &str, output: &str) {
    // The operator wants scales and zero points with as many dimensions as the data; the bytes are those of the product.
    let shape = [stored.n, stored.blocks, 1];
    graph.external("embedding.scales", DataType::Float, &shape, stored.scales);
    let mut inputs = vec![quants, ids, "embedding.scales"];
    if let Some(region) = stored.zero_points {
        graph.external("embedding.zero_points", DataType::Uint8, &shape, region);
        inputs.push("embedding.zero_points");
    }
    graph.node(
        MICROSOFT,
        "GatherBlockQuantized",
        &inputs,
        &["embedding/blocks"],
        &[
            Attribute::Int("bits", 8),
            Attribute::Int("block_size", BLOCK as i64),
            Attribute::Int("gather_axis", 0),
            Attribute::Int("quantize_axis", 2),
        ],
    );
    graph.integers("embedding.shape", &[3], &[0, 0, stored.k as i64]);
    graph.node(ONNX, "Reshape", &["embedding/blocks", "embedding.shape"], &[output], &[]);
}

/// Multiplies `input` with the matrix; its `quants` are declared, its other operands are named after `name`.
#[expect(clippy::too_many_arguments, reason = "these are the node's operands")]
pub fn multiply(
    graph: &mut GraphWriter,
    name: &str,
    quants: &str,
    stored: &Stored,
    bias: Option<&[f32]>,
    accuracy: Accuracy,
    input: &str,
    output: &str,
) -> io::Result<()> {
    let [scales, zero_points, bias_name] = ["scales", "zero_points", "bias"].map(|operand| format!("{name}.{operand}"));
    graph.external(&scales, DataType::Float, &[stored.n, stored.blocks], stored.scales);
    let mut inputs = vec![input, quants, &scales];
    if let Some(region) = stored.zero_points {
        graph.external(&zero_points, DataType::Uint8, &[stored.n, stored.blocks], region);
        inputs.push(&zero_points);
    }
    if let Some(bias) = bias {
        graph.floats(&bias_name, &[bias.len()], bias)?;
        // The operator's sixth input; the fifth is a group index of other quantizers.
        inputs.resize(5, "");
        inputs.push(&bias_name);
    }
    graph.node(
        MICROSOFT,
        "MatMulNBits",
        &inputs,
        &[output],
        &[
            Attribute::Int("K", stored.k as i64),
            Attribute::Int("N", stored.n as i64),
            Attribute::Int("bits", stored.layout.bits() as i64),
            Attribute::Int("block_size", BLOCK as i64),
            Attribute::Int("accuracy_level", accuracy as i64),
        ],
    );
    Ok(())
}

/// Keeps logits within -`cap` and `cap`: cap * tanh(logit / cap).
pub fn softcap(graph: &mut GraphWriter, cap: f32, input: &str, output: &str) {
    let [name, part, bounded] = ["cap", "part", "bounded"].map(|end| format!("{output}.{end}"));
    graph.inside(&name, DataType::Float, &[], float_bytes(&[cap]));
    graph.node(ONNX, "Div", &[input, &name], &[&part], &[]);
    graph.node(ONNX, "Tanh", &[&part], &[&bounded], &[]);
    graph.node(ONNX, "Mul", &[&bounded, &name], &[output], &[]);
}
