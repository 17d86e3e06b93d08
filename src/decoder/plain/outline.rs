//! What a graph takes and gives, as `contract` asks for it: ports by their types and sizes, and which operators take them.

use std::collections::HashSet;
use std::path::Path;

use ort::value::TensorElementType;

use crate::decoder::DecodeError;
use crate::onnx_file::{Dimension, DimensionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};

/// A file's graph. Graphs within nodes are not looked into.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphOutline {
    /// That have to be fed.
    pub inputs: Vec<GraphPort>,
    /// That have a default.
    pub optional_inputs: Vec<GraphPort>,
    pub outputs: Vec<GraphPort>,
    pub nodes: Vec<GraphNode>,
    /// How many positions its tables of cosines and sines have rows for; `None` where it has no such tables, or computes them.
    pub rotary_positions: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GraphPort {
    pub name: String,
    /// `None` where it is no tensor, or one of a type that is not known here.
    pub element: Option<TensorElementType>,
    /// `None` for sizes that differ from run to run.
    pub shape: Vec<Option<usize>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphNode {
    pub operator: String,
    pub inputs: Vec<String>,
}

impl GraphOutline {
    /// Takes as long as the graph's nodes do: weights are left where they lie.
    pub fn read(path: &Path) -> Result<Self, DecodeError> {
        let wrong = |what: String| DecodeError::File { path: path.into(), what };
        let model = ModelProto::read(path).map_err(|error| wrong(error.to_string()))?;
        let graph =
            model.graph.ok_or_else(|| wrong("it is no ONNX file, or damaged: there is no graph in it".into()))?;
        Ok(Self::of(graph))
    }

    fn of(graph: GraphProto) -> Self {
        let rotary_positions = rotary_positions(&graph);
        let defaults: HashSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
        // No port that could be bound has no name.
        let named = |ports: &[ValueInfoProto]| -> Vec<_> {
            ports.iter().map(GraphPort::of).filter(|port| !port.name.is_empty()).collect()
        };
        let (optional_inputs, inputs) =
            named(&graph.input).into_iter().partition(|port| defaults.contains(port.name.as_str()));
        let node = |node: NodeProto| GraphNode { operator: node.op_type.unwrap_or_default(), inputs: node.input };
        Self {
            inputs,
            optional_inputs,
            outputs: named(&graph.output),
            nodes: graph.node.into_iter().map(node).collect(),
            rotary_positions,
        }
    }

    /// The nodes that take `input`.
    pub fn takers<'g>(&'g self, input: &str) -> impl Iterator<Item = &'g GraphNode> {
        self.nodes.iter().filter(move |node| node.inputs.iter().any(|name| name == input))
    }
}

impl GraphPort {
    fn of(info: &ValueInfoProto) -> Self {
        let tensor = info.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let size = |dim: &DimensionProto| match dim.value {
            Some(Dimension::Value(size)) => usize::try_from(size).ok(),
            _ => None,
        };
        Self {
            name: info.name().to_owned(),
            element: tensor.and_then(|tensor| element(tensor.elem_type?)),
            shape: tensor.iter().flat_map(|tensor| &tensor.shape).flat_map(|shape| &shape.dim).map(size).collect(),
        }
    }

    /// For people: "f32 [1, n, 36]".
    pub fn kind(&self) -> String {
        let sizes: Vec<_> =
            self.shape.iter().map(|size| size.map_or("n".to_owned(), |size| size.to_string())).collect();
        let element = self.element.map_or("of an unknown type".to_owned(), |element| element.to_string());
        format!("{element} [{}]", sizes.join(", "))
    }
}

fn rotary_positions(graph: &GraphProto) -> Option<usize> {
    // Where these operators have the tables among their inputs, in ONNX Runtime's own domain and in ONNX's.
    let tables = graph.node.iter().flat_map(|node| match node.op_type() {
        "GroupQueryAttention" => node.input.get(7..9),
        "RotaryEmbedding" if node.domain() == "com.microsoft" => node.input.get(2..4),
        "RotaryEmbedding" => node.input.get(1..3),
        _ => None,
    });
    let tables: HashSet<&str> = tables.flatten().map(String::as_str).collect();
    let rows = graph.initializer.iter().filter(|tensor| tables.contains(tensor.name()));
    rows.filter_map(|tensor| usize::try_from(*tensor.dims.first()?).ok()).min()
}

