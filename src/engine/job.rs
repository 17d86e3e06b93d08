//! A request on its way through the lanes: what was asked, and the answer so far. Everything that the next token depends
//! on, besides the model, is in here; so the answer can go on in another lane as if nothing had happened.

use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::constraint::Constraint;
use super::event::{FinishReason, Finished, GenerationEvent, Timings, Token, Usage};
use super::lane::LaneId;
use super::logprobs::{Ranked, rank};
use super::request::{ChatRequest, Sampling};
use super::route::RemoteUse;
use super::sampler::{SampleError, Sampler};
use super::text::{Detokenizer, StopMatcher};
use super::thinking::{Parts, ThinkingSplitter};
use super::tool_calls::{CallFinder, Found};
use crate::model::{Tokenizer, TokenizerError};

/// A request that was routed, templated and tokenized.
pub struct Request {
    pub prompt: Vec<u32>,
    pub sampling: Sampling,
    pub max_tokens: usize,
    pub stop: Vec<String>,
    pub logprobs: Option<usize>,
    /// Where the answer's text begins.
    pub thinking: ThinkingSplitter,
    pub calls: CallFinder,
    /// What the answer must keep to.
    pub constraint: Option<Constraint>,
    /// The request named its lane: the answer begins and ends there.
    pub pinned: bool,
    pub measure: Option<Measure>,
    /// Nothing in the cache is reused.
    pub fresh: bool,
    /// What was asked, for a lane that is a server; `None` where the request is not for one.
    pub chat: Option<Box<ChatRequest>>,
    pub remote: RemoteUse,
    /// When the front end handed the request over.
    pub submitted: Instant,
    pub events: UnboundedSender<GenerationEvent>,
}

/// What is different for a request that is measured: nothing is reused, and the model's end token ends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// The prompt is one forward pass, whatever the lane's chunk is.
    pub one_pass: bool,
}

/// Why there is no next token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// The lane computes nonsense.
    #[error(transparent)]
    Sample(#[from] SampleError),
    #[error("{0}")]
    Form(String),
}

pub struct Job {
    pub prompt: Vec<u32>,
    pub max_tokens: usize,
    pub pinned: bool,
    pub measure: Option<Measure>,
    pub fresh: bool,
    pub chat: Option<Box<ChatRequest>>,
    pub remote: RemoteUse,
    pub submitted: Instant,
    pub events: UnboundedSender<GenerationEvent>,
    pub usage: Usage,
    pub timings: Timings,
    sampler: Sampler,
    /// How many of the most likely tokens come with each, and how likely they were at the token that was chosen last.
    logprobs: Option<usize>,
    ranked: Option<Ranked>,
    detokenizer: Detokenizer,
    thinking: ThinkingSplitter,
    calls: CallFinder,
    constraint: Option<Constraint>,
    stops: StopMatcher,
    /// The answer's text so far, as stop texts are searched in it.
    answer: String,
    /// Some of it came as text, which has no tokens yet.
    has_bare_text: bool,
    last_token: Option<Instant>,
}

impl Job {
    pub fn new(request: Request) -> Self {
        let Request { prompt, sampling, max_tokens, stop, logprobs, thinking, calls, constraint, .. } = request;
        let Request { pinned, measure, fresh, chat, remote, submitted, events, .. } = request;
        Self {
            sampler: Sampler::new(sampling, &prompt),
            usage: Usage { prompt_tokens: prompt.len(), ..Usage::default() },
            timings: Timings::default(),
            logprobs,
            ranked: None,
            detokenizer: Detokenizer::default(),
            thinking,
            calls,
            constraint,
            stops: StopMatcher::new(&stop),
            answer: String::new(),
            has_bare_text: false,
            last_token: None,
            prompt,
            max_tokens,
            pinned,
            measure,
            fresh,
            chat,
            remote,
            submitted,
            events,
        }
    }

    /// The answer's tokens so far.
    pub fn answered(&self) -> &[u32] {
        self.detokenizer.tokens()
    }

    /// Prompt and answer so far: what a lane must have run before it can give the next token.
    pub fn sequence(&self) -> Vec<u32> {
        [&self.prompt, self.answered()].concat()
    }

