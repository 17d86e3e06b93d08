//! The graphs of a pipeline that run over one window of a prompt, or for one token, bound to one cache.

use ort::memory::Allocator;
use ort::session::{IoBinding, Session};
use ort::value::{DynTensor, Tensor, TensorElementType, ValueType};

use crate::decoder::ports::{self, Port};
use crate::decoder::{DecodeError, GraphPlacement, of_layer};
use crate::model::DecoderConfig;
use crate::onnx_runtime::{placement, run_bound};

/// The keys and values of all layers, as both phases read and write them.
#[derive(Default)]
pub struct Cache(Vec<CacheTensor>);

/// The keys or the values of one layer: `[1, kv_heads, capacity, head_size]`, float16 or float32.
struct CacheTensor {
    past: String,
    present: String,
    element: TensorElementType,
    shape: [usize; 4],
    tensor: DynTensor,
}

pub struct Phase {
    stages: Vec<Stage>,
    /// In one pass.
    tokens: usize,
    /// Tokens at the end of a pass, less one: `[1, 1]`.
    past_length: Named<i32>,
    /// The cache's capacity: `[1]`.
    total_length: Named<i32>,
    /// The hidden states before the first stage, and behind each: `[1, tokens, hidden]`.
    states: Vec<Named<f32>>,
}

struct Named<T: ort::value::PrimitiveTensorElementType + std::fmt::Debug> {
    name: String,
    tensor: Tensor<T>,
}

/// One graph of a phase.
struct Stage {
    graph: String,
    session: Session,
    binding: IoBinding,
}

impl Cache {
    /// Tokens that every layer has room for.
    pub fn capacity(&self) -> usize {
        self.0.iter().map(|tensor| tensor.shape[2]).min().unwrap_or(0)
    }

    /// The tensors that a graph takes, made from what it declares where they are not there yet.
    fn of_graph(&mut self, session: &Session, config: &DecoderConfig) -> Result<Vec<usize>, String> {
        let mut found = Vec::new();
        for layer in 0..config.num_hidden_layers {
            for (past, present) in [
                (&config.inputs.past_key_names, &config.outputs.present_key_names),
                (&config.inputs.past_value_names, &config.outputs.present_value_names),
            ] {
                let (past, present) = (of_layer(past, layer), of_layer(present, layer));
                let Some(input) = session.inputs().iter().find(|input| input.name() == past) else { continue };
                let index = match self.0.iter().position(|tensor| tensor.past == past) {
                    Some(index) => index,
                    None => {
                        self.0.push(CacheTensor::new(past, present, input.dtype(), config)?);
                        self.0.len() - 1
                    }
                };
                found.push(index);
            }
        }
        Ok(found)
    }
}

impl CacheTensor {
    fn new(past: String, present: String, declared: &ValueType, config: &DecoderConfig) -> Result<Self, String> {
        let (heads, width) = (config.num_key_value_heads, config.head_size);
        let wrong = || {
            format!(
                "takes its cache '{past}' as {declared}; expected float16 or float32 [1, {heads}, a length, {width}]"
            )
        };
        let ValueType::Tensor { ty, shape, .. } = declared else { return Err(wrong()) };
        let sizes: Option<Vec<usize>> = shape.iter().map(|size| usize::try_from(*size).ok()).collect();
        let shape = match sizes.as_deref() {
            Some(&[1, h, capacity, w]) if h == heads && w == width && capacity > 0 => [1, h, capacity, w],
            _ => return Err(wrong()),
        };
        if !matches!(ty, TensorElementType::Float16 | TensorElementType::Float32) {
            return Err(wrong());
        }
        let tensor = DynTensor::new(&Allocator::default(), *ty, shape).map_err(|error| error.to_string())?;
        Ok(Self { past, present, element: *ty, shape, tensor })
    }
}

impl Phase {
    /// Graphs that run one after the other, from the hidden states `source` to `target`.
    pub fn new(
        sessions: Vec<(String, Session)>,
        tokens: usize,
        config: &DecoderConfig,
        source: &str,
        target: &str,
        cache: &mut Cache,
    ) -> Result<Self, DecodeError> {
        let named = |name: &str| {
            let tensor =
                Tensor::new(&Allocator::default(), [1, tokens, config.hidden_size]).map_err(DecodeError::run)?;
            Ok::<_, DecodeError>(Named { name: name.to_owned(), tensor })
        };
        let inputs = &config.inputs;
        let integers = |name: &String, shape: &[usize]| {
            let tensor = Tensor::new(&Allocator::default(), shape).map_err(DecodeError::run)?;
            Ok::<_, DecodeError>(Named { name: name.clone(), tensor })
        };
        let mut phase = Self {
            stages: Vec::new(),
            tokens,
            past_length: integers(&inputs.past_sequence_length, &[1, 1])?,
            total_length: integers(&inputs.total_sequence_length, &[1])?,
            states: vec![named(source)?],
        };
        let mut layers = 0;
        let count = sessions.len();
        for (index, (graph, session)) in sessions.into_iter().enumerate() {
            let failed = |what: String| DecodeError::Graph { graph: graph.clone(), what };
            let tensors = cache.of_graph(&session, config).map_err(failed)?;
            layers += tensors.len();
            let output = phase.check(&session, config, cache, &tensors).map_err(failed)?;
            if index + 1 == count && output != target {
                return Err(failed(format!("gives '{output}', but the next stage takes '{target}'")));
            }
            phase.states.push(named(&output)?);
            let binding = session.create_binding().map_err(DecodeError::run)?;
            phase.stages.push(Stage { graph, session, binding });
        }
        if layers != 2 * config.num_hidden_layers {
            let graph = phase.stages.iter().map(|stage| stage.graph.as_str()).collect::<Vec<_>>().join("', '");
            let what = format!(
                "has keys and values {layers} times, but its configuration says num_hidden_layers {}",
                config.num_hidden_layers
            );
            return Err(DecodeError::Graph { graph, what });
        }
        Ok(phase)
    }

