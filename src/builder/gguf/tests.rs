use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::builder::testing::{Encoded, GgufWriter, array, boolean, f32_value, text, tiny_llama, u32_value};

/// One key of each kind, nested arrays, and two tensors.
fn sample() -> GgufWriter {
    let mut file = GgufWriter::default();
    file.key("text", text("größe"))
        .key("u8", Encoded(0, vec![200]))
        .key("i8", Encoded(1, vec![0x80]))
        .key("u16", Encoded(2, vec![1, 2]))
        .key("i16", Encoded(3, vec![0xff, 0xff]))
        .key("u32", u32_value(70_000))
        .key("i32", Encoded(5, (-5i32).to_le_bytes().to_vec()))
        .key("f32", f32_value(0.5))
        .key("yes", boolean(true))
        .key("u64", Encoded(10, u64::MAX.to_le_bytes().to_vec()))
        .key("i64", Encoded(11, i64::MIN.to_le_bytes().to_vec()))
        .key("f64", Encoded(12, 0.1f64.to_le_bytes().to_vec()))
        .key("texts", array(8, ["a", "", "c"].map(text)))
        .key("numbers", array(5, [-1i32, 7].map(|value| Encoded(5, value.to_le_bytes().to_vec()))))
        .key("nested", array(9, [array(4, [u32_value(1)]), array(4, [])]))
        .floats("a", &[1.0, -2.0])
        .tensor("b", TensorType::Q8_0.id(), &[32, 2], vec![3; 68]);
    file
}

fn parse_error(file: &GgufWriter) -> GgufError {
    Gguf::parse(&file.bytes()).unwrap_err()
}

