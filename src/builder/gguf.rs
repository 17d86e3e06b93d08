//! Reads GGUF, the checkpoint format of llama.cpp: a header, typed metadata, tensor descriptions, aligned tensor data.
//!
//! The format is described in ggml's `docs/gguf.md`. Versions 2 and 3 are read (they differ only in that 3 may be
//! big-endian, which is refused). The parser borrows from a byte slice and trusts nothing in it: a count is never used
//! to allocate, every sum and product is checked, and every refusal names the key or the tensor.
//!
//! What a tensor's bytes mean is `blocks`' business; what the keys mean is `architecture`'s and `tokenizer`'s.

mod parser;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::blocks::TensorType;

/// The first four bytes of every GGUF file.
pub const MAGIC: &[u8; 4] = b"GGUF";

/// Tensor data starts at multiples of this many bytes unless `general.alignment` says otherwise.
pub const DEFAULT_ALIGNMENT: u64 = 32;

/// Arrays of arrays are allowed by the format; no known file nests deeper than one level.
const MAX_ARRAY_DEPTH: usize = 4;

/// ggml's `GGML_MAX_DIMS`.
const MAX_DIMENSIONS: u32 = 4;

/// Why a file cannot be read as GGUF.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GgufError {
    #[error("this is not a GGUF file: it starts with {found:?}, expected \"GGUF\"; give a model's .gguf file")]
    Magic { found: String },
    #[error("this is not the model but Git LFS's note where it lies; fetch the file itself (`git lfs pull`)")]
    LargeFilePointer,
    #[error("GGUF version {found} is not supported, expected 2 or 3; convert the model again with a current llama.cpp")]
    Version { found: u32 },
    #[error("this GGUF file is big-endian, expected little-endian; convert it with llama.cpp's gguf_convert_endian.py")]
    BigEndian,
    #[error(
        "the file ends inside {place}: {needed} bytes are needed at offset {offset}, {available} are left; \
         the file is damaged or incomplete, fetch it again"
    )]
    Truncated { place: String, offset: u64, needed: u64, available: u64 },
    #[error("{place} is not valid UTF-8: {shown:?}; the file is damaged")]
    NotUtf8 { place: String, shown: String },
    #[error("key {key:?} has value type {found}, expected 0 to 12; the file is damaged")]
    ValueType { key: String, found: u32 },
    #[error("key {key:?} nests arrays deeper than {MAX_ARRAY_DEPTH} levels")]
    ArrayDepth { key: String },
    #[error("key {key:?} has the boolean value {found}, expected 0 or 1")]
    Boolean { key: String, found: u8 },
    #[error("key {key:?} appears twice")]
    DuplicateKey { key: String },
    #[error("tensor {tensor:?} appears twice")]
    DuplicateTensor { tensor: String },
    #[error("general.alignment is {found}, expected a power of two from 1 to 1048576")]
    Alignment { found: u64 },
    #[error("tensor {tensor:?} has {found} dimensions, expected 1 to {MAX_DIMENSIONS}")]
    Dimensions { tensor: String, found: u32 },
    #[error("tensor {tensor:?} has the shape {shape:?}, which is empty or too large")]
    Shape { tensor: String, shape: Vec<u64> },
    #[error(
        "tensor {tensor:?} has type {found}{name}, which is not supported, expected one of {expected}",
        name = TensorType::foreign_name(*found).map(|name| format!(" ({name})")).unwrap_or_default(),
        expected = TensorType::names()
    )]
    TensorType { tensor: String, found: u32 },
    #[error("tensor {tensor:?} has rows of {row} values, expected a multiple of {block} for type {kind}")]
    RowLength { tensor: String, row: u64, block: usize, kind: TensorType },
    #[error("tensor {tensor:?} starts at offset {offset}, expected a multiple of the alignment {alignment}")]
    Misaligned { tensor: String, offset: u64, alignment: u64 },
    #[error(
        "tensor {tensor:?} needs {needed} bytes at offset {offset} of the tensor data, which has {available} bytes; \
         the file is damaged or incomplete, fetch it again"
    )]
    OutOfFile { tensor: String, offset: u64, needed: u64, available: u64 },
    #[error("key {key:?} is missing; the file was not made for this architecture, or by an old converter")]
    MissingKey { key: String },
    #[error("key {key:?} is {found}, expected {expected}")]
    WrongValue { key: String, found: String, expected: &'static str },
}

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Boolean(bool),
    String(&'a str),
    Array(Array<'a>),
}

/// A metadata array. Arrays of numbers stay as the file's bytes until they are asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Array<'a> {
    Numbers { kind: NumberType, bytes: Cow<'a, [u8]> },
    Strings(Vec<&'a str>),
    Arrays(Vec<Array<'a>>),
}

/// The value types of fixed size, by GGUF's numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Boolean,
    U64,
    I64,
    F64,
}

/// One tensor: its name, its shape as ggml counts it (the first dimension is contiguous) and its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor<'a> {
    pub name: Cow<'a, str>,
    pub kind: TensorType,
    /// One to four dimensions, fastest first: a matrix of N rows with K values is `[K, N]`.
    pub shape: Vec<usize>,
    /// Exactly as many bytes as shape and type call for.
    pub bytes: &'a [u8],
}

/// A parsed file. It borrows the file's bytes.
#[derive(Debug)]
pub struct Gguf<'a> {
    metadata: BTreeMap<Cow<'a, str>, Value<'a>>,
    tensors: BTreeMap<Cow<'a, str>, Tensor<'a>>,
    /// Whether llama.cpp's converter put the rows in order (see `architecture::Projection`).
    converted: bool,
}

