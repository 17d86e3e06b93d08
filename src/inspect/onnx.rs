//! ONNX files. Weights inside the file are passed over, and those in other files are not opened.

use std::collections::HashSet;
use std::path::{Component, Path};

use super::{Context, Graph, InspectError, Port, group};
use crate::onnx_file::{Dimension, DimensionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};

pub fn inspect(path: &Path) -> Result<Graph, InspectError> {
    let model = ModelProto::read(path).map_err(|error| InspectError::Read { path: path.into(), error })?;
    let producer = format!("{} {}", model.producer_name(), model.producer_version()).trim().to_owned();
    let graph = model.graph.ok_or_else(|| InspectError::Wrong {
        path: path.into(),
        what: "has no graph; it is no ONNX file, or damaged".to_owned(),
    })?;
    let domain = |name: &str| if name.is_empty() { "ai.onnx".to_owned() } else { name.to_owned() };
    let initializer = |tensor: &TensorProto| {
        let values =
            tensor.dims.iter().try_fold(1_u64, |product, size| product.checked_mul(u64::try_from(*size).ok()?));
        let (name, bits) = element(tensor.data_type);
        let bytes = values.and_then(|values| Some(values.checked_mul(bits?)?.div_ceil(8)));
        (name, values.unwrap_or(u64::MAX), bytes)
    };
    let chips = model.metadata_props.iter().find(|entry| entry.key().starts_with("ep_compatibility_info."));
    let chips = chips.and_then(|entry| chips_of(entry.value()));
    // Initializers that are inputs too are defaults, which nobody has to feed.
    let defaults: HashSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
    let compiled = graph.node.iter().filter(|node| node.op_type() == "EPContext");
    Ok(Graph {
        file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        producer: Some(producer).filter(|text| !text.is_empty()),
        opsets: model.opset_import.iter().map(|opset| (domain(opset.domain()), opset.version())).collect(),
        nodes: graph.node.len() as u64,
        contexts: compiled.map(|node| context(node, path, chips.clone())).collect(),
        weights: group(graph.initializer.iter().map(initializer)),
        inputs: graph.input.iter().filter(|input| !defaults.contains(input.name())).map(port).collect(),
        outputs: graph.output.iter().map(port).collect(),
    })
}

fn context(node: &NodeProto, path: &Path, chips: Option<String>) -> Context {
    let embedded = node.attribute("embed_mode").is_some_and(|found| found.i() == 1);
    let binary = if embedded { None } else { node.text("ep_cache_context") };
    // A name that leads out of the folder is not followed.
    let inside = |name: &&String| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let size = |name: &String| Some(std::fs::metadata(path.with_file_name(name)).ok()?.len());
    Context {
        provider: node.text("source").filter(|text| !text.is_empty()),
        sdk: node.text("ep_sdk_version").filter(|text| !text.is_empty()),
        binary_bytes: match embedded {
            true => node.attribute("ep_cache_context").map(|found| found.s().len() as u64),
            false => binary.as_ref().filter(inside).and_then(size),
        },
        binary,
        chips,
    }
}

/// QNN writes "v2:6:2.51.0:5.51.0:73:60:0:0": after the versions of the text, the backend, its interface and its binaries,
/// lists of architectures and of chips. 0 is what was not said.
fn chips_of(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(':').collect();
    let ["v2", _, _, _, archs, chips, ..] = parts.as_slice() else { return None };
    Some(format!("htp_arch {archs}, soc_model {chips}"))
}

