use pretty_assertions::assert_eq;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, Tokenizer};

use super::*;
use crate::builder::blocks::TensorType;
use crate::builder::testing::{GgufWriter, array, boolean, text, tiny_llama, tiny_tokens, u32_value};

fn with_vocabulary<T>(file: &GgufWriter, then: impl FnOnce(&Vocabulary<'_, '_>) -> T) -> T {
    let bytes = file.bytes();
    let gguf = Gguf::parse(&bytes).unwrap();
    then(&Vocabulary::read(&gguf, tiny_tokens().len()).unwrap())
}

/// The tokenizer as the `tokenizers` library understands what is written.
fn tokenizer(file: &GgufWriter) -> Tokenizer {
    with_vocabulary(file, |vocabulary| vocabulary.tokenizer_json().to_string().parse().unwrap())
}

fn of_kind(pre: &str) -> GgufWriter {
    let mut file = tiny_llama(TensorType::Q8_0);
    file.key("tokenizer.ggml.pre", text(pre));
    file
}

fn pieces(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    let mut string = PreTokenizedString::from(text);
    tokenizer.get_pre_tokenizer().unwrap().pre_tokenize(&mut string).unwrap();
    let splits = string.get_splits(OffsetReferential::Original, OffsetType::Byte);
    splits.into_iter().map(|(_, (start, end), _)| text[start..end].to_owned()).collect()
}

/// Worked out by hand from each way's expressions.
#[test]
fn every_way_cuts_text_as_its_expressions_say() {
    let sample = "I'll pay 12345€ in  3 days\n\nOK";
    for (pre, expected) in [
        ("gpt-2", "I|'ll| pay| 12345|€| in| | 3| days|\n|\n|OK"),
        ("smollm", "I|'ll| pay| |1|2|3|4|5|€| in|  |3| days|\n|\n|OK"),
        ("llama-bpe", "I|'ll| pay| |123|45|€| in| | |3| days|\n\n|OK"),
        ("qwen2", "I|'ll| pay| |1|2|3|4|5|€| in| | |3| days|\n\n|OK"),
        ("default", "I|'|ll| pay| |123|45|€| in| | |3| days|\n|\n|OK"),
    ] {
        assert_eq!(pieces(&tokenizer(&of_kind(pre)), sample).join("|"), expected, "{pre}");
    }
}

#[test]
fn a_file_that_names_no_way_is_cut_the_default_way() {
    let mut file = of_kind("smollm");
    file.without_key("tokenizer.ggml.pre");
    assert_eq!(pieces(&tokenizer(&file), "a'b"), ["a", "'", "b"]);
}

#[test]
fn bytes_merges_and_special_tokens_come_and_go() {
    let tokenizer = tokenizer(&of_kind("smollm"));
    let id = |token: &str| tokenizer.token_to_id(token).unwrap();
    let encode = |text: &str| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
    assert_eq!(encode("hello"), [id("hell"), id("o")]);
    assert_eq!(encode("<|im_start|>he"), [1, id("he")]);
    let all: String = (0..300).filter_map(char::from_u32).chain(['€', '😀', '\u{200d}']).collect();
    assert_eq!(tokenizer.decode(&encode(&all), false).unwrap(), all);
    assert_eq!(tokenizer.decode(&[1, id("he"), 2], true).unwrap(), "he");
}

#[test]
fn texts_begin_with_bos_where_the_file_or_the_way_says_so() {
    let first = |file: &GgufWriter| tokenizer(file).encode("o", true).unwrap().get_ids().to_vec();
    let o = tokenizer(&of_kind("smollm")).token_to_id("o").unwrap();
    assert_eq!(first(&of_kind("smollm")), [o]);
    assert_eq!(first(&of_kind("llama-bpe")), [1, o]);
    assert_eq!(first(of_kind("smollm").key("tokenizer.ggml.add_bos_token", boolean(true))), [1, o]);
    assert_eq!(first(of_kind("llama-bpe").key("tokenizer.ggml.add_bos_token", boolean(false))), [o]);
    let mut file = of_kind("llama-bpe");
    file.key("tokenizer.ggml.add_eos_token", boolean(true));
    assert_eq!(first(&file), [1, o, 2]);
    let with = tokenizer(&file).encode("o", false).unwrap().get_ids().to_vec();
    assert_eq!(with, [o], "not where special tokens are not wanted, as after a chat template");
    with_vocabulary(&file, |vocabulary| {
        assert_eq!(vocabulary.config_json(512)["add_bos_token"], true);
        assert_eq!(vocabulary.config_json(512)["bos_token"], "<|im_start|>");
    });
}

#[test]
fn tokens_that_users_defined_are_added_but_not_special() {
    let mut file = of_kind("smollm");
    let kinds = (0..tiny_tokens().len()).map(|id| u32_value([3, 4, 3].get(id).copied().unwrap_or(1)));
    file.key("tokenizer.ggml.token_type", array(4, kinds));
    let tokenizer = tokenizer(&file);
    let ids = tokenizer.encode("<|im_start|><|im_end|>", true).unwrap().get_ids().to_vec();
    assert_eq!(ids, [1, 2]);
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "<|im_start|>");
}