    /// Nobody wants the answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.events.is_closed()
    }

    pub fn send(&self, event: GenerationEvent) {
        let _ = self.events.send(event);
    }

    /// The next token, by the logits behind the sequence so far.
    pub fn choose(&mut self, logits: &[f32]) -> Result<u32, ChoiceError> {
        let allowed = self.constraint.as_mut().map(Constraint::allowed).transpose().map_err(ChoiceError::Form)?;
        let token = self.sampler.sample(logits, allowed.as_ref().map(|allowed| allowed.as_slice()))?;
        self.ranked = self.logprobs.map(|count| rank(logits, token, count));
        Ok(token)
    }

    /// The answer's text so far, without its thinking.
    pub fn answer(&self) -> &str {
        &self.answer
    }

    /// Takes a server's piece into the answer and sends it. True where a stop text was met.
    pub fn push_text(&mut self, thinking: String, text: &str, at: Instant, lane: LaneId) -> bool {
        let thinks = text.is_empty() && !thinking.is_empty();
        // Half a character that a lane of this machine left is not gone on with: the server has not seen it.
        self.detokenizer.resume(self.detokenizer.tokens().to_vec());
        self.has_bare_text |= !text.is_empty();
        self.answer.push_str(text);
        let released = self.stops.push(text);
        self.note_time(at);
        self.usage.completion_tokens += 1;
        if thinks {
            self.usage.thinking_tokens = self.usage.completion_tokens;
        }
        let (id, tool_calls, logprobs) = (Token::NO_ID, Vec::new(), None);
        let text = released.text;
        self.send(GenerationEvent::Token(Token { text, thinking, thinks, tool_calls, id, logprobs, at, lane }));
        released.stopped
    }

    /// Makes tokens of what a server said, so that a lane of this machine can go on behind it.
    pub fn adopt_text(&mut self, tokenizer: &Tokenizer) -> Result<(), TokenizerError> {
        if !std::mem::take(&mut self.has_bare_text) {
            return Ok(());
        }
        // Where the prompt opened the thinking, it is over.
        let closing = self.thinking.closing_marker().map(|marker| format!("{marker}\n\n")).unwrap_or_default();
        let tokens = tokenizer.encode(&(closing + &self.answer))?;
        // Those before a server went on were counted when they came.
        let counted = self.detokenizer.tokens().len();
        tokens.iter().skip(counted).for_each(|token| self.sampler.observe(*token));
        self.detokenizer.resume(tokens);
        self.thinking = ThinkingSplitter::off();
        Ok(())
    }

    fn note_time(&mut self, at: Instant) {
        match self.last_token.replace(at) {
            None => self.timings.ttft = Some(at.duration_since(self.submitted)),
            Some(last) => self.timings.token_latencies.push(at.saturating_duration_since(last)),
        }
    }

    /// Takes the token that was chosen last into the answer and sends its text. True where nothing may follow: a stop text
    /// was met, or the answer's form is complete.
    pub fn push(&mut self, token: u32, at: Instant, lane: LaneId, tokenizer: &Tokenizer) -> Result<bool, String> {
        self.sampler.observe(token);
        let complete = match &mut self.constraint {
            Some(constraint) => {
                constraint.take(token)?;
                constraint.is_complete()
            }
            None => false,
        };
        let decoded = self.detokenizer.push(tokenizer, token).map_err(|error| error.to_string())?;
        let thought = self.thinking.is_thinking();
        let hidden = self.thinking.hidden_marker(token).or_else(|| self.calls.hidden_marker(token));
        let Parts { thinking, answer } = self.thinking.push(hidden.unwrap_or(&decoded));
        let thinks = thought || self.thinking.is_thinking();
        self.answer.push_str(&answer);
        let Found { text, calls } = self.calls.push(&answer);
        let released = self.stops.push(&text);
        self.note_time(at);
        self.usage.completion_tokens += 1;
        if thinks {
            // It begins with the answer's first token, whose marker may have taken several.
            self.usage.thinking_tokens = self.usage.completion_tokens;
        }
        let logprobs = self.ranked.take().map(|ranked| ranked.spelled(tokenizer));
        self.send(GenerationEvent::Token(Token {
            text: released.text,
            thinking,
            thinks,
            tool_calls: calls,
            id: token,
            logprobs,
            at,
            lane,
        }));
        Ok(released.stopped || complete)
    }

    /// Ends the answer. What was held back, as a possible stop text or an incomplete character, comes out where the
    /// answer is not given up.
    pub fn finish(mut self, reason: FinishReason, tokenizer: &Tokenizer) {
        let reason = match reason {
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Length | FinishReason::ContextFull => {
                match self.release_held(tokenizer) {
                    Err(error) => FinishReason::Error(error),
                    Ok(()) if reason == FinishReason::Stop && self.calls.found_any() => FinishReason::ToolCalls,
                    Ok(()) => reason,
                }
            }
            FinishReason::Cancelled | FinishReason::Error(_) => reason,
        };
        let finished = Finished { reason, usage: self.usage, timings: std::mem::take(&mut self.timings) };
        self.send(GenerationEvent::Finished(finished));
    }

    fn release_held(&mut self, tokenizer: &Tokenizer) -> Result<(), String> {
        let incomplete = self.detokenizer.finish(tokenizer).map_err(|error| error.to_string())?;
        let (last, held) = (self.thinking.push(&incomplete), self.thinking.finish());
        let found = self.calls.push(&(last.answer + &held.answer));
        let rest = self.calls.finish();
        let released = self.stops.push(&(found.text + &rest.text));
        let text = if released.stopped { released.text } else { released.text + &self.stops.finish() };
        let thinking = last.thinking + &held.thinking;
        let tool_calls = [found.calls, rest.calls].concat();
        if !text.is_empty() || !thinking.is_empty() || !tool_calls.is_empty() {
            self.send(GenerationEvent::TrailingText { thinking, text, tool_calls });
        }
        Ok(())
    }
}
