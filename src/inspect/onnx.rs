//! ONNX files. Weights inside the file are passed over, and those in other files are not opened.

use std::collections::HashSet;
use std::path::{Component, Path};

use prost::Message;

use super::{Context, Graph, InspectError, Port, group};
use crate::builder::MappedFile;

pub fn inspect(path: &Path) -> Result<Graph, InspectError> {
    let bytes = MappedFile::open(path).map_err(|error| InspectError::Read { path: path.into(), error })?;
    let wrong = |what: String| InspectError::Wrong { path: path.into(), what };
    let model =
        proto::Model::decode(&*bytes).map_err(|error| wrong(format!("is no ONNX file, or damaged: {error}")))?;
    let graph = model.graph.ok_or_else(|| wrong("has no graph; it is no ONNX file, or damaged".to_owned()))?;
    let producer = format!("{} {}", model.producer_name, model.producer_version).trim().to_owned();
    let domain = |name: String| if name.is_empty() { "ai.onnx".to_owned() } else { name };
    let initializer = |tensor: &proto::Tensor| {
        let values =
            tensor.dims.iter().try_fold(1_u64, |product, size| product.checked_mul(u64::try_from(*size).ok()?));
        let (name, bits) = element(tensor.data_type);
        let bytes = values.and_then(|values| Some(values.checked_mul(bits?)?.div_ceil(8)));
        (name, values.unwrap_or(u64::MAX), bytes)
    };
    let chips = model.metadata_props.iter().find(|entry| entry.key.starts_with("ep_compatibility_info."));
    let chips = chips.and_then(|entry| chips_of(&entry.value));
    // Initializers that are inputs too are defaults, which nobody has to feed.
    let defaults: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let compiled = graph.node.iter().filter(|node| node.op_type == "EPContext");
    Ok(Graph {
        file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        producer: Some(producer).filter(|text| !text.is_empty()),
        opsets: model.opset_import.into_iter().map(|opset| (domain(opset.domain), opset.version)).collect(),
        nodes: graph.node.len() as u64,
        contexts: compiled.map(|node| context(node, path, chips.clone())).collect(),
        weights: group(graph.initializer.iter().map(initializer)),
        inputs: graph.input.iter().filter(|input| !defaults.contains(input.name.as_str())).map(port).collect(),
        outputs: graph.output.iter().map(port).collect(),
    })
}

/// How many positions a graph's tables of cosines and sines have rows for; `None` where it has no such tables, or computes them.
pub fn rotary_positions(path: &Path) -> Result<Option<usize>, InspectError> {
    let bytes = MappedFile::open(path).map_err(|error| InspectError::Read { path: path.into(), error })?;
    let model = proto::Model::decode(&*bytes).map_err(|error| InspectError::Wrong {
        path: path.into(),
        what: format!("is no ONNX file, or damaged: {error}"),
    })?;
    let graph = model.graph.unwrap_or_default();
    // Where these operators have the tables among their inputs, in ONNX Runtime's own domain and in ONNX's.
    let tables = graph.node.iter().flat_map(|node| match node.op_type.as_str() {
        "GroupQueryAttention" => node.input.get(7..9),
        "RotaryEmbedding" if node.domain == "com.microsoft" => node.input.get(2..4),
        "RotaryEmbedding" => node.input.get(1..3),
        _ => None,
    });
    let tables: HashSet<&String> = tables.flatten().collect();
    let rows = graph.initializer.iter().filter(|tensor| tables.contains(&tensor.name));
    Ok(rows.filter_map(|tensor| usize::try_from(*tensor.dims.first()?).ok()).min())
}

