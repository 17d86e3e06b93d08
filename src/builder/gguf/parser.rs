//! Walks through a GGUF file's bytes: header, metadata, tensor descriptions; what it finds goes into `Gguf`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::{
    Array, DEFAULT_ALIGNMENT, Gguf, GgufError, MAGIC, MAX_ARRAY_DEPTH, MAX_DIMENSIONS, NumberType, Tensor, Value,
    shorten,
};
use crate::builder::blocks::TensorType;

/// How the note starts that a clone without Git LFS has in the place of a large file.
const LARGE_FILE_POINTER: &[u8] = b"version https://git-lfs";

/// Bytes of another file that tell a person what it is.
const SHOWN: usize = 16;

/// Parses a whole file.
pub fn parse(data: &[u8]) -> Result<Gguf<'_>, GgufError> {
    let mut cursor = Cursor { data, position: 0 };
    let magic = cursor.take(4, Place::Header("the magic"))?;
    if data.starts_with(LARGE_FILE_POINTER) {
        return Err(GgufError::LargeFilePointer);
    }
    if magic != MAGIC {
        let start = &data[..data.len().min(SHOWN)];
        return Err(GgufError::Magic { found: String::from_utf8_lossy(start).into_owned() });
    }
    match cursor.u32(Place::Header("the version"))? {
        2 | 3 => {}
        0x0200_0000 | 0x0300_0000 => return Err(GgufError::BigEndian),
        found => return Err(GgufError::Version { found }),
    }
    let tensor_count = cursor.u64(Place::Header("the tensor count"))?;
    let key_count = cursor.u64(Place::Header("the key count"))?;

    let mut metadata = BTreeMap::new();
    for index in 0..key_count {
        let key = cursor.string(Place::Key(index))?;
        let kind = cursor.u32(Place::Value(key))?;
        let value = cursor.value(key, kind, 0)?;
        if metadata.insert(Cow::Borrowed(key), value).is_some() {
            return Err(GgufError::DuplicateKey { key: shorten(key) });
        }
    }

    let mut infos = Vec::new();
    for index in 0..tensor_count {
        infos.push(cursor.tensor_info(index)?);
    }

    let alignment = alignment(&metadata)?;
    let start = (cursor.position as u64).next_multiple_of(alignment);
    // A file without tensors may end before the padding that would precede them.
    let space = usize::try_from(start).ok().and_then(|start| data.get(start..)).unwrap_or_default();
    let mut tensors = BTreeMap::new();
    for info in infos {
        let tensor = info.locate(space, alignment)?;
        let name = tensor.name.clone();
        if let Some(first) = tensors.insert(name, tensor) {
            return Err(GgufError::DuplicateTensor { tensor: shorten(&first.name) });
        }
    }
    Ok(Gguf { metadata, tensors, converted: true })
}

fn alignment(metadata: &BTreeMap<Cow<'_, str>, Value<'_>>) -> Result<u64, GgufError> {
    let Some(value) = metadata.get("general.alignment") else { return Ok(DEFAULT_ALIGNMENT) };
    let found = value.as_unsigned().ok_or_else(|| GgufError::WrongValue {
        key: "general.alignment".to_owned(),
        found: value.to_string(),
        expected: "a whole number",
    })?;
    // The upper bound keeps `next_multiple_of` far from overflow; real files have 32 or 64.
    if found.is_power_of_two() && found <= 1 << 20 { Ok(found) } else { Err(GgufError::Alignment { found }) }
}

/// Where in the file the cursor is, for messages; made only into text when something fails.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    Header(&'static str),
    Key(u64),
    Value(&'a str),
    TensorName(u64),
    Tensor(&'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(what) => write!(f, "{what} of the header"),
            Self::Key(index) => write!(f, "the name of metadata key {index}"),
            Self::Value(key) => write!(f, "the value of key {:?}", shorten(key)),
            Self::TensorName(index) => write!(f, "the name of tensor {index}"),
            Self::Tensor(name) => write!(f, "the description of tensor {:?}", shorten(name)),
        }
    }
}

struct TensorInfo<'a> {
    name: &'a str,
    kind: TensorType,
    shape: Vec<usize>,
    offset: u64,
    length: u64,
}

