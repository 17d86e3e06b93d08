//! The graphs at the ends of a model that is split for an NPU. Both run on the CPU, any number of tokens at a time: from
//! tokens to the first hidden states, and from the last hidden states to logits.

use std::borrow::Cow;

use ort::session::{Session, SessionInputValue};
use ort::value::{Tensor, TensorElementType, TensorRef};

use super::DecodeError;
use super::ports::{self, Port};

/// What an end is called, and what goes in and out.
#[derive(Debug, Clone)]
pub struct EndNames {
    /// The graph's file, for messages.
    pub graph: String,
    pub input: String,
    pub output: String,
}

impl EndNames {
    pub fn new(graph: &str, input: &str, output: &str) -> Self {
        Self { graph: graph.to_owned(), input: input.to_owned(), output: output.to_owned() }
    }
}

/// Token ids (int64 or int32 `[1, n]`) to hidden states (float32 `[1, n, hidden]`).
pub struct Embeddings {
    end: End,
    element: TensorElementType,
}

/// Hidden states (float32 `[1, n, hidden]`) to logits (float32 `[1, n, vocabulary]`).
pub struct LanguageHead {
    end: End,
    hidden: usize,
    vocabulary: usize,
}

struct End {
    session: Session,
    names: EndNames,
}

impl Embeddings {
    pub fn new(session: Session, names: EndNames, hidden: usize) -> Result<Self, DecodeError> {
        let small = session.inputs().iter().any(|input| input.dtype().tensor_type() == Some(TensorElementType::Int32));
        let element = if small { TensorElementType::Int32 } else { TensorElementType::Int64 };
        let input = Port::new(&names.input, element, &[1, 0]).any_length(1);
        let output = Port::new(&names.output, TensorElementType::Float32, &[1, 0, hidden]).any_length(1);
        Ok(Self { end: End::new(session, names, input, output)?, element })
    }

    /// Appends a row of hidden states for each token.
    pub fn run(&mut self, tokens: &[u32], rows: &mut Vec<f32>) -> Result<(), DecodeError> {
        let shape = [1, tokens.len()];
        let ids: SessionInputValue<'_> = if self.element == TensorElementType::Int32 {
            // Tokens are below the vocabulary's size, and no vocabulary is near 2^31.
            let ids: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
            Tensor::from_array((shape, ids)).map_err(DecodeError::run)?.into()
        } else {
            let ids: Vec<i64> = tokens.iter().map(|token| i64::from(*token)).collect();
            Tensor::from_array((shape, ids)).map_err(DecodeError::run)?.into()
        };
        self.end.run(ids, rows)
    }
}

impl LanguageHead {
    pub fn new(session: Session, names: EndNames, hidden: usize, vocabulary: usize) -> Result<Self, DecodeError> {
        let input = Port::new(&names.input, TensorElementType::Float32, &[1, 0, hidden]).any_length(1);
        let output = Port::new(&names.output, TensorElementType::Float32, &[1, 0, vocabulary]).any_length(1);
        Ok(Self { end: End::new(session, names, input, output)?, hidden, vocabulary })
    }

    pub fn hidden(&self) -> usize {
        self.hidden
    }

    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Appends a row of logits for each row of hidden states.
    pub fn run(&mut self, rows: &[f32], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        let shape = [1, rows.len() / self.hidden, self.hidden];
        let rows = TensorRef::from_array_view((shape, rows)).map_err(DecodeError::run)?;
        self.end.run(rows.into(), logits)
    }
}

impl End {
    fn new(session: Session, names: EndNames, input: Port, output: Port) -> Result<Self, DecodeError> {
        ports::check(&session, &[input], &[output])
            .map_err(|what| DecodeError::Graph { graph: names.graph.clone(), what })?;
        Ok(Self { session, names })
    }

    fn run(&mut self, input: SessionInputValue<'_>, values: &mut Vec<f32>) -> Result<(), DecodeError> {
        let inputs = vec![(Cow::from(self.names.input.as_str()), input)];
        let outputs = self.session.run(inputs).map_err(DecodeError::run)?;
        let (_, found) = outputs[self.names.output.as_str()].try_extract_tensor::<f32>().map_err(DecodeError::run)?;
        values.extend_from_slice(found);
        Ok(())
    }
}