impl NumberType {
    fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Boolean,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Boolean => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Reads one value from exactly `self.size()` bytes; `None` where the bytes are too few or no boolean.
    fn read(self, bytes: &[u8]) -> Option<Value<'static>> {
        fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
            bytes.get(..N)?.try_into().ok()
        }
        Some(match self {
            Self::U8 => Value::Unsigned(u64::from(*bytes.first()?)),
            Self::I8 => Value::Signed(i64::from(i8::from_le_bytes(array(bytes)?))),
            Self::U16 => Value::Unsigned(u64::from(u16::from_le_bytes(array(bytes)?))),
            Self::I16 => Value::Signed(i64::from(i16::from_le_bytes(array(bytes)?))),
            Self::U32 => Value::Unsigned(u64::from(u32::from_le_bytes(array(bytes)?))),
            Self::I32 => Value::Signed(i64::from(i32::from_le_bytes(array(bytes)?))),
            Self::F32 => Value::Float(f64::from(f32::from_le_bytes(array(bytes)?))),
            Self::Boolean => Value::Boolean(match bytes.first()? {
                0 => false,
                1 => true,
                _ => return None,
            }),
            Self::U64 => Value::Unsigned(u64::from_le_bytes(array(bytes)?)),
            Self::I64 => Value::Signed(i64::from_le_bytes(array(bytes)?)),
            Self::F64 => Value::Float(f64::from_le_bytes(array(bytes)?)),
        })
    }
}

impl Value<'_> {
    /// A whole number that is not negative, whatever integer type it was stored as.
    pub fn as_unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }
}

/// The value as an error message quotes it: short, and with its type where the value alone would mislead.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Signed(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::String(value) => write!(f, "{:?}", shorten(value)),
            Self::Array(array) => write!(f, "an array of {} values", array.len()),
        }
    }
}

impl<'a> Array<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers { kind, bytes } => bytes.len() / kind.size(),
            Self::Strings(values) => values.len(),
            Self::Arrays(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of an array of numbers, in the file's order.
    pub fn numbers(&self) -> Option<impl Iterator<Item = Value<'static>>> {
        match self {
            Self::Numbers { kind, bytes } => {
                Some(bytes.chunks_exact(kind.size()).filter_map(move |one| kind.read(one)))
            }
            _ => None,
        }
    }
}

impl Tensor<'_> {
    /// How many values the tensor holds.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

impl<'a> Gguf<'a> {
    /// Parses a whole file.
    pub fn parse(data: &'a [u8]) -> Result<Self, GgufError> {
        parser::parse(data)
    }

