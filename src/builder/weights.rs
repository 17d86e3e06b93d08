//! Writes weight matrices into the graph's data file: converts rows on all cores, a few megabytes at a time, so that memory
//! stays bounded however large the model is.
//!
//! What a row becomes is `repack`'s business, which layout a matrix gets `precision`'s, which matrices there are
//! `decoder_graph`'s.

#[cfg(test)]
mod tests;

use std::io;

use super::error::ModelError;
use super::gguf::Tensor;
use super::graph::{DataFile, Region, float_bytes};
use super::repack::{Layout, RowOut, convert_row};

/// Bytes of converted weights held in memory at a time.
const PIECE: usize = 16 << 20;

/// The rows of one weight tensor, in the order that the graph wants.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'g, 'a> {
    pub tensor: &'g Tensor<'a>,
    /// The size of a head where rows are stored with each head's halves interleaved and must be put back.
    pub interleaved_head: Option<usize>,
}

/// A matrix in the data file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stored {
    pub layout: Layout,
    /// Output values.
    pub n: usize,
    /// Input values.
    pub k: usize,
    /// Quants or floats.
    pub values: Region,
    /// Empty where the values are floats.
    pub scales: Region,
    pub zero_points: Option<Region>,
}

/// Why a matrix was not written.
#[derive(Debug)]
pub enum StoreError {
    Model(ModelError),
    Write(io::Error),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl<'a> Rows<'_, 'a> {
    pub fn count(&self) -> usize {
        self.tensor.shape.get(1).copied().unwrap_or(1)
    }

    fn width(&self) -> usize {
        self.tensor.shape[0]
    }

    /// The bytes of row `index`, counted in the graph's order.
    fn row(&self, index: usize) -> &'a [u8] {
        let source = self.interleaved_head.map_or(index, |head_size| stored_row(index, head_size));
        let length = self.tensor.kind.row_bytes(self.width());
        &self.tensor.bytes[source * length..][..length]
    }

    /// The values of a vector (a bias), in the graph's order.
    pub fn vector(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.tensor.elements()];
        self.tensor.kind.dequantize(self.tensor.bytes, &mut values);
        match self.interleaved_head {
            Some(head_size) => (0..values.len()).map(|index| values[stored_row(index, head_size)]).collect(),
            None => values,
        }
    }

    /// The values of a matrix, one row after the other, or of a vector, in the graph's order.
    pub fn values(&self) -> Vec<f32> {
        let [width, count] = *self.tensor.shape.as_slice() else { return self.vector() };
        let mut values = vec![0.0; width * count];
        for (index, row) in values.chunks_exact_mut(width).enumerate() {
            self.read(index, row);
        }
        values
    }

    /// The values of row `index` of a matrix, counted in the graph's order.
    pub fn read(&self, index: usize, values: &mut [f32]) {
        self.tensor.kind.dequantize(self.row(index), values);
    }
}

/// Where llama.cpp's converter put row `index`: within a head of size d, row `j` of half `s` lies at `2 j + s`.
fn stored_row(index: usize, head_size: usize) -> usize {
    let (head, within) = (index / head_size, index % head_size);
    let (half, j) = (within / (head_size / 2), within % (head_size / 2));
    head * head_size + 2 * j + half
}

/// Writes the parts, one below the other, as one matrix. `on_rows` hears after each piece how many rows it had.
pub fn store(
    data: &mut DataFile,
    parts: &[Rows<'_, '_>],
    layout: Layout,
    threads: usize,
    on_rows: &mut dyn FnMut(usize),
) -> Result<Stored, StoreError> {
    let n: usize = parts.iter().map(Rows::count).sum();
    let k = parts[0].width();
    let size = layout.row_size(k);
    let values = data.reserve(n as u64 * size.values as u64)?;
    let scales = data.reserve(n as u64 * size.blocks as u64 * 4)?;
    let zero_points = match size.zero_points {
        0 => None,
        bytes => Some(data.reserve(n as u64 * bytes as u64)?),
    };

    let rows: Vec<(Rows<'_, '_>, usize)> =
        parts.iter().flat_map(|part| (0..part.count()).map(move |index| (*part, index))).collect();
    let piece = (PIECE / size.values).clamp(1, n);
    let mut value_bytes = vec![0; piece * size.values];
    let mut scale_values = vec![0.0; piece * size.blocks];
    let mut zero_bytes = vec![0; piece * size.zero_points];
    for (index, rows) in rows.chunks(piece).enumerate() {
        let share = rows.len().div_ceil(threads.max(1));
        let failed = std::thread::scope(|scope| {
            let mut out = RowOut { values: &mut value_bytes, scales: &mut scale_values, zero_points: &mut zero_bytes };
            let workers: Vec<_> = rows
                .chunks(share)
                .map(|rows| {
                    let out = out.split_off(rows.len(), size);
                    scope.spawn(move || convert(layout, rows, out))
                })
                .collect();
            // A worker cannot panic; if one did, its rows are not to be trusted either.
            workers.into_iter().find_map(|worker| worker.join().unwrap_or_else(|_| rows.first().map(|row| row.0)))
        });
        if let Some(part) = failed {
            let tensor = part.tensor.name.to_string();
            return Err(StoreError::Model(match layout {
                Layout::Float16 => ModelError::BeyondFloat16 { tensor },
                Layout::Float32 | Layout::Blocks(_) => ModelError::NotFinite { tensor },
            }));
        }
        let (first, count) = ((index * piece) as u64, rows.len());
        data.write(values.offset + first * size.values as u64, &value_bytes[..count * size.values])?;
        let scale_bytes = float_bytes(&scale_values[..count * size.blocks]);
        data.write(scales.offset + first * size.blocks as u64 * 4, &scale_bytes)?;
        if let Some(region) = zero_points {
            data.write(region.offset + first * size.zero_points as u64, &zero_bytes[..count * size.zero_points])?;
        }
        on_rows(count);
    }
    Ok(Stored { layout, n, k, values, scales, zero_points })
}

/// Converts some rows into slices that have their sizes; returns the first part with a value that cannot be stored.
fn convert<'g, 'a>(layout: Layout, rows: &[(Rows<'g, 'a>, usize)], mut out: RowOut<'_>) -> Option<Rows<'g, 'a>> {
    let size = layout.row_size(rows.first()?.0.width());
    let mut scratch = Vec::new();
    for (part, index) in rows {
        if !convert_row(layout, part.tensor.kind, part.row(*index), &mut scratch, out.split_off(1, size)) {
            return Some(*part);
        }
    }
    None
}
