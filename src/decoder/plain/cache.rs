//! The keys and values of all layers: in one buffer that is bound as past and present at once, or in tensors of which each
//! pass's present becomes the next one's past. Neither kind is copied on our side from token to token.
//!
//! A buffer has a row for each sequence, all of one length, so that one pass can be about several of them. Which sequence
//! lies in which row is the caller's business (`slots`).

use std::ops::Range;

use ort::memory::Allocator;
use ort::session::IoBinding;
use ort::value::{DynTensor, PrimitiveTensorElementType, TensorElementType};

use super::contract::{CacheKind, CachePort};
use crate::onnx_runtime::bind_rows;

pub struct Cache {
    kind: CacheKind,
    buffers: Vec<Buffer>,
    /// Sequences that the tensors have room for; 1 in a growing cache.
    rows: usize,
    /// Tokens that each row has room for; of a growing cache, those that are in it.
    capacity: usize,
    allocator: Allocator,
    /// The rows that are bound.
    bound: Range<usize>,
}

/// The keys or the values of one layer.
struct Buffer {
    port: CachePort,
    /// `[rows, heads, capacity, width]`; the binding holds it, too.
    tensor: DynTensor,
    /// Of a growing cache: where the pass at hand writes the present.
    present: Option<DynTensor>,
}

impl Cache {
    /// One row without room for any token.
    pub fn new(kind: CacheKind, ports: &[CachePort], allocator: Allocator) -> ort::Result<Self> {
        let buffer =
            |port: &CachePort| Ok(Buffer { port: port.clone(), tensor: port.tensor(1, 0, &allocator)?, present: None });
        let buffers = ports.iter().map(buffer).collect::<ort::Result<_>>()?;
        Ok(Self { kind, buffers, rows: 1, capacity: 0, allocator, bound: 0..0 })
    }