    /// What a file would be with these keys and tensors, whose rows are as the checkpoint was trained.
    pub fn assemble(metadata: BTreeMap<Cow<'a, str>, Value<'a>>, tensors: BTreeMap<Cow<'a, str>, Tensor<'a>>) -> Self {
        Self { metadata, tensors, converted: false }
    }

    /// Whether llama.cpp's converter may have changed the order of rows.
    pub fn is_converted(&self) -> bool {
        self.converted
    }

    pub fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        self.tensors.get(name)
    }

    /// Presents a matrix as several, one below the other, of so many rows each: together all that it has.
    pub fn split(&mut self, name: &str, parts: &[(String, usize)]) {
        let Some(whole) = self.tensors.remove(name) else { return };
        let [width, _] = *whole.shape.as_slice() else { return };
        let mut rest = whole.bytes;
        for (name, rows) in parts {
            let bytes;
            (bytes, rest) = rest.split_at(rows * whole.kind.row_bytes(width));
            let name: Cow<str> = Cow::Owned(name.clone());
            let part = Tensor { name: name.clone(), kind: whole.kind, shape: vec![width, *rows], bytes };
            self.tensors.insert(name, part);
        }
    }

    /// All tensors, by name.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor<'a>> {
        self.tensors.values()
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match read(value) {
            Some(found) => Ok(Some(found)),
            None => Err(GgufError::WrongValue { key: key.to_owned(), found: value.to_string(), expected }),
        }
    }

    pub fn string(&self, key: &str) -> Result<Option<&'a str>, GgufError> {
        self.typed(key, "a string", |value| match value {
            Value::String(text) => Some(*text),
            _ => None,
        })
    }

    pub fn unsigned(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.typed(key, "a whole number, not negative", Value::as_unsigned)
    }

    /// A finite number.
    pub fn float(&self, key: &str) -> Result<Option<f64>, GgufError> {
        self.typed(key, "a finite number", |value| match value {
            Value::Float(number) if number.is_finite() => Some(*number),
            _ => None,
        })
    }

    pub fn boolean(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, "true or false", |value| match value {
            Value::Boolean(flag) => Some(*flag),
            _ => None,
        })
    }

    pub fn strings(&self, key: &str) -> Result<Option<&[&'a str]>, GgufError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Strings(values))) => Ok(Some(values)),
            // An empty array has a type, too, but nobody cares which one.
            Some(Value::Array(array)) if array.is_empty() => Ok(Some(&[])),
            Some(other) => Err(GgufError::WrongValue {
                key: key.to_owned(),
                found: other.to_string(),
                expected: "an array of strings",
            }),
        }
    }

    /// An array of truth values.
    pub fn booleans(&self, key: &str) -> Result<Option<Vec<bool>>, GgufError> {
        self.typed(key, "an array of true and false", |value| {
            let Value::Array(array) = value else { return None };
            array
                .numbers()?
                .map(|flag| match flag {
                    Value::Boolean(flag) => Some(flag),
                    _ => None,
                })
                .collect()
        })
    }

    /// An array of finite numbers.
    pub fn floats(&self, key: &str) -> Result<Option<Vec<f64>>, GgufError> {
        self.typed(key, "an array of finite numbers", |value| {
            let Value::Array(array) = value else { return None };
            array
                .numbers()?
                .map(|number| match number {
                    Value::Float(value) => Some(value).filter(|value| value.is_finite()),
                    // Some converters write scores as whole numbers.
                    Value::Signed(value) => Some(value as f64),
                    Value::Unsigned(value) => Some(value as f64),
                    _ => None,
                })
                .collect()
        })
    }

    /// An array of whole numbers.
    pub fn integers(&self, key: &str) -> Result<Option<Vec<i64>>, GgufError> {
        self.typed(key, "an array of whole numbers", |value| {
            let Value::Array(array) = value else { return None };
            array
                .numbers()?
                .map(|number| match number {
                    Value::Signed(value) => Some(value),
                    Value::Unsigned(value) => i64::try_from(value).ok(),
                    _ => None,
                })
                .collect()
        })
    }
}

/// Names in error messages stay readable whatever the file says.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() <= LONGEST { text.to_owned() } else { text.chars().take(LONGEST).chain(['…']).collect() }
}