fn context(node: &proto::Node, path: &Path, chips: Option<String>) -> Context {
    let attribute = |name| node.attribute.iter().find(|attribute| attribute.name == name);
    let text = |name| attribute(name).map(|found| String::from_utf8_lossy(&found.s).into_owned());
    let embedded = attribute("embed_mode").is_some_and(|found| found.i == 1);
    let binary = text("ep_cache_context").filter(|_| !embedded);
    // A name that leads out of the folder is not followed.
    let inside = |name: &&String| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let size = |name: &String| Some(std::fs::metadata(path.with_file_name(name)).ok()?.len());
    Context {
        provider: text("source").filter(|text| !text.is_empty()),
        sdk: text("ep_sdk_version").filter(|text| !text.is_empty()),
        binary_bytes: match embedded {
            true => attribute("ep_cache_context").map(|found| found.s.len() as u64),
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

fn port(info: &proto::ValueInfo) -> Port {
    let tensor = info.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
    let kind = tensor.map_or_else(
        || "not a tensor".to_owned(),
        |tensor| {
            let size = |dim: &proto::Dimension| match (dim.dim_param.as_deref(), dim.dim_value) {
                (Some(name), _) if !name.is_empty() => name.to_owned(),
                (_, Some(size)) => size.to_string(),
                _ => "?".to_owned(),
            };
            let shape = tensor.shape.iter().flat_map(|shape| &shape.dim).map(size).collect::<Vec<_>>();
            format!("{} [{}]", element(tensor.elem_type).0, shape.join(", "))
        },
    );
    Port { name: info.name.clone(), r#type: kind }
}

/// Name and bits of an element type (`onnx.TensorProto.DataType`).
fn element(id: i32) -> (String, Option<u64>) {
    let (name, bits) = match id {
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

/// What is read of `onnx/onnx.proto` (ONNX 1.19). Fields that are not here, the weights' bytes above all, are skipped.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Model {
        #[prost(string, tag = "2")]
        pub producer_name: String,
        #[prost(string, tag = "3")]
        pub producer_version: String,
        #[prost(message, optional, tag = "7")]
        pub graph: Option<Graph>,
        #[prost(message, repeated, tag = "8")]
        pub opset_import: Vec<Opset>,
        #[prost(message, repeated, tag = "14")]
        pub metadata_props: Vec<Entry>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Opset {
        #[prost(string, tag = "1")]
        pub domain: String,
        #[prost(int64, tag = "2")]
        pub version: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Entry {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Graph {
        #[prost(message, repeated, tag = "1")]
        pub node: Vec<Node>,
        #[prost(message, repeated, tag = "5")]
        pub initializer: Vec<Tensor>,
        #[prost(message, repeated, tag = "11")]
        pub input: Vec<ValueInfo>,
        #[prost(message, repeated, tag = "12")]
        pub output: Vec<ValueInfo>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Node {
        #[prost(string, repeated, tag = "1")]
        pub input: Vec<String>,
        #[prost(string, tag = "4")]
        pub op_type: String,
        #[prost(message, repeated, tag = "5")]
        pub attribute: Vec<Attribute>,
        #[prost(string, tag = "7")]
        pub domain: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Attribute {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(int64, tag = "3")]
        pub i: i64,
        #[prost(bytes = "vec", tag = "4")]
        pub s: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Tensor {
        #[prost(int64, repeated, tag = "1")]
        pub dims: Vec<i64>,
        #[prost(int32, tag = "2")]
        pub data_type: i32,
        #[prost(string, tag = "8")]
        pub name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ValueInfo {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, tag = "2")]
        pub r#type: Option<Type>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Type {
        #[prost(message, optional, tag = "1")]
        pub tensor_type: Option<TensorType>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TensorType {
        #[prost(int32, tag = "1")]
        pub elem_type: i32,
        #[prost(message, optional, tag = "2")]
        pub shape: Option<Shape>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Shape {
        #[prost(message, repeated, tag = "1")]
        pub dim: Vec<Dimension>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Dimension {
        #[prost(int64, optional, tag = "1")]
        pub dim_value: Option<i64>,
        #[prost(string, optional, tag = "2")]
        pub dim_param: Option<String>,
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn attribute(name: &str, i: i64, s: &[u8]) -> proto::Attribute {
        proto::Attribute { name: name.into(), i, s: s.into() }
    }

    fn tensor(name: &str, elem_type: i32, dims: &[(i64, &str)]) -> proto::ValueInfo {
        let dimension = |(value, name): &(i64, &str)| match *name {
            "" => proto::Dimension { dim_value: Some(*value), dim_param: None },
            name => proto::Dimension { dim_value: None, dim_param: Some(name.into()) },
        };
        let shape = Some(proto::Shape { dim: dims.iter().map(dimension).collect() });
        let tensor_type = Some(proto::TensorType { elem_type, shape });
        proto::ValueInfo { name: name.into(), r#type: Some(proto::Type { tensor_type }) }
    }

    fn model(attributes: Vec<proto::Attribute>) -> proto::Model {
        let initializer = |name: &str, data_type| proto::Tensor { dims: vec![3, 5], data_type, name: name.into() };
        proto::Model {
            producer_name: "ortalk".into(),
            producer_version: "1".into(),
            graph: Some(proto::Graph {
                node: vec![proto::Node { op_type: "EPContext".into(), attribute: attributes, ..Default::default() }],
                initializer: vec![initializer("w", 22), initializer("default", 7), initializer("odd", 99)],
                input: vec![tensor("x", 4, &[(1, ""), (0, "tokens")]), tensor("default", 7, &[])],
                output: vec![tensor("y", 1, &[(1, "")])],
            }),
            opset_import: vec![proto::Opset { domain: String::new(), version: 21 }],
            metadata_props: vec![proto::Entry {
                key: "ep_compatibility_info.QNNExecutionProvider".into(),
                value: "v2:6:2.51.0:5.51.0:73:60:0:0".into(),
            }],
        }
    }

    fn inspected(attributes: Vec<proto::Attribute>) -> Graph {
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
