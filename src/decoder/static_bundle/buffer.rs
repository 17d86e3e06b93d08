//! A tensor that stays bound to its graph, in the graph's own element type: real numbers go in and come out, codes lie
//! inside.

use std::ops::Range;

use ort::memory::Allocator;
use ort::session::IoBinding;
use ort::value::{PrimitiveTensorElementType, Tensor, TensorElementType};

use crate::decoder::ports::Port;
use crate::model::{IntegerType, TensorQuantization};

pub struct Buffer {
    name: String,
    shape: Vec<usize>,
    values: Values,
}

enum Values {
    Real(Tensor<f32>),
    U8(Codes<u8>),
    U16(Codes<u16>),
    I16(Codes<i16>),
}

struct Codes<T: PrimitiveTensorElementType + std::fmt::Debug> {
    tensor: Tensor<T>,
    quantization: TensorQuantization,
}

/// Evaluates an expression with the codes of whichever integer type, or another one with the real numbers.
macro_rules! either {
    ($values:expr, $tensor:ident => $real:expr, $codes:ident => $code:expr) => {
        match $values {
            Values::Real($tensor) => $real,
            Values::U8($codes) => $code,
            Values::U16($codes) => $code,
            Values::I16($codes) => $code,
        }
    };
}

impl Buffer {
    /// All zero. `name` is the graph's for this input or output; without `quantization`, numbers are float32.
    pub fn new(
        name: impl Into<String>,
        shape: &[usize],
        quantization: Option<&TensorQuantization>,
    ) -> ort::Result<Self> {
        let values = match quantization {
            None => Values::Real(Tensor::new(&Allocator::default(), shape)?),
            Some(quantization) => match quantization.r#type {
                IntegerType::U8 => Values::U8(Codes::new(shape, quantization)?),
                IntegerType::U16 => Values::U16(Codes::new(shape, quantization)?),
                IntegerType::I16 => Values::I16(Codes::new(shape, quantization)?),
            },
        };
        let mut buffer = Self { name: name.into(), shape: shape.to_vec(), values };
        buffer.fill(0..buffer.len(), 0.0);
        Ok(buffer)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// What the graph must have for it.
    pub fn port(&self) -> Port {
        let element = match self.values {
            Values::Real(_) => TensorElementType::Float32,
            Values::U8(_) => TensorElementType::Uint8,
            Values::U16(_) => TensorElementType::Uint16,
            Values::I16(_) => TensorElementType::Int16,
        };
        Port::new(&self.name, element, &self.shape)
    }

    pub fn bind_input(&self, binding: &mut IoBinding) -> ort::Result<()> {
        let name = self.name.as_str();
        either!(&self.values, tensor => binding.bind_input(name, tensor), codes => binding.bind_input(name, &codes.tensor))
    }

    pub fn bind_output(&mut self, binding: &mut IoBinding) -> ort::Result<()> {
        let name = self.name.as_str();
        either!(&mut self.values,
            tensor => binding.bind_output(name, tensor),
            codes => binding.bind_output(name, &mut codes.tensor))
    }

    /// Writes `reals` from the number at `start` on.
    pub fn write(&mut self, start: usize, reals: impl ExactSizeIterator<Item = f32>) {
        let range = start..start + reals.len();
        either!(&mut self.values,
            tensor => {
                for (value, real) in tensor.extract_tensor_mut().1[range].iter_mut().zip(reals) {
                    *value = real;
                }
            },
            codes => codes.write(range, reals));
    }

    pub fn fill(&mut self, range: Range<usize>, real: f32) {
        either!(&mut self.values,
            tensor => tensor.extract_tensor_mut().1[range].fill(real),
            codes => codes.fill(range, real));
    }

    /// Appends the numbers of a range.
    pub fn read(&self, range: Range<usize>, reals: &mut Vec<f32>) {
        either!(&self.values,
            tensor => reals.extend_from_slice(&tensor.extract_tensor().1[range]),
            codes => codes.read(range, reals));
    }

    /// In each head, copies the first `rows` rows of `new` to those from `start` on. Both are `[1, heads, rows, width]`,
    /// and of one quantization.
    pub fn copy_rows(&mut self, start: usize, new: &Self, rows: usize) {
        let layout = RowCopy { from: new.shape[2], to: self.shape[2], width: self.shape[3], start, rows };
        match (&new.values, &mut self.values) {
            (Values::Real(new), Values::Real(old)) => layout.copy(new.extract_tensor().1, old.extract_tensor_mut().1),
            (Values::U8(new), Values::U8(old)) => layout.copy(new.codes(), old.codes_mut()),
            (Values::U16(new), Values::U16(old)) => layout.copy(new.codes(), old.codes_mut()),
            (Values::I16(new), Values::I16(old)) => layout.copy(new.codes(), old.codes_mut()),
            _ => unreachable!("past and new rows are made with one quantization"),
        }
    }
}

impl<T: PrimitiveTensorElementType + std::fmt::Debug + Copy + Default + Clone + TryFrom<i32> + Into<i32>> Codes<T> {
    fn new(shape: &[usize], quantization: &TensorQuantization) -> ort::Result<Self> {
        Ok(Self { tensor: Tensor::new(&Allocator::default(), shape)?, quantization: *quantization })
    }

    fn codes(&self) -> &[T] {
        self.tensor.extract_tensor().1
    }

    fn codes_mut(&mut self) -> &mut [T] {
        self.tensor.extract_tensor_mut().1
    }

    fn write(&mut self, range: Range<usize>, reals: impl Iterator<Item = f32>) {
        let quantization = self.quantization;
        for (code, real) in self.codes_mut()[range].iter_mut().zip(reals) {
            *code = encode(&quantization, real);
        }
    }

    fn fill(&mut self, range: Range<usize>, real: f32) {
        let code = encode(&self.quantization, real);
        self.codes_mut()[range].fill(code);
    }

    fn read(&self, range: Range<usize>, reals: &mut Vec<f32>) {
        reals.extend(self.codes()[range].iter().map(|code| self.quantization.dequantize((*code).into())));
    }
}

/// A code is within its type's range already.
fn encode<T: Default + TryFrom<i32>>(quantization: &TensorQuantization, real: f32) -> T {
    T::try_from(quantization.quantize(real)).unwrap_or_default()
}

/// Rows that go from the heads of one tensor to those of another.
struct RowCopy {
    /// Rows of a head in each of the two.
    from: usize,
    to: usize,
    width: usize,
    start: usize,
    rows: usize,
}

impl RowCopy {
    fn copy<T: Copy>(&self, from: &[T], to: &mut [T]) {
        let length = self.rows * self.width;
        let start = self.start * self.width;
        let heads = to.chunks_exact_mut(self.to * self.width).zip(from.chunks_exact(self.from * self.width));
        for (to, from) in heads {
            to[start..start + length].copy_from_slice(&from[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn rows_land_in_their_head() {
        // Two heads of three rows, two wide, into two heads of four rows.
        let from: Vec<u8> = (1..=12).collect();
        let mut to = [0; 16];
        RowCopy { from: 3, to: 4, width: 2, start: 1, rows: 2 }.copy(&from, &mut to);
        assert_eq!(to, [0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 7, 8, 9, 10, 0, 0]);
    }
}