    pub fn kind(&self) -> CacheKind {
        self.kind
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Before a pass over these rows, to `total` tokens behind `position` others. A buffer must have room for them.
    pub fn bind(
        &mut self,
        rows: Range<usize>,
        position: usize,
        total: usize,
        binding: &mut IoBinding,
    ) -> Result<(), String> {
        let text = |error: ort::Error| error.to_string();
        match self.kind {
            CacheKind::Shared if self.bound == rows => {}
            CacheKind::Shared => {
                for Buffer { port, tensor, .. } in &mut self.buffers {
                    bind_rows(binding, [&port.past, &port.present], tensor, rows.clone())?;
                }
                self.bound = rows;
            }
            CacheKind::Growing => {
                if position < self.capacity {
                    self.resize(1, position, &[(0, position)], binding).map_err(text)?;
                }
                for Buffer { port, tensor, present } in &mut self.buffers {
                    binding.bind_input(port.past.as_str(), &*tensor).map_err(text)?;
                    let present = present.insert(port.tensor(1, total, &self.allocator).map_err(text)?);
                    binding.bind_output(port.present.as_str(), present).map_err(text)?;
                }
            }
        }
        Ok(())
    }

    /// After a pass to `total` tokens.
    pub fn advance(&mut self, total: usize) {
        if self.kind == CacheKind::Shared {
            return;
        }
        for Buffer { tensor, present, .. } in &mut self.buffers {
            if let Some(present) = present.take() {
                *tensor = present;
            }
        }
        self.capacity = total;
    }

    /// Makes room for so many rows of `capacity` tokens. Of the old rows some tokens are `kept`: in the first of the new
    /// ones those of the row that is named first, and so on.
    pub fn resize(
        &mut self,
        rows: usize,
        capacity: usize,
        kept: &[(usize, usize)],
        binding: &mut IoBinding,
    ) -> ort::Result<()> {
        for Buffer { port, tensor, .. } in &mut self.buffers {
            let mut resized = port.tensor(rows, capacity, &self.allocator)?;
            for (to, (from, tokens)) in kept.iter().enumerate() {
                let copied = Rows { from: *from, to, tokens: *tokens };
                by_element!(port.element, keep(tensor, &mut resized, port, copied))?;
            }
            *tensor = resized;
            // At once, or the binding would keep all the old ones until the last new one is made.
            binding.bind_input(port.past.as_str(), &*tensor)?;
            if self.kind == CacheKind::Shared {
                binding.bind_output(port.present.as_str(), &mut *tensor)?;
            }
        }
        (self.rows, self.capacity, self.bound) = (rows, capacity, 0..rows);
        Ok(())
    }

    /// Exchanges the first tokens of two rows.
    pub fn swap(&mut self, one: usize, other: usize, tokens: usize) -> ort::Result<()> {
        let (low, high) = (one.min(other), one.max(other));
        for Buffer { port, tensor, .. } in &mut self.buffers {
            by_element!(port.element, swap(tensor, port, Rows { from: low, to: high, tokens }))?;
        }
        Ok(())
    }

    /// Puts the first tokens of one row into another one, too.
    pub fn copy(&mut self, from: usize, to: usize, tokens: usize) -> ort::Result<()> {
        for Buffer { port, tensor, .. } in &mut self.buffers {
            by_element!(port.element, copy(tensor, port, Rows { from, to, tokens }))?;
        }
        Ok(())
    }
}

impl CachePort {
    fn tensor(&self, rows: usize, tokens: usize, allocator: &Allocator) -> ort::Result<DynTensor> {
        DynTensor::new(allocator, self.element, [rows, self.heads, tokens, self.width])
    }
}

/// Some tokens of one row and their place in another.
#[derive(Clone, Copy)]
struct Rows {
    from: usize,
    to: usize,
    tokens: usize,
}

/// Calls a function of an element's type for a cache's element.
macro_rules! by_element {
    ($element:expr, $function:ident($($argument:expr),*)) => {
        match $element {
            TensorElementType::Float32 => $function::<f32>($($argument),*),
            TensorElementType::Float16 => $function::<half::f16>($($argument),*),
            _ => $function::<half::bf16>($($argument),*),
        }
    };
}
use by_element;

/// The values of one head's first tokens in a row, in a tensor of `[rows, heads, capacity, width]`.
fn head(port: &CachePort, capacity: usize, row: usize, head: usize, tokens: usize) -> Range<usize> {
    let start = (row * port.heads + head) * capacity * port.width;
    start..start + tokens * port.width
}

fn keep<T: PrimitiveTensorElementType + Copy>(
    from: &DynTensor,
    to: &mut DynTensor,
    port: &CachePort,
    rows: Rows,
) -> ort::Result<()> {
    if rows.tokens == 0 {
        return Ok(());
    }
    let (shape, from) = from.try_extract_tensor::<T>()?;
    let old = shape[2] as usize;
    let (shape, to) = to.try_extract_tensor_mut::<T>()?;
    let new = shape[2] as usize;
    for index in 0..port.heads {
        let source = &from[head(port, old, rows.from, index, rows.tokens)];
        to[head(port, new, rows.to, index, rows.tokens)].copy_from_slice(source);
    }
    Ok(())
}

/// `to` is the row further behind.
fn swap<T: PrimitiveTensorElementType + Copy>(tensor: &mut DynTensor, port: &CachePort, rows: Rows) -> ort::Result<()> {
    let (shape, values) = tensor.try_extract_tensor_mut::<T>()?;
    let capacity = shape[2] as usize;
    let (before, behind) = values.split_at_mut(head(port, capacity, rows.to, 0, 0).start);
    for index in 0..port.heads {
        let one = &mut before[head(port, capacity, rows.from, index, rows.tokens)];
        one.swap_with_slice(&mut behind[head(port, capacity, 0, index, rows.tokens)]);
    }
    Ok(())
}

fn copy<T: PrimitiveTensorElementType + Copy>(tensor: &mut DynTensor, port: &CachePort, rows: Rows) -> ort::Result<()> {
    let (shape, values) = tensor.try_extract_tensor_mut::<T>()?;
    let capacity = shape[2] as usize;
    for index in 0..port.heads {
        let to = head(port, capacity, rows.to, index, 0).start;
        values.copy_within(head(port, capacity, rows.from, index, rows.tokens), to);
    }
    Ok(())
}
