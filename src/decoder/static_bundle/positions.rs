//! The inputs by which a static graph knows where its tokens are: masks over the past, and the rotary embedding's angles.

use std::ops::Range;

use ort::session::IoBinding;

use super::buffer::Buffer;
use crate::model::{NpuBundle, TensorQuantization};

/// All of them, for one graph.
pub struct Positions {
    rotations: Vec<Rotation>,
    masks: Vec<Mask>,
}

struct Rotation {
    cos: Buffer,
    sin: Buffer,
    frequencies: Vec<f64>,
    magnitude: f64,
}

struct Mask {
    buffer: Buffer,
    /// How many tokens a token sees, itself among them.
    window: usize,
    masked: f32,
    /// Which slots of the past each row shows.
    shown: Vec<Range<usize>>,
}

impl Positions {
    /// For a graph that takes so many tokens in one pass. Nothing of the past is shown yet.
    pub fn new(bundle: &NpuBundle, tokens: usize) -> ort::Result<Self> {
        let quantization = bundle.quantization.as_ref();
        let [cos, sin, mask] =
            [quantization.map(|q| &q.cos), quantization.map(|q| &q.sin), quantization.map(|q| &q.mask)];
        let rotation = |names: [&str; 2], frequencies: &[f64], magnitude: f64| -> ort::Result<Rotation> {
            let shape = [1, 1, tokens, bundle.head_size];
            let [cos, sin] = [Buffer::new(names[0], &shape, cos)?, Buffer::new(names[1], &shape, sin)?];
            Ok(Rotation { cos, sin, frequencies: frequencies.to_vec(), magnitude })
        };
        let mut rotations = vec![rotation(["cos", "sin"], &bundle.rotary_frequencies, bundle.rotary_magnitude)?];
        let mut masks = vec![Mask::new("mask", bundle, tokens, bundle.window, mask)?];
        if let Some(own) = &bundle.window_layers {
            if let Some(frequencies) = &own.rotary_frequencies {
                rotations.push(rotation(["cos_window", "sin_window"], frequencies, 1.0)?);
            }
            if own.window.is_some() {
                masks.push(Mask::new("mask_window", bundle, tokens, own.window, mask)?);
            }
        }
        Ok(Self { rotations, masks })
    }

    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        let rotations = self.rotations.iter().flat_map(|rotation| [&rotation.cos, &rotation.sin]);
        rotations.chain(self.masks.iter().map(|mask| &mask.buffer))
    }

    pub fn bind(&self, binding: &mut IoBinding) -> ort::Result<()> {
        self.buffers().try_for_each(|buffer| buffer.bind_input(binding))
    }

    /// The pass begins behind so many tokens.
    pub fn set(&mut self, position: usize) {
        self.rotations.iter_mut().for_each(|rotation| rotation.set(position));
        self.masks.iter_mut().for_each(|mask| mask.set(position));
    }
}

impl Rotation {
    /// Writes each pair's cosine into both halves of what is turned, and its sine likewise, negated in the first half; what
    /// lies behind stays as it is.
    fn set(&mut self, position: usize) {
        let [.., tokens, head_size] = *self.cos.shape() else { return };
        let pairs = self.frequencies.len();
        for token in 0..tokens {
            let angle = |index: usize| (position + token) as f64 * self.frequencies[index % pairs];
            let row = |turned: &dyn Fn(usize) -> f64, rest: f32| -> Vec<f32> {
                let value = |index| if index < 2 * pairs { (self.magnitude * turned(index)) as f32 } else { rest };
                (0..head_size).map(value).collect()
            };
            let sign = |index: usize| if index < pairs { -1.0 } else { 1.0 };
            let cos = row(&|index| angle(index).cos(), 1.0);
            let sin = row(&|index| sign(index) * angle(index).sin(), 0.0);
            self.cos.write(token * head_size, cos.into_iter());
            self.sin.write(token * head_size, sin.into_iter());
        }
    }
}

impl Mask {
    /// Hides the past; each token of a pass sees those before it and itself, padding too, as far as its window goes.
    fn new(
        name: &str,
        bundle: &NpuBundle,
        tokens: usize,
        window: Option<usize>,
        quantization: Option<&TensorQuantization>,
    ) -> ort::Result<Self> {
        let columns = bundle.context + tokens;
        let mut buffer = Buffer::new(name, &[1, 1, tokens, columns], quantization)?;
        let window = window.unwrap_or(usize::MAX);
        buffer.fill(0..tokens * columns, bundle.masked);
        for token in 0..tokens {
            let start = token * columns + bundle.context;
            buffer.fill(start + (token + 1).saturating_sub(window)..start + token + 1, 0.0);
        }
        Ok(Self { buffer, window, masked: bundle.masked, shown: vec![0..0; tokens] })
    }

    /// Shows so many slots of the past, as far as the window goes. Only what changes is written: in decode, one column or
    /// two.
    fn set(&mut self, position: usize) {
        let columns = self.buffer.shape()[3];
        for (token, shown) in self.shown.iter_mut().enumerate() {
            let seen = (position + token + 1).saturating_sub(self.window).min(position)..position;
            for (value, parts) in [(self.masked, without(shown, &seen)), (0.0, without(&seen, shown))] {
                for part in parts {
                    self.buffer.fill(token * columns + part.start..token * columns + part.end, value);
                }
            }
            *shown = seen;
        }
    }
}

/// What of a range lies before and behind another one.
fn without(range: &Range<usize>, other: &Range<usize>) -> [Range<usize>; 2] {
    if other.is_empty() {
        return [range.clone(), 0..0];
    }
    [range.start..range.end.min(other.start).max(range.start), range.start.max(other.end).min(range.end)..range.end]
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn ranges_without_others() {
        for (range, other, expected) in [
            (2..5, 0..0, [2..5, 0..0]),
            (2..5, 3..4, [2..3, 4..5]),
            (2..5, 0..3, [2..2, 3..5]),
            (2..5, 4..9, [2..4, 5..5]),
            (2..5, 0..9, [2..2, 5..5]),
            (2..5, 7..9, [2..5, 5..5]),
            (2..5, 0..1, [2..2, 2..5]),
            (3..3, 1..2, [3..3, 3..3]),
        ] {
            assert_eq!(without(&range, &other), expected, "{range:?} without {other:?}");
        }
    }
}
