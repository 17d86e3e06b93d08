//! The keys and values of all layers: in one buffer that is bound as past and present at once, or in tensors of which each
//! pass's present becomes the next one's past. Neither kind is copied on our side from token to token.

use ort::memory::Allocator;
use ort::session::IoBinding;
use ort::value::{DynTensor, PrimitiveTensorElementType, TensorElementType};

use super::contract::{CacheKind, CachePort};

/// Room for so many tokens is made at first in a shared buffer; it doubles when it is full. A short chat does not pay for
/// a long context's memory.
const FIRST_CAPACITY: usize = 1024;

pub struct Cache {
    kind: CacheKind,
    slots: Vec<Slot>,
    /// Tokens that the tensors have room for; of a growing cache, those that are in them.
    capacity: usize,
    /// The longest sequence, in tokens.
    context: usize,
    allocator: Allocator,
}

/// The keys or the values of one layer.
struct Slot {
    port: CachePort,
    /// `[1, heads, capacity, width]`; the binding holds it, too.
    tensor: DynTensor,
    /// Of a growing cache: where the pass at hand writes the present.
    present: Option<DynTensor>,
}

impl Cache {
    pub fn new(
        kind: CacheKind,
        ports: &[CachePort],
        context: usize,
        allocator: Allocator,
        binding: &mut IoBinding,
    ) -> ort::Result<Self> {
        let slot =
            |port: &CachePort| Ok(Slot { port: port.clone(), tensor: port.tensor(0, &allocator)?, present: None });
        let slots = ports.iter().map(slot).collect::<ort::Result<_>>()?;
        let mut cache = Self { kind, slots, capacity: 0, context, allocator };
        if kind == CacheKind::Shared {
            cache.resize(FIRST_CAPACITY.min(context), 0, binding)?;
        }
        Ok(cache)
    }

    pub fn kind(&self) -> CacheKind {
        self.kind
    }

    /// Before a pass: keeps the first `position` tokens and makes room for `total`, which the context holds.
    pub fn prepare(&mut self, position: usize, total: usize, binding: &mut IoBinding) -> ort::Result<()> {
        match self.kind {
            CacheKind::Shared if total <= self.capacity => Ok(()),
            CacheKind::Shared => self.resize(total.next_power_of_two().min(self.context), position, binding),
            CacheKind::Growing => {
                if position < self.capacity {
                    self.resize(position, position, binding)?;
                }
                for Slot { port, tensor, present } in &mut self.slots {
                    binding.bind_input(port.past.as_str(), &*tensor)?;
                    let present = present.insert(port.tensor(total, &self.allocator)?);
                    binding.bind_output(port.present.as_str(), present)?;
                }
                Ok(())
            }
        }
    }

    /// After a pass to `total` tokens.
    pub fn advance(&mut self, total: usize) {
        if self.kind == CacheKind::Shared {
            return;
        }
        for Slot { tensor, present, .. } in &mut self.slots {
            if let Some(present) = present.take() {
                *tensor = present;
            }
        }
        self.capacity = total;
    }

    /// Tensors for `capacity` tokens with the first `kept` of each head.
    fn resize(&mut self, capacity: usize, kept: usize, binding: &mut IoBinding) -> ort::Result<()> {
        for Slot { port, tensor, .. } in &mut self.slots {
            let mut resized = port.tensor(capacity, &self.allocator)?;
            match port.element {
                TensorElementType::Float32 => keep::<f32>(tensor, &mut resized, port, kept)?,
                TensorElementType::Float16 => keep::<half::f16>(tensor, &mut resized, port, kept)?,
                _ => keep::<half::bf16>(tensor, &mut resized, port, kept)?,
            }
            *tensor = resized;
            // At once, or the binding would keep all the old ones until the last new one is made.
            binding.bind_input(port.past.as_str(), &*tensor)?;
            if self.kind == CacheKind::Shared {
                binding.bind_output(port.present.as_str(), &mut *tensor)?;
            }
        }
        self.capacity = capacity;
        Ok(())
    }
}

impl CachePort {
    fn tensor(&self, tokens: usize, allocator: &Allocator) -> ort::Result<DynTensor> {
        DynTensor::new(allocator, self.element, [1, self.heads, tokens, self.width])
    }
}

/// Copies the first `kept` tokens of each head.
fn keep<T: PrimitiveTensorElementType + Copy>(
    from: &DynTensor,
    to: &mut DynTensor,
    port: &CachePort,
    kept: usize,
) -> ort::Result<()> {
    if kept == 0 {
        return Ok(());
    }
    let (shape, from) = from.try_extract_tensor::<T>()?;
    let from_stride = shape[2] as usize * port.width;
    let (shape, to) = to.try_extract_tensor_mut::<T>()?;
    let to_stride = shape[2] as usize * port.width;
    let heads = from.chunks_exact(from_stride).zip(to.chunks_exact_mut(to_stride));
    heads.for_each(|(from, to)| to[..kept * port.width].copy_from_slice(&from[..kept * port.width]));
    Ok(())
}