    /// Checks what the next graph takes and gives; returns the name of the hidden states that it gives.
    fn check(
        &self,
        session: &Session,
        config: &DecoderConfig,
        cache: &Cache,
        tensors: &[usize],
    ) -> Result<String, String> {
        let states = |name: &str| Port::new(name, TensorElementType::Float32, &[1, self.tokens, config.hidden_size]);
        let source = self.states.last().map_or("", |states| &states.name);
        let mut inputs = vec![
            states(source),
            Port::new(&self.past_length.name, TensorElementType::Int32, &[1, 1]),
            Port::new(&self.total_length.name, TensorElementType::Int32, &[1]),
        ];
        let mut outputs = Vec::new();
        for tensor in tensors.iter().map(|index| &cache.0[*index]) {
            inputs.push(Port::new(&tensor.past, tensor.element, &tensor.shape));
            outputs.push(Port::new(&tensor.present, tensor.element, &tensor.shape));
        }
        match ports::check(session, &inputs, &outputs)?.as_slice() {
            [output] => {
                let name = output.name().to_owned();
                outputs.push(states(&name));
                ports::check(session, &inputs, &outputs)?;
                Ok(name)
            }
            others => Err(format!("gives {} outputs beside its cache; expected hidden states alone", others.len())),
        }
    }

    /// Binds everything, once and for all, now that the cache is complete.
    pub fn bind(&mut self, cache: &mut Cache) -> ort::Result<()> {
        let capacity = i32::try_from(cache.capacity()).unwrap_or(i32::MAX);
        self.total_length.tensor.extract_tensor_mut().1.fill(capacity);
        for (index, stage) in self.stages.iter_mut().enumerate() {
            let binding = &mut stage.binding;
            let source = &self.states[index];
            binding.bind_input(source.name.as_str(), &source.tensor)?;
            let target = &mut self.states[index + 1];
            binding.bind_output(target.name.as_str(), &mut target.tensor)?;
            for length in [&self.past_length, &self.total_length] {
                binding.bind_input(length.name.as_str(), &length.tensor)?;
            }
            for tensor in &mut cache.0 {
                if stage.session.inputs().iter().any(|input| input.name() == tensor.past) {
                    binding.bind_input(tensor.past.as_str(), &tensor.tensor)?;
                    binding.bind_output(tensor.present.as_str(), &mut tensor.tensor)?;
                }
            }
        }
        Ok(())
    }

    pub fn tokens(&self) -> usize {
        self.tokens
    }

    pub fn placement(&self) -> Vec<GraphPlacement> {
        let of = |stage: &Stage| GraphPlacement {
            graph: stage.graph.clone(),
            placement: placement(&stage.session),
            compiled_nodes: None,
        };
        self.stages.iter().map(of).collect()
    }

    /// Runs hidden states, a row for each of `tokens` tokens, behind `position` tokens of the past.
    pub fn run(&mut self, rows: &[f32], position: usize) -> Result<(), DecodeError> {
        let last = i32::try_from(position + self.tokens - 1).map_err(|error| DecodeError::Run(error.to_string()))?;
        self.past_length.tensor.extract_tensor_mut().1.fill(last);
        if let Some(states) = self.states.first_mut() {
            states.tensor.extract_tensor_mut().1.copy_from_slice(rows);
        }
        for stage in &mut self.stages {
            run_bound(&mut stage.session, &stage.binding).map_err(DecodeError::Run)?;
        }
        Ok(())
    }

    /// Appends the hidden states that the last pass gave for one token.
    pub fn read_row(&self, token: usize, rows: &mut Vec<f32>) {
        if let Some(states) = self.states.last() {
            let (shape, values) = states.tensor.extract_tensor();
            let width = shape[2] as usize;
            rows.extend_from_slice(&values[token * width..(token + 1) * width]);
        }
    }
}
