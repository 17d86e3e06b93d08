//! Runs the plan on one lane of an engine.

use std::time::{Duration, Instant};

use super::prompts::conversation;
use super::report::{Case, CaseFacts, Kind, Plan, Reported, Sample, Skipped};
use crate::engine::{
    Engine, EngineError, FinishReason, Finished, GenerationEvent, LaneId, LaneStatus, MeasureRequest, MeasuredPrompt,
};
use crate::telemetry::Reading;
use crate::telemetry::watch::Watch;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the {0} lane is not ready")]
    NotReady(LaneId),
    #[error("the {lane} lane did not finish a {kind} of {prompt_tokens} tokens: {reason}")]
    Unfinished { lane: LaneId, kind: &'static str, prompt_tokens: usize, reason: String },
    #[error("a {kind} of {prompt_tokens} tokens took no time that the clock can tell")]
    NoTime { kind: &'static str, prompt_tokens: usize },
}

/// What one lane gave.
pub struct Measured {
    pub cases: Vec<Case>,
    pub skipped: Vec<Skipped>,
}

/// Does what the plan says, in its order. `say` hears of each case before it starts.
pub fn measure(
    engine: &Engine,
    lane: LaneId,
    plan: &Plan,
    watch: &Watch,
    say: &mut dyn FnMut(Kind, usize),
) -> Result<Measured, BenchError> {
    let mut measured = Measured { cases: Vec::new(), skipped: Vec::new() };
    let prompts = plan.prompt_lengths.iter().map(|tokens| (Kind::Prompt, *tokens, plan.generated_tokens));
    let passes = plan.pass_lengths.iter().map(|tokens| (Kind::Pass, *tokens, 1));
    for (kind, prompt_tokens, generated) in prompts.chain(passes) {
        let work = Work::new(engine, lane, kind, prompt_tokens, generated)?;
        match work.prompts(plan.warmup + plan.repetitions)? {
            Err(reason) => measured.skipped.push(Skipped { kind, prompt_tokens, reason }),
            Ok(prompts) => {
                say(kind, prompt_tokens);
                measured.cases.push(work.case(prompts, plan.warmup, watch)?);
            }
        }
    }
    Ok(measured)
}

/// One case's request.
pub(super) struct Work<'a> {
    engine: &'a Engine,
    status: LaneStatus,
    kind: Kind,
    prompt_tokens: usize,
    generated: usize,
}

impl<'a> Work<'a> {
    pub fn new(
        engine: &'a Engine,
        lane: LaneId,
        kind: Kind,
        prompt_tokens: usize,
        generated: usize,
    ) -> Result<Self, BenchError> {
        let lanes = engine.snapshot().lanes;
        let status = lanes.into_iter().find(|status| status.id == lane).ok_or(BenchError::NotReady(lane))?;
        Ok(Self { engine, status, kind, prompt_tokens, generated })
    }

    /// Of the lane, in tokens.
    pub fn context_limit(&self) -> usize {
        self.status.context_limit
    }

    /// So many prompts, each with another text, or why there are none.
    fn prompts(&self, count: usize) -> Result<Result<Vec<MeasuredPrompt>, String>, BenchError> {
        let (lane, limit, wanted) = (self.status.id, self.status.context_limit, self.prompt_tokens);
        // The last token is chosen, and not run.
        let needed = wanted + self.generated - 1;
        if needed > limit {
            let what = if self.kind == Kind::Prompt { "prompt and answer need" } else { "it needs" };
            return Ok(Err(format!("{what} {needed} tokens, and the context of the {lane} lane holds {limit}")));
        }
        let tokenize = |messages: &[_]| self.engine.tokenize(messages);
        let mut prompts = Vec::new();
        for variant in 0..count {
            prompts.push(match self.kind {
                Kind::Prompt => match conversation(wanted, variant, &tokenize)? {
                    Ok(messages) => MeasuredPrompt::Conversation(messages),
                    Err(closest) => {
                        return Ok(Err(format!("the closest prompt with this model's template has {closest} tokens")));
                    }
                },
                // The start of a longer chat: some lanes take only sequences that begin as chats do.
                Kind::Pass => {
                    let mut longer = wanted;
                    let messages = loop {
                        match conversation(longer, variant, &tokenize)? {
                            Ok(messages) => break messages,
                            Err(closest) => longer = closest.max(longer + 1),
                        }
                    };
                    let mut tokens = tokenize(&messages)?;
                    tokens.truncate(wanted);
                    MeasuredPrompt::Pass(tokens)
                }
            });
        }
        Ok(Ok(prompts))
    }

    fn case(&self, prompts: Vec<MeasuredPrompt>, warmup: usize, watch: &Watch) -> Result<Case, BenchError> {
        let mut samples = Vec::new();
        for (index, prompt) in prompts.into_iter().enumerate() {
            if index == warmup {
                // What warmed up is no part of the case.
                watch.lap();
            }
            let sample = self.run(prompt)?;
            if index >= warmup {
                samples.push(sample);
            }
        }
        let lap = watch.lap();
        let (energy_joules, energy_source) = match lap.energy {
            Reading::Measured(energy) => (Reading::Measured(energy.joules), Some(energy.source.to_string())),
            Reading::Unavailable(reason) => (Reading::Unavailable(reason), None),
        };
        let facts = CaseFacts {
            kind: self.kind,
            prompt_tokens: self.prompt_tokens,
            generated_tokens: self.generated,
            emulated: self.status.emulated,
            peak_memory_bytes: lap.peak_memory.into(),
            energy_joules: Reported::from(energy_joules),
            energy_source,
        };
        let (kind, prompt_tokens) = (self.kind.name(), self.prompt_tokens);
        Case::new(facts, samples).ok_or(BenchError::NoTime { kind, prompt_tokens })
    }