impl<'a> TensorInfo<'a> {
    fn locate(self, space: &'a [u8], alignment: u64) -> Result<Tensor<'a>, GgufError> {
        let Self { name, kind, shape, offset, length } = self;
        if !offset.is_multiple_of(alignment) {
            return Err(GgufError::Misaligned { tensor: shorten(name), offset, alignment });
        }
        let range = || {
            let start = usize::try_from(offset).ok()?;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            space.get(start..end)
        };
        match range() {
            Some(bytes) => Ok(Tensor { name: Cow::Borrowed(name), kind, shape, bytes }),
            None => Err(GgufError::OutOfFile {
                tensor: shorten(name),
                offset,
                needed: length,
                available: space.len() as u64,
            }),
        }
    }
}

struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: u64, place: Place<'_>) -> Result<&'a [u8], GgufError> {
        let rest = self.data.get(self.position..).unwrap_or_default();
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(bytes) => {
                self.position += bytes.len();
                Ok(bytes)
            }
            None => Err(GgufError::Truncated {
                place: place.to_string(),
                offset: self.position as u64,
                needed: length,
                available: rest.len() as u64,
            }),
        }
    }

    fn u32(&mut self, place: Place<'_>) -> Result<u32, GgufError> {
        let bytes = self.take(4, place)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    fn u64(&mut self, place: Place<'_>) -> Result<u64, GgufError> {
        let bytes = self.take(8, place)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn string(&mut self, place: Place<'_>) -> Result<&'a str, GgufError> {
        let length = self.u64(place)?;
        let bytes = self.take(length, place)?;
        std::str::from_utf8(bytes).map_err(|_| GgufError::NotUtf8 {
            place: place.to_string(),
            shown: shorten(&String::from_utf8_lossy(bytes)),
        })
    }

    fn value(&mut self, key: &'a str, kind: u32, depth: usize) -> Result<Value<'a>, GgufError> {
        match kind {
            8 => Ok(Value::String(self.string(Place::Value(key))?)),
            9 => Ok(Value::Array(self.array(key, depth)?)),
            _ => {
                let number =
                    NumberType::from_id(kind).ok_or_else(|| GgufError::ValueType { key: shorten(key), found: kind })?;
                let bytes = self.take(number.size() as u64, Place::Value(key))?;
                number.read(bytes).ok_or_else(|| GgufError::Boolean { key: shorten(key), found: bytes[0] })
            }
        }
    }

    fn array(&mut self, key: &'a str, depth: usize) -> Result<Array<'a>, GgufError> {
        if depth == MAX_ARRAY_DEPTH {
            return Err(GgufError::ArrayDepth { key: shorten(key) });
        }
        let place = Place::Value(key);
        let kind = self.u32(place)?;
        let count = self.u64(place)?;
        match kind {
            // The vectors grow as the file yields elements; each costs the file at least eight bytes.
            8 => {
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.string(place)?);
                }
                Ok(Array::Strings(values))
            }
            9 => {
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.array(key, depth + 1)?);
                }
                Ok(Array::Arrays(values))
            }
            _ => {
                let kind =
                    NumberType::from_id(kind).ok_or_else(|| GgufError::ValueType { key: shorten(key), found: kind })?;
                let bytes = self.take(count.saturating_mul(kind.size() as u64), place)?;
                if kind == NumberType::Boolean
                    && let Some(found) = bytes.iter().copied().find(|byte| *byte > 1)
                {
                    return Err(GgufError::Boolean { key: shorten(key), found });
                }
                Ok(Array::Numbers { kind, bytes: bytes.into() })
            }
        }
    }

    fn tensor_info(&mut self, index: u64) -> Result<TensorInfo<'a>, GgufError> {
        let name = self.string(Place::TensorName(index))?;
        let place = Place::Tensor(name);
        let found = self.u32(place)?;
        if found == 0 || found > MAX_DIMENSIONS {
            return Err(GgufError::Dimensions { tensor: shorten(name), found });
        }
        let mut dimensions = Vec::with_capacity(found as usize);
        for _ in 0..found {
            dimensions.push(self.u64(place)?);
        }
        let id = self.u32(place)?;
        let offset = self.u64(place)?;

        let kind = TensorType::from_id(id).ok_or_else(|| GgufError::TensorType { tensor: shorten(name), found: id })?;
        let row = dimensions[0];
        let block = kind.block_elements();
        if !row.is_multiple_of(block as u64) {
            return Err(GgufError::RowLength { tensor: shorten(name), row, block, kind });
        }
        let elements = dimensions.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
        let length = elements
            .filter(|elements| *elements > 0 && *elements <= isize::MAX as u64)
            .and_then(|elements| (elements / block as u64).checked_mul(kind.block_bytes() as u64));
        let shape: Option<Vec<usize>> = dimensions.iter().map(|size| usize::try_from(*size).ok()).collect();
        match (length, shape) {
            (Some(length), Some(shape)) => Ok(TensorInfo { name, kind, shape, offset, length }),
            _ => Err(GgufError::Shape { tensor: shorten(name), shape: dimensions }),
        }
    }
}
