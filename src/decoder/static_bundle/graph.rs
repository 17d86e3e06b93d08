//! One of a bundle's two graphs for the NPU, with everything that goes in and out bound to it once and for all.

use std::iter::once;

use ort::session::{IoBinding, Session};
use ort::value::{Outlet, TensorElementType, ValueType};

use super::buffer::Buffer;
use super::cache::{Cache, layer_buffers};
use crate::decoder::{DecodeError, ports};
use crate::model::NpuBundle;
use crate::onnx_runtime::{Placement, placement, run_bound};

/// What went into a pass as hidden states, or came out of it, in real numbers.
pub struct Observed<'a> {
    /// The graph's name of it.
    pub name: &'a str,
    pub shape: &'a [usize],
    /// In row-major order. Codes are dequantized.
    pub values: &'a [f32],
    /// The graph's tokens in one pass.
    pub tokens: usize,
    /// How many of them are real; what comes after them is padding.
    pub rows: usize,
    /// Tokens before this pass.
    pub position: usize,
}

pub struct StaticGraph {
    session: Session,
    binding: IoBinding,
    name: String,
    /// In one pass.
    tokens: usize,
    hidden_states: Buffer,
    cos: Buffer,
    sin: Buffer,
    mask: Buffer,
    output: Buffer,
    /// Keys, then values, of each layer: the rows that a pass adds.
    new_rows: Vec<Buffer>,
    /// What the graph gives beside: one that is made to be calibrated has its activations here.
    extra: Vec<Buffer>,
    frequencies: Vec<f64>,
    masked: f32,
    /// So many slots of the past does the mask show.
    seen: usize,
}

impl StaticGraph {
    /// `tokens` is the number that the graph takes in one pass; the past is read from `cache`.
    pub fn new(
        session: Session,
        name: &str,
        tokens: usize,
        bundle: &NpuBundle,
        cache: &Cache,
    ) -> Result<Self, DecodeError> {
        let quantization = bundle.quantization.as_ref();
        let hidden = [1, tokens, bundle.hidden];
        let rotation = [1, 1, tokens, bundle.head_size];
        let columns = [1, 1, tokens, bundle.context + tokens];
        let make = || -> ort::Result<Self> {
            Ok(Self {
                binding: session.create_binding()?,
                hidden_states: Buffer::new("hidden_states", &hidden, quantization.map(|q| &q.hidden_states))?,
                cos: Buffer::new("cos", &rotation, quantization.map(|q| &q.cos))?,
                sin: Buffer::new("sin", &rotation, quantization.map(|q| &q.sin))?,
                mask: Buffer::new("mask", &columns, quantization.map(|q| &q.mask))?,
                output: Buffer::new("output_hidden_states", &hidden, quantization.map(|q| &q.output_hidden_states))?,
                new_rows: layer_buffers(bundle, "present", tokens)?,
                extra: Vec::new(),
                session,
                name: name.to_owned(),
                tokens,
                frequencies: bundle.rotary_frequencies.clone(),
                masked: bundle.masked,
                seen: 0,
            })
        };
        let mut graph = make().map_err(DecodeError::run)?;
        graph.check(cache).map_err(|what| DecodeError::Graph { graph: name.to_owned(), what })?;
        graph.bind(cache).map_err(DecodeError::run)?;
        graph.hide_all();
        Ok(graph)
    }

    /// Checks what the graph takes and gives, and finds what it gives beside.
    fn check(&mut self, cache: &Cache) -> Result<(), String> {
        let inputs = [&self.hidden_states, &self.cos, &self.sin, &self.mask];
        let inputs: Vec<_> = inputs.into_iter().chain(cache.past()).map(Buffer::port).collect();
        let outputs: Vec<_> = once(&self.output).chain(&self.new_rows).map(Buffer::port).collect();
        let extra = ports::check(&self.session, &inputs, &outputs)?;
        self.extra = extra.into_iter().map(extra_output).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn bind(&mut self, cache: &Cache) -> ort::Result<()> {
        let inputs = [&self.hidden_states, &self.cos, &self.sin, &self.mask];
        for input in inputs.into_iter().chain(cache.past()) {
            input.bind_input(&mut self.binding)?;
        }
        for output in once(&mut self.output).chain(&mut self.new_rows).chain(&mut self.extra) {
            output.bind_output(&mut self.binding)?;
        }
        Ok(())
    }

    /// The graph's file.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn placement(&self) -> Option<Placement> {
        placement(&self.session)
    }

