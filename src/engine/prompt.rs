//! From messages to prompt tokens that fit: renders the chat template, tokenizes, and leaves out the oldest turns where
//! the context is too short.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::described_tools::described;
use super::event::ContextTrim;
use super::request::{ChatMessage, ChatRequest, RawPrompt, Role};
use super::tools::{Tool, ToolCall, ToolChoice};
use crate::model::{ModelFolder, TemplateError, TemplateInputs, TokenizerError};

#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error("there is no message to answer")]
    NoMessage,
    #[error(
        "the model's chat template makes nothing of the conversation, so there is nothing to go on from; is it empty?"
    )]
    Empty,
    #[error("the prompt has no text to go on from")]
    NoText,
    #[error("token {token} of the prompt is none of the model's, which has {vocabulary}")]
    UnknownToken { token: u32, vocabulary: usize },
    #[error("the prompt has {tokens} tokens; a context of {limit} has no room for it and an answer")]
    NoRoom { tokens: usize, limit: usize },
    #[error("the last message needs {tokens} tokens with its template; a context of {limit} leaves room for {room}")]
    TooLong { tokens: usize, limit: usize, room: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub tokens: Vec<u32>,
    pub trim: Option<ContextTrim>,
}

/// What a prompt is made of besides the messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct PromptOptions<'a> {
    pub tools: &'a [Tool],
    pub thinking: Option<bool>,
    pub continue_last: bool,
}

impl<'a> PromptOptions<'a> {
    pub fn of(request: &'a ChatRequest) -> Self {
        let tools = if request.tool_choice == ToolChoice::None { &[] } else { request.tools.as_slice() };
        Self { tools, thinking: request.thinking, continue_last: request.continue_last }
    }
}

/// The whole conversation in tokens, ending where the answer begins.
pub fn tokenize(
    folder: &ModelFolder,
    messages: &[ChatMessage],
    options: PromptOptions<'_>,
) -> Result<Vec<u32>, PromptError> {
    let tokens = folder.tokenizer.encode(&render(folder, messages, options)?)?;
    if tokens.is_empty() { Err(PromptError::Empty) } else { Ok(tokens) }
}

/// The same as text.
pub fn render(
    folder: &ModelFolder,
    messages: &[ChatMessage],
    options: PromptOptions<'_>,
) -> Result<String, PromptError> {
    if messages.is_empty() {
        return Err(PromptError::NoMessage);
    }
    let (messages, tools) = match folder.tools.in_template {
        true => (for_template(messages), options.tools),
        false => (for_template(&described(messages, options.tools)), [].as_slice()),
    };
    let inputs = TemplateInputs {
        messages,
        tools: (!tools.is_empty()).then(|| tools.iter().map(Tool::for_template).collect()),
        thinking: options.thinking,
        add_generation_prompt: !options.continue_last,
        continue_last: options.continue_last,
        ..TemplateInputs::default()
    };
    Ok(folder.template.render_inputs(&inputs)?)
}

/// Text that is to be gone on with, in tokens.
pub fn tokenize_raw(folder: &ModelFolder, prompt: &RawPrompt) -> Result<Vec<u32>, PromptError> {
    let tokens = match prompt {
        RawPrompt::Text(text) => folder.tokenizer.encode_text(text)?,
        RawPrompt::Tokens(tokens) => tokens.clone(),
    };
    let vocabulary = folder.config.model.vocab_size;
    match tokens.iter().find(|token| **token as usize >= vocabulary) {
        Some(token) => Err(PromptError::UnknownToken { token: *token, vocabulary }),
        None if tokens.is_empty() => Err(PromptError::NoText),
        None => Ok(tokens),
    }
}

/// Whether there is room for a prompt, nothing of which is left out, and a token of an answer.
pub fn check_room(tokens: usize, limit: usize) -> Result<(), PromptError> {
    if tokens < limit { Ok(()) } else { Err(PromptError::NoRoom { tokens, limit }) }
}

