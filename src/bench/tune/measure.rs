//! One measurement of a setting: a prompt and some tokens after it, over an engine that runs so.

use super::super::measure::{BenchError, Work as Piece};
use super::super::prompts::conversation;
use super::super::report::Kind;
use super::{ROUNDS, Space, TURN_PROMPT, Timing};
use crate::engine::{ChatMessage, CpuSetting, Engine, EngineError, LaneId, MeasuredPrompt};
use crate::telemetry::memory::Memory;
use crate::telemetry::statistics::median;

/// A prefill that takes longer says as much of a shorter prompt.
const LONGEST_PREFILL_MS: f64 = 2000.0;
const SHORTEST_PROMPT: usize = 128;
/// About so long tokens are generated, for the median of their times.
const DECODE_MS: f64 = 400.0;
const MOST_TOKENS: usize = 32;
const FEWEST_TOKENS: usize = 8;
/// Other texts take as long, but never meet what a cache still holds.
const VARIANTS: usize = 8;

/// Sizes of a prompt's pass that are tried.
const CHUNKS: [usize; 5] = [32, 64, 128, 256, 512];
/// A cancelled answer waits for a pass to end.
const LONGEST_PASS_MS: f64 = 1000.0;

/// What one measurement runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Work {
    pub prompt_tokens: usize,
    /// At least two.
    pub generated_tokens: usize,
}

/// Makes an engine whose CPU lane runs so.
pub type Open<'a> = Box<dyn FnMut(CpuSetting) -> anyhow::Result<Engine> + 'a>;

/// More open at once would hold threads and memory for little.
const MOST_ENGINES: usize = 16;

/// Keeps engines open, as many as there is room for, so that a setting need not be opened in each round.
pub struct Timer<'a> {
    open: Open<'a>,
    /// The one that was used last is the last.
    engines: Vec<(CpuSetting, Engine)>,
    work: Work,
    prompts: Vec<Vec<ChatMessage>>,
    next: usize,
}

impl<'a> Timer<'a> {
    /// Finds out by the default setting how much work is long enough to be measured, and which passes are worth trying.
    /// `threads` may run at once.
    pub fn new(default: CpuSetting, threads: usize, open: Open<'a>) -> anyhow::Result<(Self, Space)> {
        let work = Work { prompt_tokens: SHORTEST_PROMPT, generated_tokens: FEWEST_TOKENS };
        let mut timer = Self { open, engines: Vec::new(), work, prompts: Vec::new(), next: 0 };
        timer.make_prompts(default)?;
        timer.time(default, true)?;
        let Timing { prefill_token_ms, decode_token_ms } = timer.time(default, true)?;
        let fits = |tokens: &usize| *tokens as f64 * prefill_token_ms <= LONGEST_PREFILL_MS;
        let wanted = [TURN_PROMPT, TURN_PROMPT / 2].into_iter().find(fits).unwrap_or(SHORTEST_PROMPT);
        let tokens = DECODE_MS / decode_token_ms.unwrap_or(DECODE_MS);
        timer.work =
            Work { prompt_tokens: wanted, generated_tokens: (tokens as usize).clamp(FEWEST_TOKENS, MOST_TOKENS) };
        timer.make_prompts(default)?;
        let is_worth_it = |chunk: &usize| {
            *chunk == default.prefill_chunk
                || *chunk <= timer.work.prompt_tokens && *chunk as f64 * prefill_token_ms <= LONGEST_PASS_MS
        };
        let chunks = CHUNKS.into_iter().filter(is_worth_it).collect();
        Ok((timer, Space { default, threads, chunks, rounds: ROUNDS }))
    }

    pub fn work(&self) -> Work {
        self.work
    }

    /// Measures once; the decode only where `decodes`.
    pub fn time(&mut self, setting: CpuSetting, decodes: bool) -> anyhow::Result<Timing> {
        let prompt = self.prompts[self.next % self.prompts.len()].clone();
        self.next += 1;
        let Work { prompt_tokens, generated_tokens } = self.work;
        let generated = if decodes { generated_tokens } else { 1 };
        let engine = self.engine(setting)?;
        let sample = piece(engine, prompt_tokens, generated)?.run(MeasuredPrompt::Conversation(prompt))?;
        let prefill_token_ms = sample.prefill_duration_ms / prompt_tokens as f64;
        Ok(Timing { prefill_token_ms, decode_token_ms: median(&sample.decode_token_durations_ms) })
    }

    /// Opened where it is not, and warmed up.
    fn engine(&mut self, setting: CpuSetting) -> anyhow::Result<&Engine> {
        if let Some(at) = self.engines.iter().position(|(open, _)| *open == setting) {
            let found = self.engines.remove(at);
            self.engines.push(found);
        } else {
            while self.engines.len() >= MOST_ENGINES || self.engines.first().is_some_and(|(_, other)| !has_room(other))
            {
                self.engines.remove(0);
            }
            let engine = (self.open)(setting)?;
            if let Some(prompt) = self.prompts.first() {
                let Work { prompt_tokens, .. } = self.work;
                piece(&engine, prompt_tokens, 2)?.run(MeasuredPrompt::Conversation(prompt.clone()))?;
            }
            self.engines.push((setting, engine));
        }
        match self.engines.last() {
            Some((_, engine)) => Ok(engine),
            None => Err(BenchError::NotReady(LaneId::Cpu).into()),
        }
    }

    /// As long as planned, or as close to it as the model's template and context allow.
    fn make_prompts(&mut self, setting: CpuSetting) -> anyhow::Result<()> {
        self.prompts.clear();
        let engine = self.engine(setting)?.clone();
        let limit = piece(&engine, 1, 1)?.context_limit();
        let room = limit.saturating_sub(self.work.generated_tokens).max(1);
        let mut wanted = self.work.prompt_tokens.min(room);
        for variant in 0..VARIANTS {
            let tokenize = |messages: &[ChatMessage]| engine.tokenize(messages);
            let prompt: Result<_, EngineError> = conversation(wanted, variant, &tokenize);
            match prompt? {
                Ok(prompt) => self.prompts.push(prompt),
                // The template alone is longer than that.
                Err(closest) if variant == 0 && closest > wanted && closest <= room => {
                    wanted = closest;
                    self.prompts.extend(conversation(wanted, variant, &tokenize)?.ok());
                }
                Err(_) => {}
            }
        }
        self.work.prompt_tokens = wanted;
        anyhow::ensure!(
            !self.prompts.is_empty(),
            "no prompt of {wanted} tokens can be made for this model, whose context holds {limit}"
        );
        Ok(())
    }
}

/// Whether the machine has room for another one like this.
fn has_room(engine: &Engine) -> bool {
    let lanes = engine.snapshot().lanes;
    let bytes = lanes.iter().filter_map(|lane| lane.memory).map(|memory| memory.bytes).sum::<u64>();
    Memory::look().is_none_or(|memory| memory.available > bytes + bytes / 4)
}

fn piece(engine: &Engine, prompt_tokens: usize, generated: usize) -> Result<Piece<'_>, BenchError> {
    Piece::new(engine, LaneId::Cpu, Kind::Prompt, prompt_tokens, generated)
}
