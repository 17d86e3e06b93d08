//! Writes an ONNX graph: nodes, graph inputs and outputs, initializers, and the file of external data beside it.
//!
//! Knows protobuf and files, and nothing of language models; `decoder_graph` says what the nodes are. Weights never pass
//! through here as a whole: a region of the data file is reserved and filled piece by piece.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;

use crate::onnx_file::{
    AttributeProto, AttributeType, DataLocation, DataType, Dimension, DimensionProto, GraphProto, ModelProto,
    NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};

/// The domain of ONNX Runtime's own operators.
pub const MICROSOFT: &str = "com.microsoft";
/// ONNX's own domain.
pub const ONNX: &str = "";

/// A version of ONNX's operators, and the first version of the file format that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opset {
    /// What the graphs for the CPU need.
    V21,
    /// The first with `RMSNormalization`.
    V23,
}

impl Opset {
    fn versions(self) -> (i64, i64) {
        match self {
            Self::V21 => (21, 10),
            Self::V23 => (23, 11),
        }
    }
}

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
pub enum Attribute<'a> {
    Int(&'static str, i64),
    Ints(&'static str, &'a [i64]),
    Float(&'static str, f32),
    String(&'static str, &'static str),
}

/// The file of external data, which several graphs may share.
#[derive(Debug)]
pub struct DataFile {
    file: File,
    name: String,
    /// Its length so far, reserved regions included.
    end: u64,
}

/// A model being written.
#[derive(Debug)]
pub struct GraphWriter {
    graph: GraphProto,
    opset: Opset,
    data: DataFile,
}

impl DataFile {
    /// An empty one at `folder/name`.
    pub fn create(folder: &Path, name: &str) -> io::Result<Self> {
        Ok(Self { file: File::create_new(folder.join(name))?, name: name.to_owned(), end: 0 })
    }

    /// Sets aside the next `length` bytes, aligned so that the larger stretches can be mapped into memory: to a page, or
    /// to the 64 KiB that Windows maps by.
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

    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)
    }

    /// Writes bytes behind the others.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<Region> {
        let region = self.reserve(bytes.len() as u64)?;
        self.write(region.offset, bytes)?;
        Ok(region)
    }
}

impl GraphWriter {
    /// A graph without nodes whose external data are, or will be, in this file.
    pub fn new(graph_name: &str, opset: Opset, data: DataFile) -> Self {
        let graph = GraphProto { name: Some(graph_name.to_owned()), ..GraphProto::default() };
        Self { graph, opset, data }
    }

    pub fn node_count(&self) -> usize {
        self.graph.node.len()
    }

    /// Adds a node named after its first output.
    pub fn node(
        &mut self,
        domain: &str,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Attribute<'_>],
    ) {
        let attribute = attributes
            .iter()
            .map(|attribute| {
                let of = |name: &str, kind: AttributeType| AttributeProto {
                    name: Some(name.to_owned()),
                    r#type: Some(kind.into()),
                    ..AttributeProto::default()
                };
                match *attribute {
                    Attribute::Int(name, value) => AttributeProto { i: Some(value), ..of(name, AttributeType::Int) },
                    Attribute::Ints(name, values) => {
                        AttributeProto { ints: values.to_vec(), ..of(name, AttributeType::Ints) }
                    }
                    Attribute::Float(name, value) => {
                        AttributeProto { f: Some(value), ..of(name, AttributeType::Float) }
                    }
                    Attribute::String(name, value) => AttributeProto {
                        s: Some(Bytes::from_static(value.as_bytes())),
                        ..of(name, AttributeType::String)
                    },
                }
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
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.inside(name, DataType::Int64, shape, bytes);
    }

    /// An initializer inside the model file, its values as little-endian bytes.
    pub fn inside(&mut self, name: &str, kind: DataType, shape: &[usize], bytes: Vec<u8>) {
        self.graph.initializer.push(TensorProto {
            dims: dims(shape),
            data_type: Some(kind.into()),
            name: Some(name.to_owned()),
            raw_data: Some(bytes.into()),
            ..TensorProto::default()
        });
    }

    /// An initializer of float32 values in the data file.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> io::Result<()> {
        let region = self.data.append(&float_bytes(values))?;
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
                entry("location", self.data.name.clone()),
                entry("offset", region.offset.to_string()),
                entry("length", region.length.to_string()),
            ],
            data_location: Some(DataLocation::External.into()),
            ..TensorProto::default()
        });
    }

    pub fn data(&mut self) -> &mut DataFile {
        &mut self.data
    }

    /// Writes the model file at `folder/name` and makes sure that both files are on the disk; returns the data file for
    /// the next graph.
    pub fn finish(self, folder: &Path, name: &str) -> io::Result<DataFile> {
        let opset =
            |domain: &str, version| OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
        let (operators, format) = self.opset.versions();
        let model = ModelProto {
            ir_version: Some(format),
            producer_name: Some(env!("CARGO_PKG_NAME").to_owned()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            graph: Some(self.graph),
            opset_import: vec![opset(ONNX, operators), opset(MICROSOFT, 1)],
            ..ModelProto::default()
        };
        let bytes = model.encode_to_vec();
        let mut file = File::create_new(folder.join(name))?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        self.data.file.sync_all()?;
        Ok(self.data)
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
