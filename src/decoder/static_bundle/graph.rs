//! One of a bundle's two graphs for the NPU, with everything that goes in and out bound to it once and for all.

use std::iter::once;

use ort::session::{IoBinding, Session};
use ort::value::{Outlet, TensorElementType, ValueType};

use super::buffer::Buffer;
use super::cache::{Cache, layer_buffers};
use super::positions::Positions;
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
    positions: Positions,
    output: Buffer,
    /// Keys, then values, of each layer: the rows that a pass adds.
    new_rows: Vec<Buffer>,
    /// What the graph gives beside: one that is made to be calibrated has its activations here.
    extra: Vec<Buffer>,
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
        let make = || -> ort::Result<Self> {
            Ok(Self {
                binding: session.create_binding()?,
                hidden_states: Buffer::new("hidden_states", &hidden, quantization.map(|q| &q.hidden_states))?,
                positions: Positions::new(bundle, tokens)?,
                output: Buffer::new("output_hidden_states", &hidden, quantization.map(|q| &q.output_hidden_states))?,
                new_rows: layer_buffers(bundle, "present", tokens)?,
                extra: Vec::new(),
                session,
                name: name.to_owned(),
                tokens,
            })
        };
        let mut graph = make().map_err(DecodeError::run)?;
        graph.check(cache).map_err(|what| DecodeError::Graph { graph: name.to_owned(), what })?;
        graph.bind(cache).map_err(DecodeError::run)?;
        Ok(graph)
    }

    /// Checks what the graph takes and gives, and finds what it gives beside.
    fn check(&mut self, cache: &Cache) -> Result<(), String> {
        let inputs = once(&self.hidden_states).chain(self.positions.buffers());
        let inputs: Vec<_> = inputs.chain(cache.past()).map(Buffer::port).collect();
        let outputs: Vec<_> = once(&self.output).chain(&self.new_rows).map(Buffer::port).collect();
        let extra = ports::check(&self.session, &inputs, &outputs)?;
        self.extra = extra.into_iter().map(extra_output).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn bind(&mut self, cache: &Cache) -> ort::Result<()> {
        self.positions.bind(&mut self.binding)?;
        for input in once(&self.hidden_states).chain(cache.past()) {
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
        self.positions.set(position);
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
