//! Reads safetensors files: the length of a header (8 bytes, little endian), the header, a JSON object of tensors by name,
//! and the tensors' bytes, row by row (`github.com/huggingface/safetensors`, "Format").
//!
//! Nothing in a file is trusted: a tensor's place must lie in the file. What its type is called is left to the caller.

use serde_json::{Map, Value};

/// The format's own limit for the header.
const LONGEST_HEADER: u64 = 100_000_000;

/// Why a file cannot be read; a sentence whose subject is the file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SafetensorsError {
    #[error("has {found} bytes; a safetensors file has at least 8")]
    Short { found: u64 },
    #[error("says that its header has {found} bytes, expected at most {most}; it is cut, or damaged")]
    HeaderLength { found: u64, most: u64 },
    #[error("has a header that is not right: {reason}")]
    Header { reason: String },
    #[error("describes its tensor {name:?} as {found}; expected dtype, shape and data_offsets")]
    Description { name: String, found: String },
    #[error("has its tensor {name:?} at {start} to {end} of {available} bytes; it is cut, or damaged; fetch it again")]
    Place { name: String, start: u64, end: u64, available: u64 },
}

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<'a> {
    pub name: String,
    /// In the format's words: `F32`, `BF16`, `I8`.
    pub dtype: String,
    /// The last dimension is contiguous. The product of all does not overflow.
    pub shape: Vec<usize>,
    pub bytes: &'a [u8],
}

impl Entry<'_> {
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// All tensors of a file, in the order of its header.
pub fn parse(file: &[u8]) -> Result<Vec<Entry<'_>>, SafetensorsError> {
    let Some((start, rest)) = file.split_first_chunk::<8>() else {
        return Err(SafetensorsError::Short { found: file.len() as u64 });
    };
    let found = u64::from_le_bytes(*start);
    let most = LONGEST_HEADER.min(rest.len() as u64);
    if found > most {
        return Err(SafetensorsError::HeaderLength { found, most });
    }
    let (header, data) = rest.split_at(found as usize);
    let header: Map<String, Value> =
        serde_json::from_slice(header).map_err(|error| SafetensorsError::Header { reason: error.to_string() })?;
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__");
    tensors.map(|(name, description)| entry(name, &description, data)).collect()
}

fn entry<'a>(name: String, description: &Value, data: &'a [u8]) -> Result<Entry<'a>, SafetensorsError> {
    let Some((dtype, shape, start, end)) = describe(description) else {
        return Err(SafetensorsError::Description { name, found: description.to_string() });
    };
    let place = || data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
    match place() {
        Some(bytes) => Ok(Entry { name, dtype, shape, bytes }),
        None => Err(SafetensorsError::Place { name, start, end, available: data.len() as u64 }),
    }
}

/// Type, shape, and where the bytes start and end behind the header.
fn describe(tensor: &Value) -> Option<(String, Vec<usize>, u64, u64)> {
    let dtype = tensor.get("dtype")?.as_str()?.to_owned();
    let size = |size: &Value| usize::try_from(size.as_u64()?).ok();
    let shape = tensor.get("shape")?.as_array()?.iter().map(size).collect::<Option<Vec<usize>>>()?;
    shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size))?;
    let offset = |index: usize| tensor.get("data_offsets")?.get(index)?.as_u64();
    let (start, end) = (offset(0)?, offset(1)?);
    (start <= end).then_some((dtype, shape, start, end))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
    }

    const HEADER: &str = r#"{"__metadata__": {"format": "pt"}, "b": {"dtype": "F16", "shape": [1, 2], "data_offsets": [4, 8]},
        "a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}}"#;

    #[test]
    fn tensors_are_where_the_header_says() {
        let bytes = file(HEADER, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let found = parse(&bytes).unwrap();
        let expected = [("b", "F16", vec![1, 2], &[5, 6, 7, 8][..]), ("a", "U8", vec![], &[1])];
        for (found, (name, dtype, shape, bytes)) in found.iter().zip(expected) {
            assert_eq!(
                (found.name.as_str(), found.dtype.as_str(), &found.shape, found.bytes),
                (name, dtype, &shape, bytes)
            );
        }
        assert_eq!(found.iter().map(Entry::elements).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn what_is_not_right_is_told() {
        let one = |dtype: &str, shape: &str, offsets: &str| {
            file(&format!(r#"{{"a": {{"dtype": {dtype}, "shape": {shape}, "data_offsets": {offsets}}}}}"#), &[0; 8])
        };
        for (bytes, expected) in [
            (b"1234567".to_vec(), "has 7 bytes"),
            (file(HEADER, &[])[..60].to_vec(), "expected at most 52; it is cut"),
            (file("{", &[]), "has a header that is not right: EOF"),
            (one("\"F32\"", "[2]", "[0, 9]"), "at 0 to 9 of 8 bytes"),
            (one("\"F32\"", "[2]", "[8, 0]"), "describes its tensor \"a\" as"),
            (one("\"F32\"", "[2]", "[0]"), "describes its tensor \"a\" as"),
            (one("7", "[2]", "[0, 8]"), "describes its tensor \"a\" as"),
            (one("\"F32\"", "[-2]", "[0, 8]"), "describes its tensor \"a\" as"),
            (one("\"F32\"", "[9999999999, 9999999999]", "[0, 8]"), "describes its tensor \"a\" as"),
        ] {
            let error = parse(&bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..64), header in ".{0,64}") {
            let _ = parse(&bytes);
            let _ = parse(&file(&header, &bytes));
        }

        /// A tensor's bytes lie in the file, whatever its header says.
        #[test]
        fn any_places_are_survived(
            shape in prop::collection::vec(any::<u64>(), 0..4),
            start in prop_oneof![any::<u64>(), 0..20_u64],
            end in prop_oneof![any::<u64>(), 0..20_u64],
        ) {
            let header = serde_json::json!({"a": {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}});
            let bytes = file(&header.to_string(), &[0; 16]);
            for entry in parse(&bytes).into_iter().flatten() {
                prop_assert_eq!(entry.bytes.len() as u64, end - start);
                // Whether they are as many as the shape says is for who knows the type.
                let _ = entry.elements();
            }
        }

        #[test]
        fn a_damaged_file_is_survived(position in 0..200_usize, byte: u8) {
            let mut bytes = file(HEADER, &[1, 2, 3, 4, 5, 6, 7, 8]);
            let position = position % bytes.len();
            bytes[position] = byte;
            for entry in parse(&bytes).into_iter().flatten() {
                prop_assert!(entry.bytes.len() <= 8);
            }
        }
    }
}