/// Messages as chat templates read them. A tool's answer has the tool's name, which some templates write.
fn for_template(messages: &[ChatMessage]) -> Vec<Json> {
    let calls: HashMap<&str, &str> = messages
        .iter()
        .flat_map(|message| &message.tool_calls)
        .map(|call| (call.id.as_str(), call.name.as_str()))
        .collect();
    let of_message = |message: &ChatMessage| {
        let mut fields = json!({"role": message.role.name(), "content": message.content});
        if !message.tool_calls.is_empty() {
            fields["tool_calls"] = message.tool_calls.iter().map(ToolCall::for_template).collect();
        }
        let called = message.tool_call_id.as_deref().and_then(|id| calls.get(id).copied());
        for (field, value) in
            [("tool_call_id", message.tool_call_id.as_deref()), ("name", message.name.as_deref().or(called))]
        {
            if let Some(value) = value {
                fields[field] = value.into();
            }
        }
        fields
    };
    messages.iter().map(of_message).collect()
}

/// Tokens that a prompt may have in a context of `limit`. An answer of any length may be asked for; a quarter of the
/// context is kept for it at the most.
pub fn room(limit: usize, answer_tokens: usize) -> usize {
    limit - answer_tokens.min(limit / 4)
}

/// Leaves out the oldest turns until prompt and answer fit into `limit` tokens. `full` is the whole conversation's
/// prompt, `tokenize` makes the prompt of a shorter one. The system message and the last message always stay.
///
/// The cut moves in steps of a quarter of the context, so that it stays where it is for several turns and the KV cache
/// of those turns can be reused.
pub fn fit(
    messages: &[ChatMessage],
    full: Vec<u32>,
    limit: usize,
    answer_tokens: usize,
    tokenize: impl Fn(&[ChatMessage]) -> Result<Vec<u32>, PromptError>,
) -> Result<Prompt, PromptError> {
    let room = room(limit, answer_tokens);
    if full.len() <= room {
        return Ok(Prompt { tokens: full, trim: None });
    }
    let step = (room / 4).max(1);
    let excess = (full.len() - room).div_ceil(step) * step;
    let wanted = full.len().saturating_sub(excess);

    let cuts = cuts(messages);
    let shortened = |cut: usize| {
        let system = messages.first().filter(|message| message.role == Role::System);
        let kept: Vec<ChatMessage> = system.into_iter().chain(&messages[cut..]).cloned().collect();
        tokenize(&kept)
    };
    // The first cut that is short enough; the last one if none is. Each turn left out makes the prompt shorter.
    let mut error = None;
    let index = cuts.partition_point(|cut| match shortened(*cut) {
        Ok(tokens) => tokens.len() > wanted,
        Err(failed) => {
            error = Some(failed);
            false
        }
    });
    if let Some(error) = error {
        return Err(error);
    }
    let cut = cuts.get(index).or(cuts.last()).copied().ok_or(PromptError::NoMessage)?;
    let tokens = shortened(cut)?;
    if tokens.len() > room {
        return Err(PromptError::TooLong { tokens: tokens.len(), limit, room });
    }
    let first = usize::from(messages.first().is_some_and(|message| message.role == Role::System));
    let trim = ContextTrim {
        dropped_messages: cut - first,
        tokens_before: full.len(),
        tokens_after: tokens.len(),
        context_limit: limit,
    };
    Ok(Prompt { tokens, trim: Some(trim) })
}