    /// Once.
    pub fn run(&self, prompt: MeasuredPrompt) -> Result<Sample, BenchError> {
        let request = MeasureRequest { prompt, tokens: self.generated, lane: self.status.id };
        let began = Instant::now();
        let mut events = self.engine.measure(request);
        let finished = loop {
            match events.blocking_recv() {
                Some(GenerationEvent::Finished(finished)) => break finished,
                Some(_) => {}
                None => break Finished::error("the engine stopped".into()),
            }
        };
        let took = began.elapsed();
        let unfinished = |reason: String| BenchError::Unfinished {
            lane: self.status.id,
            kind: self.kind.name(),
            prompt_tokens: self.prompt_tokens,
            reason,
        };
        if finished.reason != FinishReason::Length {
            return Err(unfinished(match finished.reason {
                FinishReason::Error(reason) => reason,
                reason => format!("it ended as '{}'", reason.name()),
            }));
        }
        let (usage, timings) = (finished.usage, finished.timings);
        let expected = (self.prompt_tokens, self.generated, 0);
        if (usage.prompt_tokens, usage.completion_tokens, usage.reused_tokens) != expected {
            return Err(unfinished(format!("it was to run {expected:?} tokens, and ran {usage:?}")));
        }
        let (Some(ttft), Some(model_ttft)) = (timings.ttft, timings.model_ttft) else {
            return Err(unfinished("it has no first token".into()));
        };
        Ok(Sample {
            request_ttft_duration_ms: milliseconds(ttft),
            model_ttft_duration_ms: milliseconds(model_ttft),
            prefill_duration_ms: milliseconds(timings.prefill),
            request_duration_ms: milliseconds(took),
            decode_token_durations_ms: timings.token_latencies.into_iter().map(milliseconds).collect(),
        })
    }
}

/// To a tenth of a microsecond; the clock is no better.
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e7).round() / 1e4
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::engine::testing::{ScriptedDecoder, byte_model};
    use crate::engine::{EngineOptions, LaneSource, LaneSpec, MeasuredRates, OpenLane};

    /// A lane on a simulator, whose tokens are bytes and whose context holds 64 of them; the template takes 17.
    #[test]
    fn each_length_is_run_as_often_as_planned_or_skipped_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let decoder = ScriptedDecoder::new(&[65], 64);
        let passes = decoder.passes.clone();
        let mut decoder = Some(decoder);
        let open = move || {
            let decoder = Box::new(decoder.take().unwrap());
            Ok(OpenLane { decoder, placement: Vec::new(), device: None, emulated: true })
        };
        let spec = LaneSpec {
            id: LaneId::Npu,
            execution_provider: "QNNExecutionProvider".into(),
            device: None,
            emulated: true,
            context_limit: 64,
            threads: None,
            memory: None,
            measured: MeasuredRates::default(),
            remote: None,
            source: LaneSource::Open(Box::new(open)),
        };
        let model = Arc::new(byte_model(dir.path()));
        let engine = Engine::load(EngineOptions { model, lanes: vec![spec], emulation: true, listener: None }).unwrap();
        let plan = Plan {
            prompt_lengths: vec![10, 30, 60, 61],
            pass_lengths: vec![3, 64, 65],
            generated_tokens: 5,
            warmup: 1,
            repetitions: 2,
        };
        let mut said = Vec::new();
        let watch = Watch::start(Vec::new).unwrap();
        let measured =
            measure(&engine, LaneId::Npu, &plan, &watch, &mut |kind, tokens| said.push((kind, tokens))).unwrap();

        let ran = [(Kind::Prompt, 30), (Kind::Prompt, 60), (Kind::Pass, 3), (Kind::Pass, 64)];
        assert_eq!(said, ran);
        for (case, (kind, tokens)) in measured.cases.iter().zip(ran) {
            assert_eq!((case.kind, case.prompt_tokens, case.emulated, case.samples.len()), (kind, tokens, true, 2));
            let decoded = if kind == Kind::Prompt { 4 } else { 0 };
            assert!(case.samples.iter().all(|sample| sample.decode_token_durations_ms.len() == decoded));
            assert_eq!(case.token_latency_ms.map_or(0, |summary| summary.count), 2 * decoded);
            assert_eq!(case.prefill_tokens_per_second.count, 2);
        }
        // Three times each: one pass and four tokens for a prompt, one pass for a pass.
        assert_eq!(passes.load(Ordering::Relaxed), 3 * (5 + 5 + 1 + 1));
        let skipped: Vec<_> =
            measured.skipped.iter().map(|skipped| (skipped.prompt_tokens, skipped.reason.as_str())).collect();
        assert_eq!(
            skipped,
            [
                (10, "the closest prompt with this model's template has 20 tokens"),
                (61, "prompt and answer need 65 tokens, and the context of the npu lane holds 64"),
                (65, "it needs 65 tokens, and the context of the npu lane holds 64"),
            ]
        );
    }
}