#[test]
fn reads_every_kind_of_value() {
    let bytes = sample().bytes();
    let gguf = Gguf::parse(&bytes).unwrap();
    assert_eq!(gguf.string("text").unwrap(), Some("größe"));
    for (key, value) in [("u8", 200), ("u16", 0x201), ("u32", 70_000), ("u64", u64::MAX)] {
        assert_eq!(gguf.unsigned(key).unwrap(), Some(value), "{key}");
    }
    for (key, value) in [("i8", -128), ("i16", -1), ("i32", -5), ("i64", i64::MIN)] {
        assert_eq!(gguf.metadata.get(key), Some(&Value::Signed(value)), "{key}");
    }
    assert_eq!(gguf.float("f32").unwrap(), Some(0.5));
    assert_eq!(gguf.float("f64").unwrap(), Some(0.1));
    assert_eq!(gguf.boolean("yes").unwrap(), Some(true));
    assert_eq!(gguf.strings("texts").unwrap(), Some(["a", "", "c"].as_slice()));
    assert_eq!(gguf.integers("numbers").unwrap(), Some(vec![-1, 7]));
    let Some(Value::Array(Array::Arrays(nested))) = gguf.metadata.get("nested") else {
        panic!("{:?}", gguf.metadata.get("nested"))
    };
    assert_eq!(nested.iter().map(Array::len).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(gguf.unsigned("absent").unwrap(), None);
}

#[test]
fn reads_tensors() {
    let bytes = sample().bytes();
    let gguf = Gguf::parse(&bytes).unwrap();
    let a = gguf.tensor("a").unwrap();
    assert_eq!((a.kind, a.shape.as_slice(), a.elements()), (TensorType::F32, [2].as_slice(), 2));
    assert_eq!(a.bytes, [1.0f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat());
    let b = gguf.tensor("b").unwrap();
    assert_eq!((b.kind, b.shape.as_slice(), b.bytes), (TensorType::Q8_0, [32, 2].as_slice(), [3; 68].as_slice()));
    assert_eq!(gguf.tensors().count(), 2);
}

#[test]
fn a_value_of_another_type_is_quoted() {
    let bytes = sample().bytes();
    let gguf = Gguf::parse(&bytes).unwrap();
    let message = gguf.unsigned("text").unwrap_err().to_string();
    assert_eq!(message, "key \"text\" is \"größe\", expected a whole number, not negative");
    assert!(gguf.unsigned("i32").unwrap_err().to_string().contains("-5"));
    assert!(gguf.string("nested").unwrap_err().to_string().contains("an array of 2 values"));
    assert!(gguf.strings("numbers").is_err());
    assert!(gguf.float("u32").is_err());
}

#[test]
fn refuses_files_that_are_something_else() {
    assert!(matches!(Gguf::parse(b""), Err(GgufError::Truncated { .. })));
    assert_eq!(Gguf::parse(b"PK\x03\x04....").unwrap_err(), GgufError::Magic { found: "PK\u{3}\u{4}....".to_owned() });
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    assert_eq!(Gguf::parse(pointer).unwrap_err(), GgufError::LargeFilePointer);
    let mut bytes = sample().bytes();
    bytes[4] = 1;
    assert_eq!(Gguf::parse(&bytes).unwrap_err(), GgufError::Version { found: 1 });
    bytes[4..8].copy_from_slice(&3u32.to_be_bytes());
    assert_eq!(Gguf::parse(&bytes).unwrap_err(), GgufError::BigEndian);
}

#[test]
fn every_shorter_file_is_refused() {
    let bytes = sample().bytes();
    for length in 0..bytes.len() {
        let error = Gguf::parse(&bytes[..length]).unwrap_err();
        let expected = matches!(error, GgufError::Truncated { .. } | GgufError::OutOfFile { .. });
        assert!(expected, "{length} bytes: {error}");
    }
}

#[test]
fn hostile_counts_cost_nothing() {
    // A header that promises 2^64 - 1 keys or tensors, and arrays and strings as long.
    let header = |tensors: u64, keys: u64| {
        [b"GGUF".as_slice(), &3u32.to_le_bytes(), &tensors.to_le_bytes(), &keys.to_le_bytes()].concat()
    };
    for bytes in [header(u64::MAX, 0), header(0, u64::MAX)] {
        assert!(matches!(Gguf::parse(&bytes), Err(GgufError::Truncated { .. })));
    }
    for kind in [0u32, 4, 8, 9, 12] {
        let value = [kind.to_le_bytes().as_slice(), &u64::MAX.to_le_bytes()].concat();
        let error = parse_error(GgufWriter::default().key("big", Encoded(9, value)));
        assert!(matches!(&error, GgufError::Truncated { place, .. } if place.contains("\"big\"")), "{error}");
    }
    let error = parse_error(GgufWriter::default().key("big", Encoded(8, u64::MAX.to_le_bytes().to_vec())));
    assert!(matches!(error, GgufError::Truncated { needed: u64::MAX, available: 0, .. }), "{error}");
}

#[test]
fn hostile_shapes_are_refused() {
    let tensor = |kind: u32, shape: &[u64]| parse_error(GgufWriter::default().tensor("t", kind, shape, vec![0; 64]));
    for shape in [[0, 4].as_slice(), &[1 << 32, 1 << 32], &[u64::MAX, 1], &[1 << 62, 2]] {
        assert!(matches!(tensor(0, shape), GgufError::Shape { .. }), "{shape:?}");
    }
    assert!(matches!(tensor(0, &[]), GgufError::Dimensions { found: 0, .. }));
    assert!(matches!(tensor(0, &[1; 5]), GgufError::Dimensions { found: 5, .. }));
    assert!(matches!(tensor(0, &[17]), GgufError::OutOfFile { needed: 68, available: 64, .. }));
    assert!(matches!(tensor(2, &[33]), GgufError::RowLength { row: 33, block: 32, .. }));
    let message = tensor(10, &[256]).to_string();
    assert!(message.contains("\"t\" has type 10 (Q2_K)") && message.contains("Q4_1"), "{message}");
}

#[test]
fn damaged_metadata_is_named() {
    let with = |value: Encoded| parse_error(GgufWriter::default().key("the.key", value)).to_string();
    assert_eq!(with(Encoded(13, vec![])), "key \"the.key\" has value type 13, expected 0 to 12; the file is damaged");
    assert_eq!(with(Encoded(7, vec![2])), "key \"the.key\" has the boolean value 2, expected 0 or 1");
    assert!(with(array(7, [Encoded(7, vec![9])])).contains("boolean value 9"));
    let not_utf8 = [2u64.to_le_bytes().as_slice(), b"\xff\xfe"].concat();
    assert!(with(Encoded(8, not_utf8)).contains("\"the.key\" is not valid UTF-8"));
    let deep = (0..5).fold(array(4, []), |inner, _| array(9, [inner]));
    assert!(with(deep).contains("nests arrays deeper than 4 levels"));
}

#[test]
fn alignment_is_honoured_and_checked() {
    for alignment in [8, 64, 4096] {
        let mut file = GgufWriter { alignment, ..GgufWriter::default() };
        file.key("general.alignment", u32_value(alignment as u32)).floats("a", &[1.0]).floats("b", &[2.0]);
        let bytes = file.bytes();
        let gguf = Gguf::parse(&bytes).unwrap();
        assert_eq!(gguf.tensor("a").unwrap().bytes, 1.0f32.to_le_bytes());
        assert_eq!(gguf.tensor("b").unwrap().bytes, 2.0f32.to_le_bytes());
    }
    let mut file = GgufWriter { alignment: 8, ..GgufWriter::default() };
    let error = parse_error(file.floats("a", &[1.0]).floats("b", &[2.0]));
    assert_eq!(error, GgufError::Misaligned { tensor: "b".to_owned(), offset: 8, alignment: 32 });
    for found in [0, 3, 1 << 21] {
        let error = parse_error(GgufWriter::default().key("general.alignment", u32_value(found)));
        assert_eq!(error, GgufError::Alignment { found: found.into() });
    }
}

#[test]
fn names_appear_once() {
    let once = GgufWriter::default().key("twice", u32_value(1)).bytes();
    let pair = &once[24..];
    let mut bytes = once[..16].to_vec();
    bytes.extend(2u64.to_le_bytes());
    bytes.extend([pair, pair].concat());
    assert_eq!(Gguf::parse(&bytes).unwrap_err(), GgufError::DuplicateKey { key: "twice".to_owned() });
}

/// Whatever the bytes are, parsing ends without a panic, and a file that parses stays within its bytes.
fn survives(bytes: &[u8]) {
    let Ok(gguf) = Gguf::parse(bytes) else { return };
    for tensor in gguf.tensors() {
        assert_eq!(tensor.bytes.len(), tensor.elements() / tensor.kind.block_elements() * tensor.kind.block_bytes());
        assert!(tensor.bytes.len() <= bytes.len());
    }
}

proptest! {
    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        survives(&bytes);
        survives(&[b"GGUF\x03\0\0\0".as_slice(), &bytes].concat());
    }

    #[test]
    fn changed_files_are_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = sample().bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        survives(&bytes);
        survives(&bytes[..cut.index(bytes.len())]);
    }

    /// Eight bytes at a time hit counts, lengths and offsets; extreme values are the likely mistakes.
    #[test]
    fn changed_numbers_are_survived(
        at in any::<prop::sample::Index>(),
        value in prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 63), Just(1 << 32), 0u64..300],
    ) {
        let mut bytes = tiny_llama(TensorType::Q4_1).bytes();
        // The header and the first part of the metadata and, in another half of the cases, anything.
        let at = at.index(bytes.len() - 8);
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        survives(&bytes);
        let at = at % 900;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        survives(&bytes);
    }
}
