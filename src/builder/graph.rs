//! Writes an ONNX graph: nodes, graph inputs and outputs, initializers, and the file of external data beside it.
//!
//! Knows protobuf and files, and nothing of language models; `decoder_graph` says what the nodes are. Weights never pass
//! through here as a whole: a region of the data file is reserved and filled piece by piece.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use prost::Message;

use super::onnx_proto::{
    AttributeProto, AttributeType, DataLocation, DataType, Dimension, DimensionProto, GraphProto, ModelProto,
    NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};

/// The domain of ONNX Runtime's own operators.
pub const MICROSOFT: &str = "com.microsoft";
/// ONNX's own domain.
pub const ONNX: &str = "";

/// The first IR version whose opset is 21.
const IR_VERSION: i64 = 10;
const OPSET: i64 = 21;

/// A stretch of the external data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub offset: u64,
    pub length: u64,
}

/// The size of one dimension of a graph input or output.
#[derive(Debug, Clone, Copy)]
pub enum Size {
    Fixed(usize),
    Named(&'static str),
}

/// A node's attribute.
#[derive(Debug, Clone, Copy)]
pub enum Attribute {
    Int(&'static str, i64),
    Float(&'static str, f32),
}

/// A model being written.
#[derive(Debug)]
pub struct GraphWriter {
    graph: GraphProto,
    data: File,
    data_name: String,
    /// The data file's length so far, reserved regions included.
    end: u64,
}

impl GraphWriter {
    /// A graph without nodes, its data file created at `folder/data_name`.
    pub fn create(folder: &Path, data_name: &str, graph_name: &str) -> io::Result<Self> {
        let data = File::create_new(folder.join(data_name))?;
        let graph = GraphProto { name: Some(graph_name.to_owned()), ..GraphProto::default() };
        Ok(Self { graph, data, data_name: data_name.to_owned(), end: 0 })
    }

    pub fn node_count(&self) -> usize {
        self.graph.node.len()
    }

    /// Adds a node named after its first output.
    pub fn node(&mut self, domain: &str, operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[Attribute]) {
        let attribute = attributes
            .iter()
            .map(|attribute| match *attribute {
                Attribute::Int(name, value) => AttributeProto {
                    name: Some(name.to_owned()),
                    i: Some(value),
                    r#type: Some(AttributeType::Int.into()),
                    f: None,
                },
                Attribute::Float(name, value) => AttributeProto {
                    name: Some(name.to_owned()),
                    f: Some(value),
                    r#type: Some(AttributeType::Float.into()),
                    i: None,
                },
            })
            .collect();
        self.graph.node.push(NodeProto {
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: outputs.iter().map(|name| (*name).to_owned()).collect(),
            name: outputs.first().map(|name| format!("{name}/{operator}")),
            op_type: Some(operator.to_owned()),
            attribute,
            domain: (!domain.is_empty()).then(|| domain.to_owned()),
        });
    }

    pub fn input(&mut self, name: &str, kind: DataType, shape: &[Size]) {
        self.graph.input.push(value_info(name, kind, shape));
    }

    pub fn output(&mut self, name: &str, kind: DataType, shape: &[Size]) {
        self.graph.output.push(value_info(name, kind, shape));
    }

    /// An initializer inside the model file, for a handful of integers. No dimensions make a scalar.
    pub fn integers(&mut self, name: &str, shape: &[usize], values: &[i64]) {
        self.graph.initializer.push(TensorProto {
            dims: dims(shape),
            data_type: Some(DataType::Int64.into()),
            name: Some(name.to_owned()),
            raw_data: Some(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            ..TensorProto::default()
        });
    }

    /// An initializer of float32 values in the data file.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> io::Result<()> {
        let region = self.reserve(values.len() as u64 * 4)?;
        self.write(region.offset, &float_bytes(values))?;
        self.external(name, DataType::Float, shape, region);
        Ok(())
    }

    /// An initializer whose values lie in a region of the data file. Several initializers may share one region.
    pub fn external(&mut self, name: &str, kind: DataType, shape: &[usize], region: Region) {
        let entry = |key: &str, value: String| StringStringEntryProto { key: Some(key.to_owned()), value: Some(value) };
        self.graph.initializer.push(TensorProto {
            dims: dims(shape),
            data_type: Some(kind.into()),
            name: Some(name.to_owned()),
            external_data: vec![
                entry("location", self.data_name.clone()),
                entry("offset", region.offset.to_string()),
                entry("length", region.length.to_string()),
            ],
            data_location: Some(DataLocation::External.into()),
            ..TensorProto::default()
        });
    }

    /// Sets aside the next `length` bytes of the data file, aligned so that the larger ones can be mapped into memory:
    /// to a page, or to the 64 KiB that Windows maps by.
    pub fn reserve(&mut self, length: u64) -> io::Result<Region> {
        let alignment = match length {
            0x10_0000.. => 0x1_0000,
            0x1000.. => 0x1000,
            _ => 64,
        };
        let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "the weights exceed 2^63 bytes");
        let offset = self.end.checked_next_multiple_of(alignment).ok_or_else(too_long)?;
        self.end = offset.checked_add(length).filter(|end| *end < 1 << 63).ok_or_else(too_long)?;
        Ok(Region { offset, length })
    }

    /// Writes bytes into the data file.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.data.seek(SeekFrom::Start(offset))?;
        self.data.write_all(bytes)
    }

    /// Writes the model file at `folder/name` and makes sure that both files are on the disk; returns their bytes.
    pub fn finish(self, folder: &Path, name: &str) -> io::Result<u64> {
        let opset =
            |domain: &str, version| OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
        let model = ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some(env!("CARGO_PKG_NAME").to_owned()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            graph: Some(self.graph),
            opset_import: vec![opset(ONNX, OPSET), opset(MICROSOFT, 1)],
        };
        let bytes = model.encode_to_vec();
        let mut file = File::create_new(folder.join(name))?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        self.data.sync_all()?;
        Ok(self.end + bytes.len() as u64)
    }
}

/// The bytes of float32 values as the data file has them.
pub fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn dims(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|size| *size as i64).collect()
}

fn value_info(name: &str, kind: DataType, shape: &[Size]) -> ValueInfoProto {
    let dim = shape
        .iter()
        .map(|size| DimensionProto {
            value: Some(match *size {
                Size::Fixed(value) => Dimension::Value(value as i64),
                Size::Named(name) => Dimension::Parameter(name.to_owned()),
            }),
        })
        .collect();
    let tensor = TensorTypeProto { elem_type: Some(kind.into()), shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
}
