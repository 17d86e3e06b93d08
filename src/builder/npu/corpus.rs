//! The texts that quantization is calibrated on, and others that its quality is judged by.
//!
//! All of them were written for ortalk. They are of the kinds that people chat about: questions in several languages, code,
//! arithmetic, tables, prose. No text is in both sets.

use std::path::PathBuf;

use crate::model::{ModelFolder, TemplateError, TemplateMessage, TokenizerError};

/// The longest passage to calibrate on: most of the usual context, since rotation makes keys depend on the position.
const CALIBRATION_PASSAGE: usize = 448;
/// The longest passage to judge by; shorter ones make room for more kinds of text in the same time.
const HELD_OUT_PASSAGE: usize = 128;

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

/// Both sets, as a model's tokenizer and chat template make them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corpus {
    pub calibration: Texts,
    pub held_out: Texts,
    /// The token that every sequence starts with, if it is one and the same.
    pub first_token: Option<u32>,
}

/// Sequences of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Prompts, up to where the answer begins.
    pub questions: Vec<Vec<u32>>,
    /// Texts that are not answered.
    pub passages: Vec<Vec<u32>>,
}

#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(
        "the tokenizer of '{}' makes no tokens of ortalk's calibration texts, so the model cannot be calibrated; \
         --precision fp16 needs no calibration", .0.display()
    )]
    NoTokens(PathBuf),
}

impl Corpus {
    /// `context` is the longest sequence that the graphs hold; half of it is left for answers.
    pub fn encode(model: &ModelFolder, context: usize) -> Result<Self, CorpusError> {
        let questions = |text: &str| -> Result<Vec<Vec<u32>>, CorpusError> {
            let prompts =
                text.lines().map(|question| prompt(model, question, context / 2)).collect::<Result<_, _>>()?;
            Ok(with_two_tokens(prompts))
        };
        let calibration_questions = questions(CALIBRATION_QUESTIONS)?;
        let held_out_questions = questions(HELD_OUT_QUESTIONS)?;
        let first_token = common_first(calibration_questions.iter().chain(&held_out_questions));
        let passages = |texts: [&str; 3], limit: usize| -> Result<Vec<Vec<u32>>, CorpusError> {
            let encode = |text: &&str| -> Result<Vec<u32>, CorpusError> {
                let text = model.tokenizer.encode(text)?;
                Ok(first_token.into_iter().chain(text).take(limit.min(context)).collect())
            };
            Ok(with_two_tokens(texts.iter().map(encode).collect::<Result<_, _>>()?))
        };
        let calibration =
            Texts { questions: calibration_questions, passages: passages(CALIBRATION_PASSAGES, CALIBRATION_PASSAGE)? };
        let held_out =
            Texts { questions: held_out_questions, passages: passages(HELD_OUT_PASSAGES, HELD_OUT_PASSAGE)? };
        if [&calibration, &held_out].iter().any(|texts| texts.questions.is_empty() && texts.passages.is_empty()) {
            return Err(CorpusError::NoTokens(model.path.clone()));
        }
        Ok(Self { calibration, held_out, first_token })
    }
}

fn prompt(model: &ModelFolder, question: &str, limit: usize) -> Result<Vec<u32>, CorpusError> {
    let text = model.template.render(&[TemplateMessage { role: "user", content: question }], true)?;
    let mut tokens = model.tokenizer.encode(&text)?;
    tokens.truncate(limit);
    Ok(tokens)
}

/// Drops sequences that are too short to say anything: the first token may be a constant.
fn with_two_tokens(mut sequences: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    sequences.retain(|sequence| sequence.len() >= 2);
    sequences
}

fn common_first<'a>(sequences: impl Iterator<Item = &'a Vec<u32>>) -> Option<u32> {
    let mut firsts = sequences.map(|sequence| sequence.first().copied());
    let first = firsts.next()??;
    firsts.all(|other| other == Some(first)).then_some(first)
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
        assert!(calibration.len() > 90 && held_out.len() > 40, "{} {}", calibration.len(), held_out.len());
        assert_eq!(calibration.intersection(&held_out).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn every_line_is_a_question() {
        for (questions, count) in [(CALIBRATION_QUESTIONS, 22), (HELD_OUT_QUESTIONS, 8)] {
            assert_eq!(questions.lines().filter(|line| line.len() > 12).count(), count);
            assert_eq!(questions.lines().count(), count);
        }
    }

    #[test]
    fn the_first_token_is_the_one_they_share() {
        let cases: [(&[&[u32]], Option<u32>); 4] =
            [(&[&[1, 5], &[1], &[1, 2]], Some(1)), (&[&[1, 5], &[2]], None), (&[&[1], &[]], None), (&[], None)];
        for (sequences, expected) in cases {
            let sequences: Vec<Vec<u32>> = sequences.iter().map(|sequence| sequence.to_vec()).collect();
            assert_eq!(common_first(sequences.iter()), expected, "{sequences:?}");
        }
    }
}