fn port(info: &ValueInfoProto) -> Port {
    let tensor = info.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
    let kind = tensor.map_or_else(
        || "not a tensor".to_owned(),
        |tensor| {
            let size = |dim: &DimensionProto| match &dim.value {
                Some(Dimension::Parameter(name)) if !name.is_empty() => name.clone(),
                Some(Dimension::Value(size)) => size.to_string(),
                _ => "?".to_owned(),
            };
            let shape = tensor.shape.iter().flat_map(|shape| &shape.dim).map(size).collect::<Vec<_>>();
            format!("{} [{}]", element(tensor.elem_type).0, shape.join(", "))
        },
    );
    Port { name: info.name().to_owned(), r#type: kind }
}

/// Name and bits of an element type (`onnx.TensorProto.DataType`).
fn element(id: Option<i32>) -> (String, Option<u64>) {
    let (name, bits) = match id.unwrap_or(0) {
        1 => ("float32", 32),
        2 => ("uint8", 8),
        3 => ("int8", 8),
        4 => ("uint16", 16),
        5 => ("int16", 16),
        6 => ("int32", 32),
        7 => ("int64", 64),
        9 => ("bool", 8),
        10 => ("float16", 16),
        11 => ("float64", 64),
        12 => ("uint32", 32),
        13 => ("uint64", 64),
        16 => ("bfloat16", 16),
        17 => ("float8e4m3fn", 8),
        18 => ("float8e4m3fnuz", 8),
        19 => ("float8e5m2", 8),
        20 => ("float8e5m2fnuz", 8),
        21 => ("uint4", 4),
        22 => ("int4", 4),
        23 => ("float4e2m1", 4),
        8 => return ("string".to_owned(), None),
        other => return (format!("type {other}"), None),
    };
    (name.to_owned(), Some(bits))
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::onnx_file::{
        AttributeProto, GraphProto, OperatorSetIdProto, StringStringEntryProto, TensorShapeProto, TensorTypeProto,
        TypeProto,
    };

    fn attribute(name: &str, i: i64, s: &[u8]) -> AttributeProto {
        let s = Some(s.to_vec().into());
        AttributeProto { name: Some(name.into()), i: Some(i), s, ..AttributeProto::default() }
    }

    fn tensor(name: &str, elem_type: i32, dims: &[(i64, &str)]) -> ValueInfoProto {
        let dimension = |(value, name): &(i64, &str)| DimensionProto {
            value: Some(match *name {
                "" => Dimension::Value(*value),
                name => Dimension::Parameter(name.into()),
            }),
        };
        let shape = Some(TensorShapeProto { dim: dims.iter().map(dimension).collect() });
        let tensor_type = Some(TensorTypeProto { elem_type: Some(elem_type), shape });
        ValueInfoProto { name: Some(name.into()), r#type: Some(TypeProto { tensor_type }) }
    }

    fn model(attributes: Vec<AttributeProto>) -> ModelProto {
        let initializer = |name: &str, data_type| TensorProto {
            dims: vec![3, 5],
            data_type: Some(data_type),
            name: Some(name.into()),
            ..TensorProto::default()
        };
        let node = NodeProto { op_type: Some("EPContext".into()), attribute: attributes, ..NodeProto::default() };
        ModelProto {
            producer_name: Some("ortalk".into()),
            producer_version: Some("1".into()),
            graph: Some(GraphProto {
                node: vec![node],
                initializer: vec![initializer("w", 22), initializer("default", 7), initializer("odd", 99)],
                input: vec![tensor("x", 4, &[(1, ""), (0, "tokens")]), tensor("default", 7, &[])],
                output: vec![tensor("y", 1, &[(1, "")])],
                ..GraphProto::default()
            }),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(21) }],
            metadata_props: vec![StringStringEntryProto {
                key: Some("ep_compatibility_info.QNNExecutionProvider".into()),
                value: Some("v2:6:2.51.0:5.51.0:73:60:0:0".into()),
            }],
            ..ModelProto::default()
        }
    }

    fn inspected(attributes: Vec<AttributeProto>) -> Graph {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.onnx");
        std::fs::write(&path, model(attributes).encode_to_vec()).unwrap();
        std::fs::write(dir.path().join("g.bin"), [0; 1500]).unwrap();
        inspect(&path).unwrap()
    }

    #[test]
    fn a_compiled_graph() {
        let graph = inspected(vec![
            attribute("embed_mode", 0, b""),
            attribute("ep_cache_context", 0, b"g.bin"),
            attribute("ep_sdk_version", 0, b"v2.51.0"),
            attribute("source", 0, b"QNNExecutionProvider"),
        ]);
        // The int4 weights take half a byte each, rounded up; a default is no input that must be fed.
        insta::assert_snapshot!(graph);
    }

    #[test]
    fn a_binary_is_inside_or_beside_and_nowhere_else() {
        let of = |embedded, context: &[u8]| {
            let graph =
                inspected(vec![attribute("embed_mode", embedded, b""), attribute("ep_cache_context", 0, context)]);
            (graph.contexts[0].binary.clone(), graph.contexts[0].binary_bytes)
        };
        assert_eq!(of(1, &[7; 40]), (None, Some(40)));
        assert_eq!(of(0, b"g.bin"), (Some("g.bin".into()), Some(1500)));
        assert_eq!(of(0, b"missing.bin").1, None);
        assert_eq!(of(0, b"../../../etc/hostname").1, None);
        assert_eq!(of(0, b"/etc/hostname").1, None);
    }
}
