//! The engine over a lane in a process of its own, which is killed or halted in the middle of an answer: another lane over
//! the same weights goes on.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ortalk::decoder::{ChildDecoder, ChildOptions, Deadlines, DecodeError, Decoder, LaneProvider, LaneRequest};
use ortalk::engine::*;
use ortalk::model::ModelFolder;
use pretty_assertions::assert_eq;

use crate::bundle::{Built, CONTEXT, float};
use crate::support::library;

/// Long for a pass of the tiny model, short for a test.
const DEADLINE: Duration = Duration::from_secs(3);
const ANSWER: usize = 12;

/// What happens to the process before the pass that follows so many tokens.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Signal(&'static str, usize),
}

/// A lane's process, and what befalls it.
struct Struck {
    child: ChildDecoder,
    fault: Fault,
}

impl Decoder for Struck {
    fn context_limit(&self) -> usize {
        self.child.context_limit()
    }

    fn prefill_chunk(&self) -> usize {
        self.child.prefill_chunk()
    }

    fn position(&self) -> usize {
        self.child.position()
    }

    fn rewind(&mut self, position: usize) {
        self.child.rewind(position);
    }

    fn forward(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        if let Fault::Signal(name, at) = self.fault
            && self.position() >= at
        {
            let process = self.child.process_id().to_string();
            assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
            self.fault = Fault::None;
        }
        self.child.forward(tokens)
    }

    fn logits(&self) -> &[f32] {
        self.child.logits()
    }
}

/// A lane in a process of its own. The fault befalls the first process only.
fn lane(id: LaneId, built: &Built, mut fault: Fault) -> LaneSpec {
    let folder = built.folder.clone();
    LaneSpec {
        id,
        execution_provider: "CPUExecutionProvider".into(),
        device: None,
        emulated: false,
        context_limit: CONTEXT,
        threads: None,
        memory: None,
        measured: MeasuredRates::default(),
        remote: None,
        source: LaneSource::Open(Box::new(move || {
            let provider = LaneProvider::Cpu;
            let request = LaneRequest { folder: folder.clone(), library: library().into(), provider, threads: 1 };
            let deadlines = Deadlines { opening: 20 * DEADLINE, pass: DEADLINE, emulated_pass: DEADLINE };
            let executable = Path::new(env!("CARGO_BIN_EXE_ortalk")).into();
            let options = ChildOptions { executable, log: Arc::new(|_| ()), deadlines };
            let child = ChildDecoder::open(request, options).map_err(|error| error.to_string())?;
            let placement = child.ready().placement.clone();
            let fault = std::mem::replace(&mut fault, Fault::None);
            Ok(OpenLane { decoder: Box::new(Struck { child, fault }), placement, device: None, emulated: false })
        })),
    }
}

fn engine(built: &Built, lanes: Vec<LaneSpec>) -> Engine {
    let model = Arc::new(ModelFolder::open(&built.folder).unwrap());
    let engine = Engine::load(EngineOptions { model, lanes, emulation: false, listener: None }).unwrap();
    engine.wait_for_lanes(None);
    engine
}

/// The tokens with their lanes, the changes, and the prompt's length.
fn ask(engine: &Engine, lane: Option<LaneId>) -> (Vec<(u32, LaneId)>, Vec<LaneChange>, Finished) {
    let mut stream = engine.submit(ChatRequest {
        sampling: Sampling { temperature: 1.0, seed: Some(3), ..Sampling::GREEDY },
        max_tokens: ANSWER,
        policy: Policy::Npu,
        lane,
        ..ChatRequest::new(vec![ChatMessage::new(Role::User, "a")])
    });
    let (mut tokens, mut changes) = (Vec::new(), Vec::new());
    loop {
        match stream.blocking_recv().unwrap() {
            GenerationEvent::Token(token) => tokens.push((token.id, token.lane)),
            GenerationEvent::LaneChanged(change) => changes.push(change),
            GenerationEvent::Finished(finished) => return (tokens, changes, finished),
            _ => {}
        }
    }
}

fn ids(tokens: &[(u32, LaneId)]) -> Vec<u32> {
    tokens.iter().map(|(id, _)| *id).collect()
}

#[test]
fn an_answer_goes_on_when_its_lane_is_killed_or_hangs() {
    let built = float();
    let whole = engine(&built, vec![lane(LaneId::Cpu, &built, Fault::None)]);
    let (expected, _, finished) = ask(&whole, None);
    let prompt = finished.usage.prompt_tokens;
    assert_eq!((expected.len(), finished.reason), (ANSWER, FinishReason::Length));
    for (signal, says) in [
        ("KILL", "its process ended with signal: 9 (SIGKILL)"),
        ("ABRT", "its process ended with signal: 6 (SIGABRT)"),
        ("STOP", "it did not answer within 3s and was ended"),
    ] {
        // In the prompt, and after some tokens.
        for answered in [0, 4] {
            let at = if answered == 0 { 0 } else { prompt + answered };
            let npu = lane(LaneId::Npu, &built, Fault::Signal(signal, at));
            let engine = engine(&built, vec![npu, lane(LaneId::Cpu, &built, Fault::None)]);
            let (tokens, changes, finished) = ask(&engine, None);
            assert_eq!(ids(&tokens), ids(&expected), "{signal} {at}");
            let on_npu = tokens.iter().filter(|(_, lane)| *lane == LaneId::Npu).count();
            assert_eq!(on_npu, if answered == 0 { 0 } else { answered + 1 });
            assert_eq!((changes.len(), changes[0].after_tokens), (1, on_npu));
            assert!(changes[0].reason.starts_with(&format!("npu failed: {says}")), "{}", changes[0].reason);
            assert_eq!(finished.reason, FinishReason::Length);
            assert!(matches!(&engine.snapshot().lanes[0].state, LaneState::Failed { reason } if reason.contains(says)));
            // Asked for by name, it is started again.
            let (tokens, changes, _) = ask(&engine, Some(LaneId::Npu));
            assert_eq!((ids(&tokens), changes.len()), (ids(&expected), 0));
        }
    }
}
