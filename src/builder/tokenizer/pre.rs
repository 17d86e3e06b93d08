//! The ways of cutting text before merging, by the names that GGUF files have for them (`tokenizer.ggml.pre`). Names and
//! ways are those of llama.cpp's `llama-vocab.cpp`; the expressions are the models' own, from their `tokenizer.json`, where
//! llama.cpp writes around what its engine lacks.

use serde_json::{Value, json};

/// One way of cutting text before merging.
#[derive(Debug)]
pub struct PreTokenizer {
    /// The values of `tokenizer.ggml.pre` that mean it.
    pub names: &'static [&'static str],
    steps: &'static [Step],
    /// Unicode normalization form C before everything.
    pub nfc: bool,
    /// A word that is in the vocabulary as a whole is not merged from its parts.
    pub ignore_merges: bool,
    /// Whether texts begin with the BOS token where the file does not say.
    pub adds_bos: bool,
    /// The vocabulary is of characters, with `▁` for a space, and not of bytes.
    pub characters: bool,
}

/// One cut; each works on the pieces that the one before left.
#[derive(Debug)]
enum Step {
    /// Every digit is a piece.
    Digits,
    /// GPT-2's expression, which the byte-level step has built in.
    Gpt2,
    /// The matches of an expression are pieces, and so is what lies between them.
    Split(&'static str),
}
use Step::{Digits, Gpt2, Split};

/// GPT-2's expression for places where other cuts follow it.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const YOUTU: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const KIMI_K2: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const SPARK_2_5: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##;
const THREE_DIGITS: Step = Split(r"\p{N}{1,3}");
const CHINESE_AND_KANA: Step = Split(r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+");
const DEEPSEEK_CJK: Step = Split(r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+");
/// Up to these, letters of scripts that have capitals.
const DEEPSEEK_LETTERS: Step = Split(
    // Written as numbers: normalization would change some of them.
    r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+",
);
const BLOOM: Step = Split(r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+");

/// What most ways have of the rest.
const PLAIN: PreTokenizer =
    PreTokenizer { names: &[], steps: &[], nfc: false, ignore_merges: false, adds_bos: false, characters: false };

static PRE_TOKENIZERS: &[PreTokenizer] = &[
    // What llama.cpp does with files that name no way.
    PreTokenizer {
        names: &["default"],
        steps: &[Split(r"[\p{P}\$\+<=>\^~\|]+"), Gpt2, Split(r"\p{N}+"), Split(r"[0-9][0-9][0-9]")],
        ..PLAIN
    },
    PreTokenizer {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        steps: &[Split(LLAMA_3)],
        ignore_merges: true,
        adds_bos: true,
        ..PLAIN
    },
    PreTokenizer { names: &["dbrx", "smaug-bpe", "chatglm-bpe"], steps: &[Split(LLAMA_3)], ..PLAIN },
    PreTokenizer { names: &["glm4", "glm5"], steps: &[Split(LLAMA_3)], ignore_merges: true, ..PLAIN },
    PreTokenizer {
        names: &["minicpm5"],
        // Digits are cut already.
        steps: &[THREE_DIGITS, Split(LLAMA_3)],
        ignore_merges: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["jais-2"],
        steps: &[Split(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
        )],
        ..PLAIN
    },
    PreTokenizer { names: &["qwen2", "deepseek-r1-qwen"], steps: &[Split(QWEN_2)], nfc: true, ..PLAIN },
    PreTokenizer { names: &["qwen35"], steps: &[Split(QWEN_3_5)], ..PLAIN },
    PreTokenizer {
        names: &["stablelm2", "hunyuan", "solar-open", "megrez", "kormo", "f2llmv2", "grok-2"],
        steps: &[Split(QWEN_2)],
        ..PLAIN
    },
    PreTokenizer { names: &["laguna"], steps: &[Split(r"[^\n]+|[\n]+"), Split(QWEN_2)], ..PLAIN },
    PreTokenizer {
        names: &["ufakzeka"],
        steps: &[Split(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")],
        ..PLAIN
    },
    PreTokenizer {
        names: &["seed-coder"],
        steps: &[Split(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
        ..PLAIN
    },
    PreTokenizer {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        steps: &[Split(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        )],
        ..PLAIN
    },
    PreTokenizer {
        names: &["exaone-moe"],
        steps: &[Split(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        )],
        ..PLAIN
    },
    PreTokenizer { names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], steps: &[Split(GPT_4O)], ..PLAIN },
    PreTokenizer { names: &["granite-embed-multi-97m"], steps: &[Split(GPT_4O)], ignore_merges: true, ..PLAIN },
    PreTokenizer {
        names: &["tiny_aya", "cohere2moe"],
        steps: &[Split(r"\d{1,3}(?=(?:\d{3})*\b)"), Split(GPT_4O)],
        ..PLAIN
    },
    PreTokenizer {
        names: &["youtu"],
        steps: &[
            Split(
                r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
            ),
            Split(YOUTU),
        ],
        ignore_merges: true,
        ..PLAIN
    },
    PreTokenizer { names: &["tekken"], steps: &[Split(TEKKEN)], ignore_merges: true, adds_bos: true, ..PLAIN },
    PreTokenizer { names: &["kimi-k2"], steps: &[Split(KIMI_K2)], ..PLAIN },
    PreTokenizer {
        names: &["deepseek-llm"],
        steps: &[
            Split(r"[\r\n]"),
            DEEPSEEK_LETTERS,
            Split(r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+"),
            Split(r"\s+$"),
            DEEPSEEK_CJK,
            Digits,
        ],
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-coder"],
        steps: &[Split(r"[\r\n]"), Split(r"\s?\p{L}+"), Split(r"\s?\p{P}+"), DEEPSEEK_CJK, Digits],
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        steps: &[THREE_DIGITS, CHINESE_AND_KANA, Split(DEEPSEEK_3)],
        ..PLAIN
    },
    PreTokenizer { names: &["spark2_5"], steps: &[THREE_DIGITS, CHINESE_AND_KANA, Split(SPARK_2_5), Digits], ..PLAIN },
    PreTokenizer {
        names: &["afmoe"],
        steps: &[
            // Threes of digits, counted from the right.
            Split(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))"),
            Split(
                r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+",
            ),
            Split(DEEPSEEK_3),
        ],
        ..PLAIN
    },
    PreTokenizer {
        names: &["falcon"],
        steps: &[Split(r"[\p{P}\$\+<=>\^~\|`]+"), Gpt2, Split(r"[0-9][0-9][0-9]")],
        ..PLAIN
    },
    PreTokenizer {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        steps: &[Digits, Gpt2],
        ..PLAIN
    },
    PreTokenizer {
        names: &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "roberta-bpe",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
        ],
        steps: &[Gpt2],
        ..PLAIN
    },
    PreTokenizer { names: &["poro-chat", "bloom", "gpt3-finnish"], steps: &[BLOOM], ..PLAIN },
    PreTokenizer { names: &["viking"], steps: &[BLOOM, Digits], ..PLAIN },
    PreTokenizer { names: &["superbpe"], steps: &[Split(r"\p{N}+"), Split(r"(?=(\d{3})+(?!\d))")], ..PLAIN },
    PreTokenizer {
        names: &["chameleon"],
        steps: &[
            Split(r"<sentinel:[0-9]+>"),
            Split(r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            Split(r"([\t\n]|    |  )"),
            Digits,
            Split(r"[\p{P}!-/:-@\[-`{-~]"),
            Gpt2,
        ],
        adds_bos: true,
        ..PLAIN
    },
    PreTokenizer { names: &["gemma4"], adds_bos: true, characters: true, ..PLAIN },
    PreTokenizer { names: &["sarvam-moe", "granite-embed-multi-311m"], characters: true, ..PLAIN },
];

/// The way with this name.
pub fn named(name: &str) -> Option<&'static PreTokenizer> {
    PRE_TOKENIZERS.iter().find(|pre| pre.names.contains(&name))
}

/// All names, for people.
pub fn known() -> String {
    PRE_TOKENIZERS.iter().flat_map(|pre| pre.names).copied().collect::<Vec<_>>().join(", ")
}

impl PreTokenizer {
    /// `tokenizer_class`, by which other programs choose their implementation.
    pub fn class(&self) -> &'static str {
        match (self.steps, self.nfc) {
            ([Gpt2] | [Digits, Gpt2], _) => "GPT2Tokenizer",
            (_, true) => "Qwen2Tokenizer",
            _ => "PreTrainedTokenizerFast",
        }
    }

    /// The entry `pre_tokenizer` of a byte-level tokenizer.
    pub fn json(&self) -> Value {
        let split = |expression: &str| json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false});
        let mut steps = Vec::new();
        let mut cut_by_byte_level = false;
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                Digits => steps.push(json!({"type": "Digits", "individual_digits": true})),
                Gpt2 if index + 1 == self.steps.len() => cut_by_byte_level = true,
                Gpt2 => steps.push(split(GPT_2)),
                Split(expression) => steps.push(split(expression)),
            }
        }
        steps.push(super::byte_level(cut_by_byte_level));
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_means_one_way_and_every_way_is_understood() {
        let mut seen = HashSet::new();
        for pre in PRE_TOKENIZERS {
            for name in pre.names {
                assert!(seen.insert(*name), "{name} is there twice");
            }
            let json = pre.json().to_string();
            let read: Result<tokenizers::PreTokenizerWrapper, _> = serde_json::from_str(&json);
            assert!(read.is_ok(), "{:?}: {:?}", pre.names, read.err());
        }
    }
}