    /// Runs hidden states, a row for each of at most `tokens` tokens, behind `position` tokens of the past.
    pub fn run(&mut self, rows: &[f32], position: usize) -> Result<(), DecodeError> {
        self.hidden_states.write(0, rows.iter().copied());
        self.hidden_states.fill(rows.len()..self.hidden_states.len(), 0.0);
        self.rotate(position);
        self.show(position);
        run_bound(&mut self.session, &self.binding).map_err(DecodeError::Run)
    }

    /// The keys and values that the last pass added.
    pub fn new_rows(&self) -> &[Buffer] {
        &self.new_rows
    }

    /// Appends the hidden states that the last pass gave for some of its tokens.
    pub fn read_output(&self, tokens: std::ops::Range<usize>, rows: &mut Vec<f32>) {
        let width = self.output.shape()[2];
        self.output.read(tokens.start * width..tokens.end * width, rows);
    }

    /// Shows what went into the last pass and what came out.
    pub fn observe(&self, rows: usize, position: usize, observer: &mut dyn FnMut(&Observed<'_>)) {
        let mut values = Vec::new();
        for buffer in [&self.hidden_states, &self.output].into_iter().chain(&self.new_rows).chain(&self.extra) {
            values.clear();
            buffer.read(0..buffer.len(), &mut values);
            let (name, shape, tokens) = (buffer.name(), buffer.shape(), self.tokens);
            observer(&Observed { name, shape, values: &values, tokens, rows, position });
        }
    }

    /// Writes each pair's cosine into both halves of the head, and its sine likewise, negated in the first half.
    fn rotate(&mut self, position: usize) {
        let head_size = 2 * self.frequencies.len();
        for token in 0..self.tokens {
            let angles = self.frequencies.iter().map(|frequency| (position + token) as f64 * frequency);
            let both = || angles.clone().chain(angles.clone());
            let signs = (0..head_size).map(|index| if index < head_size / 2 { -1.0 } else { 1.0 });
            let cos: Vec<f32> = both().map(|angle| angle.cos() as f32).collect();
            let sin: Vec<f32> = both().zip(signs).map(|(angle, sign)| (sign * angle.sin()) as f32).collect();
            self.cos.write(token * head_size, cos.into_iter());
            self.sin.write(token * head_size, sin.into_iter());
        }
    }

    /// Hides the past; each token of a pass sees those before it and itself, padding too.
    fn hide_all(&mut self) {
        let columns = self.columns();
        let past = columns - self.tokens;
        self.mask.fill(0..self.mask.len(), self.masked);
        for token in 0..self.tokens {
            let row = token * columns;
            self.mask.fill(row + past..row + past + token + 1, 0.0);
        }
    }

    /// Shows the first `seen` slots of the past. Only the columns that change are written: in decode, one.
    fn show(&mut self, seen: usize) {
        let (low, high) = (seen.min(self.seen), seen.max(self.seen));
        let value = if seen > self.seen { 0.0 } else { self.masked };
        let columns = self.columns();
        for row in (0..self.tokens).map(|token| token * columns) {
            self.mask.fill(row + low..row + high, value);
        }
        self.seen = seen;
    }

    fn columns(&self) -> usize {
        self.mask.shape()[3]
    }
}

/// Anything that is not known here is for an observer.
fn extra_output(outlet: &Outlet) -> Result<Buffer, String> {
    let unknown = || {
        format!(
            "has the output '{}', a {}; outputs that are not known here must be float32 of a fixed shape",
            outlet.name(),
            outlet.dtype()
        )
    };
    let ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } = outlet.dtype() else {
        return Err(unknown());
    };
    let shape: Option<Vec<usize>> = shape.iter().map(|size| usize::try_from(*size).ok()).collect();
    Buffer::new(outlet.name(), &shape.ok_or_else(unknown)?, None).map_err(|error| error.to_string())
}
