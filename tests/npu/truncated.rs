//! The first layers of a GGUF file as a file of their own: a real model's numbers in the time of a small one.

use std::path::Path;

/// A GGUF file that is being read.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn string(&mut self) -> &'a str {
        let length = self.u64() as usize;
        std::str::from_utf8(self.take(length)).unwrap()
    }

    /// Passes a value of one of GGUF's types.
    fn skip(&mut self, kind: u32) {
        match kind {
            0 | 1 | 7 => drop(self.take(1)),
            2 | 3 => drop(self.take(2)),
            4..=6 => drop(self.take(4)),
            8 => drop(self.string()),
            9 => {
                let (kind, count) = (self.u32(), self.u64());
                (0..count).for_each(|_| self.skip(kind));
            }
            _ => drop(self.take(8)),
        }
    }
}

/// Where data starts: at multiples of this, unless the file says otherwise. The default model's does not.
const ALIGNMENT: usize = 32;

/// Writes the model's first `layers` layers to `target`.
pub fn write(source: &Path, layers: u32, target: &Path) {
    let bytes = std::fs::read(source).unwrap();
    let mut reader = Reader { bytes: &bytes, at: 8 };
    let (tensors, keys) = (reader.u64(), reader.u64());
    let first_key = reader.at;
    let mut block_count = None;
    for _ in 0..keys {
        let is_count = reader.string().ends_with(".block_count");
        let kind = reader.u32();
        block_count = if is_count { Some(reader.at) } else { block_count };
        reader.skip(kind);
    }
    let mut metadata = bytes[first_key..reader.at].to_vec();
    metadata[block_count.unwrap() - first_key..][..4].copy_from_slice(&layers.to_le_bytes());

    // Name, the bytes between name and offset, the offset.
    let mut descriptions = Vec::new();
    for _ in 0..tensors {
        let name = reader.string();
        let start = reader.at;
        let dimensions = reader.u32() as usize;
        reader.take(dimensions * 8 + 4);
        descriptions.push((name, &bytes[start..reader.at], reader.u64() as usize));
    }
    let data = &bytes[reader.at.next_multiple_of(ALIGNMENT)..];
    let end = |offset: usize| {
        descriptions.iter().map(|(.., other)| *other).filter(|other| *other > offset).min().unwrap_or(data.len())
    };
    let is_kept = |name: &str| {
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        layer.is_none_or(|(layer, _)| layer.parse::<u32>().unwrap() < layers)
    };
    let kept: Vec<_> = descriptions.iter().filter(|(name, ..)| is_kept(name)).collect();

    let mut file = bytes[..8].to_vec();
    file.extend((kept.len() as u64).to_le_bytes());
    file.extend(keys.to_le_bytes());
    file.extend(metadata);
    let mut values: Vec<u8> = Vec::new();
    for (name, description, offset) in kept {
        file.extend((name.len() as u64).to_le_bytes());
        file.extend(name.as_bytes());
        file.extend(*description);
        file.extend((values.len() as u64).to_le_bytes());
        values.extend(&data[*offset..end(*offset)]);
        values.resize(values.len().next_multiple_of(ALIGNMENT), 0);
    }
    file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
    file.extend(values);
    std::fs::write(target, file).unwrap();
}
