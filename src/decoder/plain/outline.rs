//! What an ONNX file says of its graph, without its weights: they are passed over in the file, so a model of many gigabytes
//! takes as long as its nodes do. Numbers are those of `onnx/onnx.proto` (ONNX 1.19).

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use ort::value::TensorElementType;

/// A file's graph. Graphs within nodes are not read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphOutline {
    /// That have to be fed.
    pub inputs: Vec<GraphPort>,
    /// That have a default.
    pub optional_inputs: Vec<GraphPort>,
    pub outputs: Vec<GraphPort>,
    pub nodes: Vec<GraphNode>,
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
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Self::parse(BufReader::new(file), length)
    }

    /// Reads a file of `length` bytes. No more is kept of it than it has.
    pub fn parse(source: impl BufRead + Seek, length: u64) -> io::Result<Self> {
        let mut message = Message { source, at: 0 };
        let mut found = Self::default();
        let (mut inputs, mut defaults) = (Vec::new(), HashSet::new());
        let mut has_graph = false;
        message.fields(length, &mut |message, number, end| {
            // ModelProto.graph
            if number != 7 {
                return Ok(());
            }
            has_graph = true;
            message.fields(end, &mut |message, number, end| {
                match number {
                    1 => found.nodes.push(node(message, end)?),
                    5 => {
                        let mut name = String::new();
                        message.fields(end, &mut |message, number, end| match number {
                            8 => message.text(end).map(|text| name = text),
                            _ => Ok(()),
                        })?;
                        defaults.insert(name);
                    }
                    11 => inputs.push(port(message, end)?),
                    12 => found.outputs.push(port(message, end)?),
                    _ => {}
                }
                Ok(())
            })
        })?;
        // No port that could be bound has none.
        inputs.retain(|port: &GraphPort| !port.name.is_empty());
        found.outputs.retain(|port| !port.name.is_empty());
        if !has_graph {
            return Err(damaged("there is no graph in it"));
        }
        (found.optional_inputs, found.inputs) = inputs.into_iter().partition(|port| defaults.contains(&port.name));
        Ok(found)
    }

    /// The nodes that take `input`.
    pub fn takers<'g>(&'g self, input: &str) -> impl Iterator<Item = &'g GraphNode> {
        self.nodes.iter().filter(move |node| node.inputs.iter().any(|name| name == input))
    }
}

impl GraphPort {
    /// For people: "f32 [1, n, 36]".
    pub fn kind(&self) -> String {
        let sizes: Vec<_> =
            self.shape.iter().map(|size| size.map_or("n".to_owned(), |size| size.to_string())).collect();
        let element = self.element.map_or("of an unknown type".to_owned(), |element| element.to_string());
        format!("{element} [{}]", sizes.join(", "))
    }
}

