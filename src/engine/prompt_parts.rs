//! What the tokens of a conversation's prompt are of: the system message, the turns before, the last message.
//!
//! Templates put messages into text in their own ways, so where a message's text begins is found out by rendering the
//! conversation a second time with another text in its place: up to there both are the same.

use serde::{Deserialize, Serialize};

use super::prompt::{PromptOptions, render};
use super::request::{ChatMessage, Role};
use crate::model::ModelFolder;

/// Tokens; the three together are the prompt. The template's marks around a message count with what is before its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PromptParts {
    /// Before the text of the first turn: the system message, or what the template says in its place, and tools.
    pub system: usize,
    /// From there to the last message's text.
    pub history: usize,
    /// The last message's text and what follows it, up to the answer.
    pub message: usize,
}

/// No message begins so, and no template takes it away as white space.
const PROBE: &str = "\u{2}";

/// `None` where there is no message besides the system's, or the template does not take the other text.
pub fn parts(
    folder: &ModelFolder,
    messages: &[ChatMessage],
    options: PromptOptions<'_>,
    prompt_tokens: usize,
) -> Option<PromptParts> {
    let first = messages.iter().position(|message| message.role != Role::System)?;
    let last = messages.len() - 1;
    let whole = render(folder, messages, options).ok()?;
    let begin = |index: usize| {
        let mut other = messages.to_vec();
        PROBE.clone_into(&mut other[index].content);
        let other = render(folder, &other, options).ok()?;
        Some(common_prefix(&whole, &other))
    };
    let first_text = begin(first)?;
    let last_text = if last > first { begin(last)?.max(first_text) } else { first_text };
    let count = |text: &str| folder.tokenizer.encode(text).ok().map(|tokens| tokens.len());

    let system = count(&whole[..first_text])?.min(prompt_tokens);
    let rest = prompt_tokens - system;
    // The whole prompt was counted already, so one of the two is enough: the shorter one.
    let (before, after) = (&whole[first_text..last_text], &whole[last_text..]);
    let history = if before.len() < after.len() { count(before)? } else { rest.saturating_sub(count(after)?) };
    let history = history.min(rest);
    Some(PromptParts { system, history, message: rest - history })
}

/// Bytes that both begin with, to the end of a character.
fn common_prefix(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::super::prompt::tokenize;
    use super::super::testing::byte_model;
    use super::*;

    fn message(role: Role, text: &str) -> ChatMessage {
        ChatMessage::new(role, text)
    }

    /// A token a byte, and a template of `<role>text`, so that the parts can be counted by hand.
    #[test]
    fn each_part_begins_where_a_message_s_text_does() {
        let directory = tempfile::tempdir().unwrap();
        let folder = byte_model(directory.path());
        let parts_of = |messages: &[ChatMessage]| {
            let options = PromptOptions::default();
            let total = tokenize(&folder, messages, options).unwrap().len();
            let parts = parts(&folder, messages, options, total)?;
            assert_eq!(parts.system + parts.history + parts.message, total);
            Some((parts.system, parts.history, parts.message))
        };
        let (system, user, answer) =
            (message(Role::System, "be brief"), message(Role::User, "hello"), message(Role::Assistant, "hé"));
        assert_eq!(parts_of(std::slice::from_ref(&system)), None);
        // `<user>` | `hello<assistant>`
        assert_eq!(parts_of(std::slice::from_ref(&user)), Some((6, 0, 16)));
        // `<system>be brief<user>` | `hello<assistant>`
        assert_eq!(parts_of(&[system.clone(), user.clone()]), Some((22, 0, 16)));
        // `<user>` | `hello<assistant>hé<user>` | `hello<assistant>`
        assert_eq!(parts_of(&[user.clone(), answer.clone(), user.clone()]), Some((6, 25, 16)));
        // A message that begins as the probe does, and an empty one.
        assert_eq!(parts_of(&[user.clone(), answer.clone(), message(Role::User, "")]), Some((6, 25, 11)));
        let long = message(Role::User, &"long ".repeat(40));
        assert_eq!(parts_of(&[system, user, answer, long]), Some((22, 25, 211)));
    }
}
