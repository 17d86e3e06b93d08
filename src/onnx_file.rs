//! ONNX's file format as `prost` messages, for whoever writes a graph or reads one.
//!
//! Field numbers and types are those of `onnx/onnx.proto` (ONNX 1.19, IR version 10); fields that nobody here uses are left
//! out, which protobuf allows. What the messages mean is the business of those who use them.

use std::io;
use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;

use crate::mapped_file::MappedFile;

/// `onnx.ModelProto`: a whole file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

impl ModelProto {
    /// Reads a file. Values that lie in it stay there: they are slices of the mapped file, and no page of them is touched
    /// before somebody looks. So a model of many gigabytes takes as long as its nodes do. The error's text is for people.
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::decode(Bytes::from_owner(MappedFile::open(path)?)).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("it is no ONNX file, or damaged: {error}"))
        })
    }
}

/// `onnx.OperatorSetIdProto`: a domain (empty for ONNX's own) and its version.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSetIdProto {
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// `onnx.GraphProto`. An initializer that is also an input is that input's default value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// `onnx.NodeProto`. An empty name among the inputs or outputs is an optional one that is not given.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
}

impl NodeProto {
    pub fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.attribute.iter().find(|attribute| attribute.name() == name)
    }

    /// The text of an attribute.
    pub fn text(&self, name: &str) -> Option<String> {
        self.attribute(name).map(|found| String::from_utf8_lossy(found.s()).into_owned())
    }
}

/// `onnx.AttributeProto`; which field counts is said by `r#type`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    #[prost(enumeration = "AttributeType", optional, tag = "20")]
    pub r#type: Option<i32>,
}

/// `onnx.AttributeProto.AttributeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    Undefined = 0,
    Float = 1,
    Int = 2,
    String = 3,
    Ints = 7,
}

/// `onnx.TensorProto`: an initializer, its values inside (`raw_data`, little-endian) or in another file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(enumeration = "DataType", optional, tag = "2")]
    pub data_type: Option<i32>,
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    /// `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    #[prost(enumeration = "DataLocation", optional, tag = "14")]
    pub data_location: Option<i32>,
}

/// `onnx.TensorProto.DataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    Undefined = 0,
    Float = 1,
    Uint8 = 2,
    Int8 = 3,
    Uint16 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    Float16 = 10,
}

/// `onnx.TensorProto.DataLocation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataLocation {
    Default = 0,
    External = 1,
}

/// `onnx.StringStringEntryProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringStringEntryProto {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// `onnx.ValueInfoProto`: a graph input's or output's name and type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfoProto {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// `onnx.TypeProto`; of its kinds only tensors.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// `onnx.TypeProto.Tensor`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorTypeProto {
    #[prost(enumeration = "DataType", optional, tag = "1")]
    pub elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// `onnx.TensorShapeProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// `onnx.TensorShapeProto.Dimension`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DimensionProto {
    #[prost(oneof = "Dimension", tags = "1, 2")]
    pub value: Option<Dimension>,
}

/// A dimension's size: a number, or a name that stands for any number.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Dimension {
    #[prost(int64, tag = "1")]
    Value(i64),
    #[prost(string, tag = "2")]
    Parameter(String),
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    /// Worked out from protobuf's encoding: a key is the field's number times 8 plus its wire type.
    #[test]
    fn attributes_have_the_bytes_of_the_standard() {
        let attribute = AttributeProto {
            name: Some("axis".to_owned()),
            i: Some(-1),
            r#type: Some(AttributeType::Int.into()),
            ..AttributeProto::default()
        };
        let expected = [b"\x0a\x04axis\x18".as_slice(), &[0xff; 9], b"\x01\xa0\x01\x02"].concat();
        assert_eq!(attribute.encode_to_vec(), expected);
        // As in `TensorProto.dims`: proto2, not packed.
        let list =
            AttributeProto { ints: vec![0, 300], r#type: Some(AttributeType::Ints.into()), ..Default::default() };
        assert_eq!(list.encode_to_vec(), b"\x40\x00\x40\xac\x02\xa0\x01\x07");
    }

    #[test]
    fn tensors_have_the_bytes_of_the_standard() {
        let tensor = TensorProto {
            dims: vec![2, 300],
            data_type: Some(DataType::Int64.into()),
            name: Some("n".to_owned()),
            raw_data: Some(vec![9].into()),
            data_location: Some(DataLocation::External.into()),
            ..TensorProto::default()
        };
        // Repeated numbers are packed only where the schema says so; `TensorProto.dims` is proto2 and is not.
        assert_eq!(tensor.encode_to_vec(), b"\x08\x02\x08\xac\x02\x10\x07\x42\x01n\x4a\x01\x09\x70\x01");
    }

    #[test]
    fn models_come_back_as_they_were() {
        let dim = vec![
            DimensionProto { value: Some(Dimension::Value(3)) },
            DimensionProto { value: Some(Dimension::Parameter("batch".to_owned())) },
        ];
        let tensor = TensorTypeProto { elem_type: Some(DataType::Float.into()), shape: Some(TensorShapeProto { dim }) };
        let value =
            ValueInfoProto { name: Some("x".to_owned()), r#type: Some(TypeProto { tensor_type: Some(tensor) }) };
        let node = NodeProto {
            input: vec!["x".to_owned(), String::new(), "w".to_owned()],
            output: vec!["y".to_owned()],
            op_type: Some("MatMul".to_owned()),
            ..NodeProto::default()
        };
        let graph = GraphProto { node: vec![node], input: vec![value], ..GraphProto::default() };
        let model = ModelProto { ir_version: Some(10), graph: Some(graph), ..ModelProto::default() };
        let bytes = model.encode_to_vec();
        assert_eq!(ModelProto::decode(bytes.as_slice()).unwrap(), model);
        // An input that is not given must still be there: optional operands go by position.
        assert!(bytes.windows(5).any(|window| window == b"\x0a\x00\x0a\x01w"));
    }

    fn with_weights(bytes: usize) -> ModelProto {
        let weights = TensorProto { raw_data: Some(vec![1; bytes].into()), ..TensorProto::default() };
        let graph = GraphProto { initializer: vec![weights], ..GraphProto::default() };
        ModelProto { ir_version: Some(10), graph: Some(graph), ..ModelProto::default() }
    }

    #[test]
    fn weights_stay_in_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, with_weights(1 << 20).encode_to_vec()).unwrap();
        let mapped = Bytes::from_owner(MappedFile::open(file.path()).unwrap());
        let model = ModelProto::decode(mapped.clone()).unwrap();
        let weights = model.graph.unwrap().initializer.remove(0).raw_data.unwrap();
        assert_eq!(weights.len(), 1 << 20);
        assert!(mapped.as_ptr_range().contains(&weights.as_ptr()), "they were copied");
    }

    #[test]
    fn what_is_no_model_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (bytes, expected) in
            [(&b""[..], "empty"), (b"hello, world", "no ONNX file"), (&[7 << 3 | 2, 200, 1], "damaged")]
        {
            std::fs::write(&file, bytes).unwrap();
            let error = ModelProto::read(file.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    proptest! {
        /// Any damage gives a model or an error.
        #[test]
        fn damage_is_survived(at in 0..200_usize, byte: u8, length in 0..300_usize) {
            let mut bytes = with_weights(100).encode_to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(length);
            let _ = ModelProto::decode(Bytes::from(bytes));
        }
    }
}