fn node<S: BufRead + Seek>(message: &mut Message<S>, end: u64) -> io::Result<GraphNode> {
    let mut node = GraphNode::default();
    message.fields(end, &mut |message, number, end| {
        match number {
            1 => node.inputs.push(message.text(end)?),
            4 => node.operator = message.text(end)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(node)
}

/// ValueInfoProto: `name` 1, `type` 2 { `tensor_type` 1 { `elem_type` 1, `shape` 2 { `dim` 1 { `dim_value` 1 } } } }.
fn port<S: BufRead + Seek>(message: &mut Message<S>, end: u64) -> io::Result<GraphPort> {
    let mut port = GraphPort { name: String::new(), element: None, shape: Vec::new() };
    message.fields(end, &mut |message, number, end| match number {
        1 => message.text(end).map(|text| port.name = text),
        2 => message.fields(end, &mut |message, number, end| {
            if number != 1 {
                return Ok(());
            }
            let mut element = 0;
            message.all_fields(end, &mut |message, number, value| match (number, value) {
                (1, Value::Number(id)) => {
                    element = id;
                    Ok(())
                }
                (2, Value::Bytes(end)) => message.fields(end, &mut |message, number, end| {
                    if number == 1 {
                        let mut size = None;
                        message.all_fields(end, &mut |_, number, value| {
                            if let (1, Value::Number(value)) = (number, value) {
                                size = usize::try_from(value as i64).ok();
                            }
                            Ok(())
                        })?;
                        port.shape.push(size);
                    }
                    Ok(())
                }),
                _ => Ok(()),
            })?;
            port.element = self::element(element);
            Ok(())
        }),
        _ => Ok(()),
    })?;
    Ok(port)
}

/// `TensorProto.DataType`: the types that a decoder's ports have.
fn element(id: u64) -> Option<TensorElementType> {
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

/// Where a protobuf message is being read. Lengths are checked against the message around before anything is read.
struct Message<S> {
    source: S,
    at: u64,
}

enum Value {
    Number(u64),
    /// Bytes that end there.
    Bytes(u64),
}

type OnField<'f, S, V> = &'f mut dyn FnMut(&mut Message<S>, u64, V) -> io::Result<()>;

impl<S: BufRead + Seek> Message<S> {
    /// Calls `on_field` with the number and the end of each field that has a length, up to `end`; what it leaves is passed
    /// over.
    fn fields(&mut self, end: u64, on_field: OnField<'_, S, u64>) -> io::Result<()> {
        self.all_fields(end, &mut |message, number, value| match value {
            Value::Bytes(end) => on_field(message, number, end),
            Value::Number(_) => Ok(()),
        })
    }

    fn all_fields(&mut self, end: u64, on_field: OnField<'_, S, Value>) -> io::Result<()> {
        while self.at < end {
            let tag = self.varint()?;
            let length = match tag & 7 {
                0 => {
                    let number = self.varint()?;
                    on_field(self, tag >> 3, Value::Number(number))?;
                    continue;
                }
                1 => 8,
                2 => self.varint()?,
                5 => 4,
                wire => return Err(damaged(&format!("it has a field of the wire type {wire}"))),
            };
            let field_end = self.at.checked_add(length).filter(|field_end| *field_end <= end);
            let field_end = field_end.ok_or_else(|| damaged("one of its parts is longer than what is around it"))?;
            if tag & 7 == 2 {
                on_field(self, tag >> 3, Value::Bytes(field_end))?;
            }
            self.pass_to(field_end)?;
        }
        Ok(())
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let mut byte = [0];
            self.source.read_exact(&mut byte)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("it has a number of more than ten bytes"))
    }

    fn text(&mut self, end: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        (&mut self.source).take(end - self.at).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        if self.at < end {
            return Err(damaged("it ends in the middle of a name"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn pass_to(&mut self, end: u64) -> io::Result<()> {
        let left = end.checked_sub(self.at).and_then(|left| i64::try_from(left).ok());
        let left = left.ok_or_else(|| damaged("one of its numbers goes beyond what is around it"))?;
        // A short way stays within what is buffered.
        match left {
            0 => {}
            _ if self.source.fill_buf()?.len() as i64 >= left => self.source.consume(left as usize),
            _ => {
                self.source.seek(SeekFrom::Current(left))?;
            }
        }
        self.at = end;
        Ok(())
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it is no ONNX file, or damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn parse(bytes: &[u8]) -> io::Result<GraphOutline> {
        GraphOutline::parse(Cursor::new(bytes), bytes.len() as u64)
    }

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = [(bytes.len() % 128) as u8 | 0x80, (bytes.len() / 128) as u8];
        [&[number << 3 | 2][..], &length, bytes].concat()
    }

    fn value(name: &str, element: u8, sizes: &[Option<u8>]) -> Vec<u8> {
        let dims: Vec<u8> = sizes
            .iter()
            .flat_map(|size| field(1, &size.map_or_else(|| field(2, b"tokens"), |size| vec![1 << 3, size])))
            .collect();
        let tensor = [vec![1 << 3, element], field(2, &dims)].concat();
        [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
    }

    fn model() -> Vec<u8> {
        let node = [field(1, b"past"), field(1, b"x"), field(2, b"y"), field(4, b"Concat")].concat();
        let initializer = [vec![1 << 3, 2], field(8, b"index"), field(9, &[0; 100])].concat();
        let graph = [
            field(1, &node),
            field(5, &initializer),
            field(11, &value("past", 10, &[Some(1), None])),
            field(11, &value("index", 7, &[])),
            field(12, &value("y", 1, &[None])),
        ];
        [vec![1 << 3, 8], field(7, &graph.concat())].concat()
    }

    #[test]
    fn ports_and_nodes_without_weights() {
        let port = |name: &str, element, shape: &[Option<usize>]| GraphPort {
            name: name.into(),
            element: Some(element),
            shape: shape.to_vec(),
        };
        let found = parse(&model()).unwrap();
        let expected = GraphOutline {
            inputs: vec![port("past", TensorElementType::Float16, &[Some(1), None])],
            optional_inputs: vec![port("index", TensorElementType::Int64, &[])],
            outputs: vec![port("y", TensorElementType::Float32, &[None])],
            nodes: vec![GraphNode { operator: "Concat".into(), inputs: vec!["past".into(), "x".into()] }],
        };
        assert_eq!(found, expected);
        assert_eq!((found.takers("x").count(), found.takers("y").count()), (1, 0));
        assert_eq!(found.inputs[0].kind(), "f16 [1, n]");
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        for (bytes, expected) in [
            (&b""[..], "no graph"),
            (b"hello, world", "no ONNX file"),
            (&[7 << 3 | 2, 200, 1], "longer than"),
            (&[3], "wire type 3"),
            (&[0xff; 12], "ten bytes"),
        ] {
            let error = parse(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    proptest! {
        /// Any damage gives an outline or an error.
        #[test]
        fn damage_is_survived(at in 0..200_usize, byte: u8, length in 0..300_usize) {
            let mut bytes = model();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(length);
            let _ = parse(&bytes);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = parse(&bytes);
            let _ = parse(&field(7, &bytes));
            let _ = parse(&field(7, &field(11, &bytes)));
        }

        /// Numbers of all sizes where a real file has others. What is kept of it is no more than it has.
        #[test]
        fn a_damaged_model_is_survived(
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0xff)], 1..11_usize), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = include_bytes!("../../../tests/fixtures/genai/int4/model.onnx").to_vec();
            for (at, byte, count) in changes {
                let at = at.index(bytes.len() - count);
                bytes[at..at + count].fill(byte);
            }
            for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
                let Ok(found) = parse(bytes) else { continue };
                let ports = [&found.inputs, &found.optional_inputs, &found.outputs].into_iter().flatten();
                let in_ports: usize = ports.map(|port| port.name.len() + port.shape.len()).sum();
                let in_nodes: usize =
                    found.nodes.iter().map(|node| node.operator.len() + node.inputs.concat().len()).sum();
                // A byte that is no character becomes a replacement of three.
                prop_assert!(in_ports + in_nodes <= 3 * bytes.len());
            }
        }
    }
}