#[test]
fn every_token_that_ends_an_answer_is_found() {
    let ends = |file: &GgufWriter| with_vocabulary(file, |vocabulary| vocabulary.ends.clone());
    assert_eq!(ends(&of_kind("smollm")), [2, 0]);
    let mut file = of_kind("smollm");
    file.key("tokenizer.ggml.eos_token_id", u32_value(0)).key("tokenizer.ggml.eot_token_id", u32_value(9));
    assert_eq!(ends(&file), [0, 9, 2]);
}

#[test]
fn a_larger_vocabulary_than_the_embedding_is_refused() {
    let bytes = of_kind("smollm").bytes();
    let gguf = Gguf::parse(&bytes).unwrap();
    let tokens = tiny_tokens().len();
    let error = Vocabulary::read(&gguf, tokens - 1).unwrap_err();
    assert_eq!(error, ModelError::VocabularySize { tokens, rows: tokens - 1 });
}

#[test]
fn merges_may_begin_with_a_space() {
    let known = HashSet::from([" ", "a", " a", "é", "éa"]);
    assert_eq!(read_merges(&["  a", "é a"], &known).unwrap(), [(" ", "a"), ("é", "a")]);
    for bad in ["", " ", "a", "a ", "ab"] {
        assert!(read_merges(&[bad], &known).is_err(), "{bad:?}");
    }
}

/// The vocabularies are trained, and the tokens given, by `tokenizers` and `sentencepiece` themselves:
/// `tests/fixtures/make_text_reference.py`.
#[test]
fn tokens_are_those_of_the_vocabulary_s_own_library() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/texts");
    let reference: Value = serde_json::from_slice(&std::fs::read(folder.join("texts.json")).unwrap()).unwrap();
    for (name, reference) in reference.as_object().unwrap() {
        let bytes = std::fs::read(folder.join(format!("{name}.gguf"))).unwrap();
        let gguf = Gguf::parse(&bytes).unwrap();
        let vocabulary = Vocabulary::read(&gguf, 2000).unwrap();
        let tokenizer: Tokenizer = vocabulary.tokenizer_json().to_string().parse().unwrap();
        let of = |key: &str| reference[key].as_array().unwrap();
        assert!(of("texts").len() > 20 && of("ids").len() == of("texts").len());
        for (text, ids) in of("texts").iter().zip(of("ids")) {
            let text = text.as_str().unwrap();
            let ours = tokenizer.encode(text, false).unwrap().get_ids().to_vec();
            assert_eq!(json!(ours), *ids, "{name}: {text:?}");
        }
    }
}

/// What each token stands for, put together, is what the library decodes.
#[test]
fn the_bytes_of_tokens_are_what_is_decoded() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/texts");
    let reference: Value = serde_json::from_slice(&std::fs::read(fixtures.join("texts.json")).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, reference) in reference.as_object().unwrap() {
        let bytes = std::fs::read(fixtures.join(format!("{name}.gguf"))).unwrap();
        let gguf = Gguf::parse(&bytes).unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, Vocabulary::read(&gguf, 2000).unwrap().tokenizer_json().to_string()).unwrap();
        let tokenizer = crate::model::Tokenizer::open(&path).unwrap();
        assert_eq!(tokenizer.bytes(tokenizer.size() as u32), b"", "{name}");
        for text in reference["texts"].as_array().unwrap() {
            let text = text.as_str().unwrap();
            let ids = tokenizer.encode(text).unwrap();
            let bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.bytes(*id)).collect();
            let (bytes, expected) = (String::from_utf8(bytes).unwrap(), tokenizer.decode_whole(&ids).unwrap());
            // The space that SentencePiece puts before a text is taken away when a whole text is decoded.
            assert!(bytes == expected || bytes.strip_prefix(' ') == Some(&expected), "{name}: {bytes:?} {expected:?}");
        }
    }
}

#[test]
fn a_space_that_sentencepiece_put_before_a_text_is_taken_away_again() {
    let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/texts/sentencepiece.gguf")).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let vocabulary = Vocabulary::read(&gguf, 2000).unwrap();
    let tokenizer: Tokenizer = vocabulary.tokenizer_json().to_string().parse().unwrap();
    let ids = tokenizer.encode("It is — 漢字 😀", true).unwrap().get_ids().to_vec();
    assert_eq!(ids[0], 1, "texts begin with BOS");
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "It is — 漢字 😀");
    // Control tokens are found in a text, and so are those that users defined; only the former are special.
    let ids = tokenizer.encode("<|im_end|><think>", false).unwrap().get_ids().to_vec();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "<think>");
}

#[test]
fn phi_3_s_special_tokens_take_the_white_space_behind_them() {
    let mut file = of_kind("smollm");
    let ids = |file: &GgufWriter| tokenizer(file).encode("<|im_end|>\no", false).unwrap().get_ids().len();
    assert_eq!(ids(&file), 3);
    file.key("general.name", text("Phi-3 mini"));
    assert_eq!(ids(&file), 2);
}

#[test]
fn other_kinds_are_refused_with_those_that_are_known() {
    for (key, kind, words) in [
        ("tokenizer.ggml.model", "t5", ["Unigram", "\"llama\""]),
        ("tokenizer.ggml.model", "bert", ["WordPiece", "\"gpt2\""]),
        ("tokenizer.ggml.pre", "klingon", ["klingon", "llama-bpe, llama3"]),
    ] {
        let mut file = of_kind("smollm");
        file.key(key, text(kind));
        let bytes = file.bytes();
        let error = Vocabulary::read(&Gguf::parse(&bytes).unwrap(), 100).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}
