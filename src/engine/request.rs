//! What a front end asks of the engine.

use serde_json::Value as Json;

use super::lane::LaneId;
use super::route::Policy;
use super::tools::{Tool, ToolCall, ToolChoice};
use crate::model::SearchConfig;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    /// What a tool gave back.
    Tool,
}

impl Role {
    /// As chat templates and OpenAI's interface name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    pub role: Role,
    pub content: String,
    /// What an assistant's message called.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    pub tool_call_id: Option<String>,
    /// Who speaks, where several have one role; of a tool's message the tool, which else is found by `tool_call_id`.
    pub name: Option<String>,
}

impl ChatMessage {
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new(), tool_call_id: None, name: None }
    }
}

/// How the next token is chosen from the logits. Applied in this order: repetition penalty, frequency and presence
/// penalty, bias, temperature, top-k, top-p, min-p, then a draw.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 is greedy: the most likely token, no draw.
    pub temperature: f32,
    /// Keep the k most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the most likely tokens whose probabilities add up to at least this; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divide positive and multiply negative logits of tokens that were seen (Keskar et al. 2019); 1 changes nothing.
    pub repetition_penalty: f32,
    /// Subtracted from a token's logit for each time that the answer has it, as OpenAI defines it; 0 changes nothing.
    pub frequency_penalty: f32,
    /// Subtracted once from the logit of each token that the answer has, as OpenAI defines it; 0 changes nothing.
    pub presence_penalty: f32,
    /// Added to the logits of these tokens. Tokens that the model does not have are left out.
    pub logit_bias: Vec<(u32, f32)>,
    /// The same seed and the same conversation give the same text; `None` draws a new one for each answer.
    pub seed: Option<u64>,
}

impl Sampling {
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repetition_penalty: 1.0,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: Vec::new(),
        seed: None,
    };

    /// How the model's maker suggests to sample, filled up with the defaults.
    pub fn suggested(search: &SearchConfig) -> Self {
        let default = Self::default();
        Self {
            temperature: if search.do_sample { search.temperature.unwrap_or(default.temperature) } else { 0.0 },
            top_k: search.top_k.unwrap_or(default.top_k),
            // genai writes 0 for "not used".
            top_p: search.top_p.filter(|p| *p > 0.0).unwrap_or(default.top_p),
            repetition_penalty: search.repetition_penalty.unwrap_or(default.repetition_penalty),
            ..default
        }
    }
}

impl Default for Sampling {
    /// For models whose folder suggests nothing.
    fn default() -> Self {
        Self { temperature: 0.7, top_k: 40, top_p: 0.95, min_p: 0.05, ..Self::GREEDY }
    }
}

/// One turn of a conversation to be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The whole conversation, oldest first, ending with the message to answer.
    pub messages: Vec<ChatMessage>,
    /// The last message is the beginning of an answer, which is gone on with.
    pub continue_last: bool,
    /// A conversation that is longer than the context is refused; otherwise its oldest turns are left out.
    pub whole: bool,
    /// What the model may call.
    pub tools: Vec<Tool>,
    pub tool_choice: ToolChoice,
    /// An answer may have several calls.
    pub parallel_tool_calls: bool,
    /// What the answer must be, its thinking aside.
    pub format: AnswerFormat,
    pub sampling: Sampling,
    /// The longest answer, in tokens.
    pub max_tokens: usize,
    /// Texts that end the answer; they are not part of it. Thinking is not searched for them.
    pub stop: Vec<String>,
    /// Each token comes with its log probability and with those of so many most likely ones.
    pub logprobs: Option<usize>,
    /// Whether the model thinks before it answers; `None` leaves it to its chat template. Models that know no such
    /// choice answer as they always do.
    pub thinking: Option<bool>,
    /// How the router chooses.
    pub policy: Policy,
    /// The user's override of the router: this lane answers from the first token to the last, or nobody does.
    pub lane: Option<LaneId>,
    /// A person allowed that this conversation is sent to the server of the remote lane, where its privacy is `ask`.
    pub allow_remote: bool,
    /// Nothing that a lane has in its cache is reused, so that lanes can be compared. A server's cache is its own matter.
    pub fresh: bool,
}

impl ChatRequest {
    /// Asks greedily for an answer of any length, in plain text, and leaves the rest to model and router.
    pub fn new(messages: Vec<ChatMessage>) -> Self {
        Self {
            messages,
            continue_last: false,
            whole: false,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            format: AnswerFormat::Text,
            sampling: Sampling::GREEDY,
            max_tokens: usize::MAX,
            stop: Vec::new(),
            logprobs: None,
            thinking: None,
            policy: Policy::default(),
            lane: None,
            allow_remote: false,
            fresh: false,
        }
    }
}

/// What an answer must be. An answer that is cut by its length or by a stop text is the beginning of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum AnswerFormat {
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that is valid by this JSON Schema.
    JsonSchema(Json),
}

/// Text to be gone on with as it is, without a chat template.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionRequest {
    pub prompt: RawPrompt,
    pub sampling: Sampling,
    /// The longest continuation, in tokens.
    pub max_tokens: usize,
    pub stop: Vec<String>,
    /// As in [`ChatRequest::logprobs`].
    pub logprobs: Option<usize>,
    pub policy: Policy,
    pub lane: Option<LaneId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawPrompt {
    /// Begins with the tokens that the model's texts begin with.
    Text(String),
    Tokens(Vec<u32>),
}

/// Work to be measured: on one lane, greedily, into an empty cache, and for exactly so many tokens. The model's end of an
/// answer does not end it, nothing is left out of the prompt, and no other lane goes on with it. All else is as for a
/// [`ChatRequest`], so what is measured is what a chat gets.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasureRequest {
    pub prompt: MeasuredPrompt,
    /// Tokens to generate, at least one.
    pub tokens: usize,
    pub lane: LaneId,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MeasuredPrompt {
    /// Goes through template and tokenizer, and into the lane chunk by chunk.
    Conversation(Vec<ChatMessage>),
    /// Goes to the lane's decoder in one call.
    Pass(Vec<u32>),
}

/// How a session's answers are asked for, whatever its conversation is.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerSettings {
    /// Instructions for the whole conversation.
    pub system: Option<String>,
    pub sampling: Sampling,
    /// The longest answer, in tokens.
    pub max_tokens: usize,
    /// Whether the model thinks before it answers; `None` leaves it to the model.
    pub thinking: Option<bool>,
    pub policy: Policy,
    /// The user's override of the router.
    pub lane: Option<LaneId>,
    /// As [`ChatRequest::allow_remote`].
    pub allow_remote: bool,
}

impl AnswerSettings {
    /// Asks to answer the last of these turns.
    pub fn request(&self, turns: impl IntoIterator<Item = ChatMessage>) -> ChatRequest {
        let system = self.system.iter().map(|text| ChatMessage::new(Role::System, text.as_str()));
        ChatRequest {
            sampling: self.sampling.clone(),
            max_tokens: self.max_tokens,
            thinking: self.thinking,
            policy: self.policy,
            lane: self.lane,
            allow_remote: self.allow_remote,
            ..ChatRequest::new(system.chain(turns).collect())
        }
    }
}
