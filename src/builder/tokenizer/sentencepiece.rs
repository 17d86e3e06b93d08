//! SentencePiece's BPE vocabularies (`tokenizer.ggml.model` = `llama`): a score for each token in place of a list of merges.
//!
//! SentencePiece joins the neighbours whose joined token scores best. So every way of cutting a token into two others is a
//! merge, and the better its score, the earlier it comes: the conversion of transformers' `generate_merges`.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Stands for a space.
const SPACE: &str = "▁";

/// The merges of the tokens that `takes_part`, best first: by score, then by the length of the left part and of the right
/// one, in characters.
pub fn merges<'a>(tokens: &[&'a str], scores: &[f64], takes_part: impl Fn(usize) -> bool) -> Vec<(&'a str, &'a str)> {
    let ids: HashMap<&str, usize> =
        tokens.iter().enumerate().filter(|(id, _)| takes_part(*id)).map(|(id, token)| (*token, id)).collect();
    let mut merges: Vec<(f64, usize, usize, &str, &str)> = Vec::new();
    for (id, token) in tokens.iter().enumerate().filter(|(id, _)| takes_part(*id)) {
        let length = token.chars().count();
        let mut cuts: Vec<(usize, usize, usize, &str, &str)> = token
            .char_indices()
            .enumerate()
            .skip(1)
            .filter_map(|(characters, (at, _))| {
                let (left, right) = token.split_at(at);
                Some((*ids.get(left)?, *ids.get(right)?, characters, left, right))
            })
            .collect();
        cuts.sort_unstable_by_key(|(left, right, ..)| (*left, *right));
        let score = scores.get(id).copied().unwrap_or_default();
        merges.extend(
            cuts.into_iter().map(|(.., characters, left, right)| (score, characters, length - characters, left, right)),
        );
    }
    // Stable: what is equal stays in the vocabulary's order.
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((b.1, b.2).cmp(&(a.1, a.2))));
    merges.into_iter().map(|(.., left, right)| (left, right)).collect()
}

/// The entry `normalizer`; `prefix`: a text begins with a space, as words within it do.
pub fn normalizer(prefix: bool) -> Value {
    let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    match prefix {
        true => json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, spaces]}),
        false => spaces,
    }
}

/// The entry `decoder`.
pub fn decoder(prefix: bool) -> Value {
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": steps})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_come_by_score_then_by_length() {
        let tokens = ["<s>", "a", "b", "ab", "ba", "aba", "é", "éa"];
        let scores = [0.0, -9.0, -9.0, -2.0, -1.0, -2.0, -9.0, -3.0];
        let expected = [("b", "a"), ("ab", "a"), ("a", "ba"), ("a", "b"), ("é", "a")];
        assert_eq!(merges(&tokens, &scores, |id| id > 0), expected);
        // Without "b" of its own, nothing makes what the others are made of.
        assert_eq!(merges(&tokens, &scores, |id| id > 0 && id != 2), [("ab", "a"), ("a", "ba"), ("é", "a")]);
    }
}
