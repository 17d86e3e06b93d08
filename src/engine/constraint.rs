//! Which tokens may come next where an answer must be of a form: llguidance follows its grammar, token by token.
//!
//! The vocabulary is read when the first such answer is asked for. Grammars that were asked for last are kept.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory, TokenParser};

use super::grammar::{Grammar, Habits, InvalidRequest, grammar};
use super::request::ChatRequest;
use crate::model::ModelFolder;

/// Grammars that are kept.
const KEPT: usize = 8;

/// The grammars of a model's answers.
pub struct Grammars {
    folder: Arc<ModelFolder>,
    factory: OnceLock<Result<ParserFactory, String>>,
    /// By their text, the one that was used last at the end.
    kept: Mutex<Vec<(String, TokenParser)>>,
}

impl Grammars {
    pub fn new(folder: Arc<ModelFolder>) -> Self {
        Self { folder, factory: OnceLock::new(), kept: Mutex::default() }
    }

    /// What the answer to this request must keep to; `None` where any text will do. `opened`: the prompt ends within the
    /// thinking.
    pub fn constraint(&self, request: &ChatRequest, opened: bool) -> Result<Option<Constraint>, InvalidRequest> {
        let thinks = self.folder.thinking.as_ref().filter(|_| opened || request.thinking != Some(false));
        let habits = Habits {
            calls: self.folder.tools.calls,
            thinking: thinks.map(|thinking| (thinking.open, thinking.close)),
            opened,
        };
        let Some(grammar) = grammar(request, habits)? else { return Ok(None) };
        let parser = self.parser(&grammar.lark).map_err(|reason| self.culprit(&grammar, reason))?;
        Ok(Some(Constraint { matcher: Matcher::new(Ok(parser)) }))
    }

    fn parser(&self, lark: &str) -> Result<TokenParser, String> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = {
            let mut kept = kept();
            kept.iter().position(|(text, _)| text == lark).map(|index| kept.remove(index).1)
        };
        // Others are not kept waiting.
        let parser = found.map_or_else(|| self.compile(lark), Ok)?;
        let copy = parser.deep_clone();
        let mut kept = kept();
        kept.push((lark.to_owned(), parser));
        if kept.len() > KEPT {
            kept.remove(0);
        }
        Ok(copy)
    }

    fn compile(&self, lark: &str) -> Result<TokenParser, String> {
        let factory = self.factory.get_or_init(|| factory(&self.folder)).as_ref().map_err(String::clone)?;
        let parser = factory.create_parser(TopLevelGrammar::from_lark(lark.to_owned()));
        let parser = parser.map_err(|error| format!("{error:#}"))?;
        match Matcher::new(Ok(parser.deep_clone())).compute_mask_or_eos() {
            Ok(_) => Ok(parser),
            Err(_) => Err("no JSON of a finite length is valid by it".to_owned()),
        }
    }

    /// Which of a grammar's schemas cannot be followed, and why.
    fn culprit(&self, grammar: &Grammar, reason: String) -> InvalidRequest {
        for (parameter, what, schema) in &grammar.schemas {
            if let Err(reason) = self.compile(&format!("start: %json {schema}\n")) {
                let problem = format!("the schema of {what} cannot be followed: {}", in_our_words(&reason));
                return InvalidRequest::new(parameter, problem);
            }
        }
        let parameter = grammar.schemas.first().map_or("response_format", |(parameter, ..)| parameter);
        InvalidRequest::new(parameter, format!("the answer's grammar cannot be followed: {}", in_our_words(&reason)))
    }
}

fn factory(folder: &ModelFolder) -> Result<ParserFactory, String> {
    let capabilities = InferenceCapabilities::default();
    // The tokens of text that is often free are looked up once.
    let mut factory = ParserFactory::new(&vocabulary(folder), capabilities, &SlicedBiasComputer::general_slices())
        .map_err(|error| format!("the model's vocabulary cannot be used: {error:#}"))?;
    factory.quiet();
    *factory.limits_mut() = ParserLimits { verbose_errors: false, ..ParserLimits::default() };
    Ok(factory)
}

/// What each token stands for. Special tokens are apart from text, except for the markers that are read as text.
fn vocabulary(folder: &ModelFolder) -> TokEnv {
    let tokenizer = &folder.tokenizer;
    let markers = folder.thinking.iter().flat_map(|thinking| &thinking.hidden).chain(&folder.tools.hidden);
    let markers: Vec<u32> = markers.map(|(id, _)| *id).collect();
    let mut words: Vec<Vec<u8>> = (0..tokenizer.size() as u32)
        .map(|id| {
            let mut bytes = tokenizer.bytes(id);
            if tokenizer.is_special(id) && !markers.contains(&id) {
                bytes.insert(0, TokTrie::SPECIAL_TOKEN_MARKER);
            }
            bytes
        })
        .collect();
    let mut ends: Vec<u32> = folder.ends.iter().copied().filter(|id| (*id as usize) < words.len()).collect();
    if ends.is_empty() {
        // One that the model has no logit for.
        ends.push(words.len() as u32);
        words.push([&[TokTrie::SPECIAL_TOKEN_MARKER], b"<end>".as_slice()].concat());
    }
    let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, ends[0]), &words).with_eos_tokens(&ends);
    Arc::new(ApproximateTokEnv::new(trie))
}

/// What llguidance says of a schema.
fn in_our_words(reason: &str) -> String {
    let reason = reason.split_once("failed to compile JSON schema: ").map_or(reason, |(_, reason)| reason);
    // What follows is the grammar, line by line.
    let reason = reason.split_once("\n   1 | ").map_or(reason, |(reason, _)| reason);
    let first = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((_, reference)) = first.split_once("without 'referencing' feature; ref ") {
        return format!("$ref {reference} is not within the schema");
    }
    if first.contains("oneOf constraints are not supported") {
        return "'oneOf' is supported only where its schemas exclude each other; use 'anyOf'".to_owned();
    }
    match first.split_once("Unimplemented keys: ") {
        Some((_, keys)) => format!("the keywords {keys} are not supported"),
        None => first,
    }
}

/// An answer's form, and how far the answer has come in it.
pub struct Constraint {
    matcher: Matcher,
}

impl Constraint {
    /// The tokens that may come next, a bit for each, the first token in the lowest bit of the first word. The end of an
    /// answer is among them where the answer is whole.
    pub fn allowed(&mut self) -> Result<SimpleVob, String> {
        self.matcher.compute_mask_or_eos().map_err(|error| said(&error))
    }

    /// The token that came.
    pub fn take(&mut self, token: u32) -> Result<(), String> {
        self.matcher.consume_token(token).map_err(|error| said(&error))
    }

    /// The answer is whole, and nothing may follow.
    pub fn is_complete(&self) -> bool {
        self.matcher.is_stopped()
    }
}

fn said(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    format!("the answer's form could not be followed further: {}", text.lines().next().unwrap_or_default())
}

#[cfg(test)]
#[path = "constraint_tests.rs"]
mod tests;