/// `TensorProto.DataType`: the types that a decoder's ports have.
fn element(id: i32) -> Option<TensorElementType> {
    Some(match id {
        1 => TensorElementType::Float32,
        2 => TensorElementType::Uint8,
        3 => TensorElementType::Int8,
        6 => TensorElementType::Int32,
        7 => TensorElementType::Int64,
        9 => TensorElementType::Bool,
        10 => TensorElementType::Float16,
        16 => TensorElementType::Bfloat16,
        17 => TensorElementType::Float8E4M3FN,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use proptest::prelude::*;

    use super::*;
    use crate::onnx_file::{DataType, TensorShapeProto, TensorTypeProto, TypeProto};

    fn value(name: &str, element: DataType, sizes: &[Option<i64>]) -> ValueInfoProto {
        let dimension = |size: &Option<i64>| match size {
            Some(size) => Dimension::Value(*size),
            None => Dimension::Parameter("tokens".into()),
        };
        let dim = sizes.iter().map(|size| DimensionProto { value: Some(dimension(size)) }).collect();
        let tensor = TensorTypeProto { elem_type: Some(element.into()), shape: Some(TensorShapeProto { dim }) };
        ValueInfoProto { name: Some(name.into()), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
    }

    fn node(operator: &str, domain: &str, inputs: &[&str]) -> NodeProto {
        NodeProto {
            op_type: Some(operator.into()),
            domain: Some(domain.into()),
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            ..NodeProto::default()
        }
    }

    fn tensor(name: &str, dims: &[i64]) -> TensorProto {
        TensorProto { name: Some(name.into()), dims: dims.to_vec(), ..TensorProto::default() }
    }

    #[test]
    fn ports_and_nodes() {
        let found = GraphOutline::of(GraphProto {
            node: vec![node("Concat", "", &["past", "x"])],
            initializer: vec![tensor("index", &[1])],
            input: vec![
                value("past", DataType::Float16, &[Some(1), None, Some(-1)]),
                value("index", DataType::Int64, &[]),
                value("", DataType::Float, &[]),
            ],
            output: vec![value("y", DataType::Float, &[None])],
            ..GraphProto::default()
        });
        let port = |name: &str, element, shape: &[Option<usize>]| GraphPort {
            name: name.into(),
            element: Some(element),
            shape: shape.to_vec(),
        };
        let expected = GraphOutline {
            inputs: vec![port("past", TensorElementType::Float16, &[Some(1), None, None])],
            optional_inputs: vec![port("index", TensorElementType::Int64, &[])],
            outputs: vec![port("y", TensorElementType::Float32, &[None])],
            nodes: vec![GraphNode { operator: "Concat".into(), inputs: vec!["past".into(), "x".into()] }],
            rotary_positions: None,
        };
        assert_eq!(found, expected);
        assert_eq!((found.takers("x").count(), found.takers("y").count()), (1, 0));
        assert_eq!(found.inputs[0].kind(), "f16 [1, n, n]");
    }

    #[test]
    fn the_tables_of_rotations_end_somewhere() {
        let attention = ["q", "k", "v", "past_k", "past_v", "lengths", "total", "cos", "sin"];
        for (operator, domain, inputs, expected) in [
            ("GroupQueryAttention", "com.microsoft", &attention[..], Some(512)),
            ("RotaryEmbedding", "com.microsoft", &["x", "positions", "cos", "sin"], Some(512)),
            ("RotaryEmbedding", "", &["x", "cos", "sin", "positions"], Some(512)),
            // Attention without tables turns nothing; a table that is computed has no rows in the file.
            ("GroupQueryAttention", "com.microsoft", &attention[..7], None),
            ("RotaryEmbedding", "", &["x", "computed", "computed"], None),
        ] {
            let initializer = vec![tensor("cos", &[512, 32]), tensor("sin", &[1024, 32]), tensor("x", &[3])];
            let node = vec![node(operator, domain, inputs)];
            let graph = GraphProto { node, initializer, ..GraphProto::default() };
            assert_eq!(GraphOutline::of(graph).rotary_positions, expected, "{operator} {inputs:?}");
        }
    }

    proptest! {
        /// Numbers of all sizes where a real file has others. What is kept of it is no more than it has.
        #[test]
        fn a_damaged_model_is_survived(
            changes in prop::collection::vec(
                (any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0xff)], 1..11_usize),
                1..6,
            ),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = include_bytes!("../../../tests/fixtures/genai/int4/model.onnx").to_vec();
            for (at, byte, count) in changes {
                let at = at.index(bytes.len() - count);
                bytes[at..at + count].fill(byte);
            }
            let file = tempfile::NamedTempFile::new().unwrap();
            for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
                std::fs::write(file.path(), bytes).unwrap();
                let Ok(found) = GraphOutline::read(file.path()) else { continue };
                let ports = [&found.inputs, &found.optional_inputs, &found.outputs].into_iter().flatten();
                let in_ports: usize = ports.map(|port| port.name.len() + port.shape.len()).sum();
                let in_nodes: usize =
                    found.nodes.iter().map(|node| node.operator.len() + node.inputs.concat().len()).sum();
                prop_assert!(in_ports + in_nodes <= bytes.len());
            }
        }
    }
}
