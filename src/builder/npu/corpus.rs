//! The texts that quantization is calibrated on, and others that its quality is judged by.
//!
//! All of them were written for ortalk. They are of the kinds that people chat about: questions in several languages, code,
//! arithmetic, tables, and longer passages as somebody pastes them. No text is in both sets. All go through the model's chat
//! template, as everything does that the lane will see.

use crate::model::{ModelFolder, TemplateError, TemplateMessage, TokenizerError};

/// The longest passage to calibrate on, in tokens with the template's: most of the usual context, since rotation makes keys
/// depend on the position.
const CALIBRATION_PASSAGE: usize = 448;
/// The longest passage to judge by: shorter ones make room for more kinds of text in the same time.
const HELD_OUT_PASSAGE: usize = 129;

const CALIBRATION_QUESTIONS: &str = include_str!("corpus/calibration_questions.txt");
const CALIBRATION_PASSAGES: [&str; 3] = [
    include_str!("corpus/calibration_prose.txt"),
    include_str!("corpus/calibration_code.txt"),
    include_str!("corpus/calibration_markdown.txt"),
];
const HELD_OUT_QUESTIONS: &str = include_str!("corpus/held_out_questions.txt");
const HELD_OUT_PASSAGES: [&str; 3] = [
    include_str!("corpus/held_out_prose.txt"),
    include_str!("corpus/held_out_code.txt"),
    include_str!("corpus/held_out_markdown.txt"),
];

/// One set, as a model's tokenizer and chat template make it: each text is what a user writes at the start of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Up to where the answer begins.
    pub questions: Vec<Vec<u32>>,
    /// Not to be answered; cut.
    pub passages: Vec<Vec<u32>>,
}

#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// `context` is the longest sequence that the graphs hold; half of it is left for answers.
pub fn calibration(model: &ModelFolder, context: usize) -> Result<Texts, CorpusError> {
    Texts::encode(model, context, CALIBRATION_QUESTIONS, &CALIBRATION_PASSAGES, CALIBRATION_PASSAGE)
}

/// See `calibration`.
pub fn held_out(model: &ModelFolder, context: usize) -> Result<Texts, CorpusError> {
    Texts::encode(model, context, HELD_OUT_QUESTIONS, &HELD_OUT_PASSAGES, HELD_OUT_PASSAGE)
}

impl Texts {
    fn encode(
        model: &ModelFolder,
        context: usize,
        questions: &str,
        passages: &[&str],
        longest_passage: usize,
    ) -> Result<Self, CorpusError> {
        let question = |text| prompt(model, text, context / 2);
        let passage = |text: &&str| prompt(model, text, longest_passage.min(context));
        Ok(Self {
            questions: questions.lines().map(question).collect::<Result<_, _>>()?,
            passages: passages.iter().map(passage).collect::<Result<_, _>>()?,
        })
    }
}

/// At most `limit` tokens.
fn prompt(model: &ModelFolder, text: &str, limit: usize) -> Result<Vec<u32>, CorpusError> {
    let text = model.template.render(&[TemplateMessage { role: "user", content: text }], true)?;
    let mut tokens = model.tokenizer.encode(&text)?;
    tokens.truncate(limit);
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Lines long enough to be a sentence or a statement; brackets and table rules may be in any text.
    fn sentences(texts: &[&str]) -> BTreeSet<String> {
        let lines = texts.iter().flat_map(|text| text.lines());
        lines.map(|line| line.trim().to_lowercase()).filter(|line| line.len() > 12).collect()
    }

    #[test]
    fn the_sets_are_disjoint() {
        let calibration = sentences(&[&[CALIBRATION_QUESTIONS][..], &CALIBRATION_PASSAGES].concat());
        let held_out = sentences(&[&[HELD_OUT_QUESTIONS][..], &HELD_OUT_PASSAGES].concat());
        assert!(calibration.len() > 80 && held_out.len() > 40, "{} {}", calibration.len(), held_out.len());
        assert_eq!(calibration.intersection(&held_out).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn every_line_is_a_question() {
        for (questions, count) in [(CALIBRATION_QUESTIONS, 22), (HELD_OUT_QUESTIONS, 8)] {
            assert_eq!(questions.lines().filter(|line| line.len() > 12).count(), count);
            assert_eq!(questions.lines().count(), count);
        }
    }
}
