//! The engine: a request in, events out. It routes, templates, tokenizes, generates, samples and detokenizes; it knows
//! no terminal and no HTTP.
//!
//! A request's walk: `submit` hands it to the dispatcher thread, which makes the prompt's tokens, asks the router and
//! passes the job to the chosen lane's own thread (`worker`, `generate`). Events go straight from there to the front end.

mod dispatch;
mod event;
mod generate;
mod lane;
mod prompt;
mod request;
mod route;
mod sampler;
#[cfg(test)]
mod testing;
mod text;
mod worker;

use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::mpsc::unbounded_channel;

use crate::decoder::{DecodeError, Decoder, DecoderOptions, SharedBufferDecoder};
use crate::model::{ModelError, ModelFolder};
use crate::onnx_runtime::{CPU_PROVIDER, CpuSessionOptions, OnnxRuntime};

pub use event::{ContextTrim, FinishReason, Finished, GenerationEvent, PrefillProgress, Timings, Token, Usage};
pub use lane::{LaneId, LaneState, LaneStatus, MeasuredRates, Placement};
pub use prompt::PromptError;
pub use request::{AnswerSettings, ChatMessage, ChatRequest, Role, Sampling};
pub use route::{Rejection, RouteError, RoutingDecision, Rule};

use dispatch::Submission;
use generate::LaneDecoder;
use worker::{Lane, SharedLanes, Worker};

/// The events of one answer. Dropping it cancels the answer within one token.
pub type GenerationStream = tokio::sync::mpsc::UnboundedReceiver<GenerationEvent>;

/// A loaded model with its lanes. Cheap to clone; all clones share the lanes. When the last clone goes, running answers
/// are cut and the lanes' threads end.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    folder: Arc<ModelFolder>,
    weight_bytes: u64,
    lanes: SharedLanes,
    stopping: Arc<AtomicBool>,
    /// `None` only while the engine is dropped.
    submissions: Option<Sender<Submission>>,
    threads: Vec<JoinHandle<()>>,
}

pub struct EngineOptions {
    pub runtime: OnnxRuntime,
    pub model: PathBuf,
    /// For the CPU lane; `None` is one for each physical core.
    pub threads: Option<usize>,
    /// Where the NPU's plug-in may lie.
    pub plugin_folders: Vec<PathBuf>,
}

/// The engine as it stands now; what every front end draws its panels from.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSnapshot {
    /// The model's short name, as in the title bar.
    pub model: String,
    pub architecture: String,
    /// Size of the weights on disk, in bytes.
    pub weight_bytes: u64,
    pub lanes: Vec<LaneStatus>,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Decoder(#[from] DecodeError),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
    #[error("this request broke ortalk, which is a bug: {0}")]
    Panic(String),
}

impl Engine {
    /// Loads the model and makes its lanes. Takes as long as ONNX Runtime takes to open the graph.
    pub fn load(options: EngineOptions) -> Result<Self, EngineError> {
        let folder = Arc::new(ModelFolder::open(&options.model)?);
        let threads = options.threads.unwrap_or_else(default_threads);
        let decoder = SharedBufferDecoder::new(
            &options.runtime,
            &folder,
            DecoderOptions {
                session: CpuSessionOptions { threads, spinning: false },
                context: folder.config.model.context_length,
            },
        )?;
        let cpu = LaneStatus {
            id: LaneId::Cpu,
            execution_provider: CPU_PROVIDER.to_string(),
            device: None,
            emulated: false,
            state: LaneState::Ready,
            context_limit: decoder.context_limit(),
            threads: Some(threads),
            placement: decoder.placement(),
            measured: MeasuredRates::default(),
        };
        let absence = options.runtime.npu_absence(&options.plugin_folders);
        let npu = LaneStatus {
            id: LaneId::Npu,
            execution_provider: "QNNExecutionProvider".to_string(),
            device: absence.device.clone(),
            emulated: false,
            state: LaneState::Absent { reason: absence.to_string() },
            context_limit: 0,
            threads: None,
            placement: None,
            measured: MeasuredRates::default(),
        };

        let lanes: SharedLanes =
            Arc::new(Mutex::new([npu, cpu].into_iter().map(|status| Lane { status, cached: Vec::new() }).collect()));
        let stopping = Arc::new(AtomicBool::new(false));
        let lane = LaneDecoder::new(LaneId::Cpu, Box::new(decoder));
        let worker = Worker::start(lane, folder.clone(), lanes.clone(), stopping.clone())?;
        let workers = vec![(worker.lane, worker.jobs)];
        let (submissions, dispatcher) = dispatch::start(folder.clone(), lanes.clone(), workers)?;
        Ok(Self {
            inner: Arc::new(Inner {
                weight_bytes: folder.weight_bytes(),
                folder,
                lanes,
                stopping,
                submissions: Some(submissions),
                threads: vec![dispatcher, worker.thread],
            }),
        })
    }

    pub fn snapshot(&self) -> EngineSnapshot {
        EngineSnapshot {
            model: self.inner.folder.name.clone(),
            architecture: self.inner.folder.config.model.architecture.clone(),
            weight_bytes: self.inner.weight_bytes,
            lanes: lock(&self.inner.lanes).iter().map(|lane| lane.status.clone()).collect(),
        }
    }

    /// What the router would decide for this conversation now, without running anything.
    pub fn preview(&self, request: &ChatRequest) -> Result<RoutingDecision, EngineError> {
        let prompt = prompt::tokenize(&self.inner.folder, &request.messages)?;
        Ok(dispatch::decide(&lock(&self.inner.lanes), request, &prompt)?)
    }

    /// Queues the request and returns at once. The last event is `Finished`, also when the request is refused.
    pub fn submit(&self, request: ChatRequest) -> GenerationStream {
        let (events, stream) = unbounded_channel();
        if let Some(submissions) = &self.inner.submissions {
            // The dispatcher's thread ends after the engine only.
            let _ = submissions.send(Submission { request, submitted: Instant::now(), events });
        }
        stream
    }
}

impl Drop for Inner {
    /// ONNX Runtime must not be running when the process ends, so the threads are waited for: a token at the most.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.submissions = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One for each physical core that this process may use: two threads on one core slow each other down.
fn default_threads() -> usize {
    let usable = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    sysinfo::System::physical_core_count().map_or(usable, |cores| cores.min(usable)).max(1)
}

/// The lanes' states stay meaningful when a thread panicked while it held them: each is written in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a caught panic said; where it was, the panic hook has told standard error.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked without a message").to_owned()
}