/// Where a shortened conversation may begin: at a user's message, so that no answer stands without its question, and at
/// the last message, unless it is a tool's, which does not stand without its call.
fn cuts(messages: &[ChatMessage]) -> Vec<usize> {
    let last = messages.len().saturating_sub(1);
    let may_begin = |(index, message): (usize, &ChatMessage)| {
        let begins = match message.role {
            Role::User => true,
            Role::Assistant => index == last,
            // A system message is kept apart from the cut.
            Role::Tool | Role::System => false,
        };
        begins.then_some(index)
    };
    let cuts: Vec<usize> = messages.iter().enumerate().filter_map(may_begin).collect();
    if cuts.is_empty() {
        messages.iter().position(|message| message.role != Role::System).into_iter().collect()
    } else {
        cuts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each message counts as its text's length in tokens, all of them 0.
    fn by_length(messages: &[ChatMessage]) -> Result<Vec<u32>, PromptError> {
        Ok(vec![0; messages.iter().map(|message| message.content.len()).sum()])
    }

    fn conversation(lengths: &[usize], system: usize) -> Vec<ChatMessage> {
        let mut messages = Vec::new();
        if system > 0 {
            messages.push(ChatMessage::new(Role::System, "s".repeat(system)));
        }
        for (index, length) in lengths.iter().enumerate() {
            let role = if index % 2 == 0 { Role::User } else { Role::Assistant };
            messages.push(ChatMessage::new(role, "x".repeat(*length)));
        }
        messages
    }

    fn fitted(messages: &[ChatMessage], limit: usize, answer: usize) -> Result<Prompt, PromptError> {
        fit(messages, by_length(messages).unwrap(), limit, answer, by_length)
    }

    #[test]
    fn what_fits_stays_whole() {
        let prompt = fitted(&conversation(&[30, 30, 30], 10), 150, 50).unwrap();
        assert_eq!((prompt.tokens.len(), prompt.trim), (100, None));
    }

    #[test]
    fn the_oldest_turns_go_and_the_system_message_stays() {
        // Room 150 of 200; 230 tokens are 80 over, rounded up to three steps of 37: at most 119 stay, so two turns go.
        let prompt = fitted(&conversation(&[40, 40, 40, 40, 60], 10), 200, 50).unwrap();
        assert_eq!(prompt.tokens.len(), 70);
        let trim = prompt.trim.unwrap();
        assert_eq!(
            (trim.dropped_messages, trim.tokens_before, trim.tokens_after, trim.context_limit),
            (4, 230, 70, 200)
        );
    }

    #[test]
    fn a_long_answer_gets_no_more_than_a_quarter() {
        assert_eq!(fitted(&conversation(&[140], 0), 200, 10_000).unwrap().tokens.len(), 140);
    }

    #[test]
    fn the_cut_stays_for_several_turns() {
        let mut lengths = vec![20; 21];
        let mut kept_from = Vec::new();
        for _ in 0..8 {
            let messages = conversation(&lengths, 0);
            let trim = fitted(&messages, 400, 100).unwrap().trim.unwrap();
            kept_from.push(trim.dropped_messages);
            lengths.extend([20, 20]);
        }
        kept_from.dedup();
        assert!(kept_from.len() <= 5, "{kept_from:?}");
    }

    #[test]
    fn a_tool_s_answer_is_not_cut_from_its_call() {
        let roles = |roles: &[Role]| roles.iter().map(|role| ChatMessage::new(*role, "x")).collect::<Vec<_>>();
        use Role::{Assistant, System, Tool, User};
        assert_eq!(cuts(&roles(&[System, User, Assistant, User, Assistant, Tool])), [1, 3]);
        assert_eq!(cuts(&roles(&[User, Assistant, Assistant])), [0, 2]);
        assert_eq!(cuts(&roles(&[System, Assistant, Tool])), [1]);
        assert_eq!(cuts(&roles(&[System])), [0_usize; 0]);
    }

    #[test]
    fn templates_get_the_fields_that_a_message_has() {
        let call = ToolCall { id: "call_1".into(), name: "weather".into(), arguments: r#"{"city":"Oslo"}"#.into() };
        let messages = [
            ChatMessage::new(Role::User, "Oslo?"),
            ChatMessage { tool_calls: vec![call], ..ChatMessage::new(Role::Assistant, "") },
            ChatMessage { tool_call_id: Some("call_1".into()), ..ChatMessage::new(Role::Tool, "Rain") },
        ];
        let expected = json!([
            {"role": "user", "content": "Oslo?"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}]},
            {"role": "tool", "content": "Rain", "tool_call_id": "call_1", "name": "weather"},
        ]);
        assert_eq!(Json::from(for_template(&messages)), expected);
    }

    #[test]
    fn a_message_that_cannot_fit_is_refused_with_the_numbers() {
        let error = fitted(&conversation(&[10, 10, 500], 0), 200, 50).unwrap_err().to_string();
        assert!(error.contains("500") && error.contains("200") && error.contains("150"), "{error}");
    }
}
