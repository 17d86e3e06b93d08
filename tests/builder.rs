//! `ortalk build` with files that are broken in every way that a download or a converter breaks them, and with places it
//! cannot write to: each message says what is wrong and what to do, and nothing half made is left.
//!
//! What a good file becomes is tested in the builder itself, and end to end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use pretty_assertions::assert_eq;

/// ggml's number of F32.
const F32: u32 = 0;

/// GGUF's number of the value type, and the value's bytes.
type Value = (u32, Vec<u8>);

struct Tensor {
    name: String,
    shape: Vec<u64>,
    kind: u32,
    /// Where the file says that it lies, if not where it does.
    offset: Option<u64>,
}

/// A model file of which everything can be changed before it is written.
struct Model {
    version: u32,
    keys: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn text(text: &str) -> Value {
    (8, string(text))
}

fn number(value: u32) -> Value {
    (4, value.to_le_bytes().to_vec())
}

fn texts(texts: &[&str]) -> Value {
    let values = texts.iter().flat_map(|text| string(text));
    let header = 8u32.to_le_bytes().into_iter().chain((texts.len() as u64).to_le_bytes());
    (9, header.chain(values).collect())
}

impl Model {
    /// The smallest llama: one layer of two heads, three tokens, all weights zero.
    fn new() -> Self {
        let keys = [
            ("general.architecture", text("llama")),
            ("llama.block_count", number(1)),
            ("llama.context_length", number(64)),
            ("llama.embedding_length", number(32)),
            ("llama.feed_forward_length", number(32)),
            ("llama.attention.head_count", number(2)),
            ("llama.attention.layer_norm_rms_epsilon", (6, 1e-5f32.to_le_bytes().to_vec())),
            ("tokenizer.ggml.model", text("gpt2")),
            ("tokenizer.ggml.tokens", texts(&["a", "b", "ab"])),
            ("tokenizer.ggml.merges", texts(&["a b"])),
        ];
        let mut model =
            Self { version: 3, keys: keys.map(|(name, value)| (name.to_owned(), value)).into(), tensors: vec![] };
        model.tensor("token_embd.weight", &[32, 3]);
        for part in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
            model.tensor(&format!("blk.0.{part}.weight"), &[32, 32]);
        }
        for name in ["blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"] {
            model.tensor(name, &[32]);
        }
        model
    }

    fn tensor(&mut self, name: &str, shape: &[u64]) {
        self.tensors.push(Tensor { name: name.to_owned(), shape: shape.to_vec(), kind: F32, offset: None });
    }

    fn set(&mut self, name: &str, value: Value) {
        self.keys.retain(|(key, _)| key != name);
        self.keys.push((name.to_owned(), value));
    }

    fn find(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut file = [b"GGUF".as_slice(), &self.version.to_le_bytes()].concat();
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.keys.len() as u64).to_le_bytes());
        for (name, (kind, value)) in &self.keys {
            file.extend([string(name).as_slice(), &kind.to_le_bytes(), value].concat());
        }
        let mut end = 0u64;
        for Tensor { name, shape, kind, offset } in &self.tensors {
            file.extend([string(name).as_slice(), &(shape.len() as u32).to_le_bytes()].concat());
            file.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
            file.extend(kind.to_le_bytes());
            file.extend(offset.unwrap_or(end).to_le_bytes());
            // Rows of 32 float32 values keep the alignment of 32 bytes.
            end += shape.iter().product::<u64>() * 4;
        }
        file.resize(file.len().next_multiple_of(32) + end as usize, 0);
        file
    }

    /// The file's first bytes up to some way into the first place where this text is.
    fn cut(&self, text: &str, further: usize) -> Vec<u8> {
        let bytes = self.bytes();
        let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
        bytes[..at + further].to_vec()
    }
}

/// A good model, changed.
fn changed(change: impl FnOnce(&mut Model)) -> Vec<u8> {
    let mut model = Model::new();
    change(&mut model);
    model.bytes()
}

fn build(folder: &Path, source: &str, output: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ortalk"));
    command.current_dir(folder).args(["build", source, "--output", output]).args(options).output().unwrap()
}

/// Runs a build that must fail, and in a way that a person can do something about; returns the message, the last line.
fn refusal(folder: &Path, source: &str, output: &str) -> String {
    refusal_with(folder, source, output, &[])
}

fn refusal_with(folder: &Path, source: &str, output: &str, options: &[&str]) -> String {
    let before = names(folder);
    let Output { status, stdout, stderr } = build(folder, source, output, options);
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{source}: {stderr}");
    assert_eq!(stdout, b"", "{source}");
    assert_eq!(names(folder), before, "{source}: what was there is there still, and nothing else");
    // What was done until then may be told above it.
    let last = stderr.lines().last().unwrap_or_default();
    last.strip_prefix("ortalk: ").unwrap_or_else(|| panic!("{source}: {stderr}")).to_owned()
}

/// Everything in a folder, hidden siblings of a folder in the making included.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_model_that_the_others_break_is_good() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("good.gguf"), Model::new().bytes()).unwrap();
    let output = build(home.path(), "good.gguf", "out", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(home.path().join("out/genai_config.json").is_file());
    assert_eq!(names(home.path()), ["good.gguf", "out"]);
}

/// Writes the file, has it refused, and compares the message; all messages name the file.
fn expect(cases: impl IntoIterator<Item = (Vec<u8>, &'static str)>) {
    let home = tempfile::tempdir().unwrap();
    for (bytes, expected) in cases {
        fs::write(home.path().join("a.gguf"), bytes).unwrap();
        let message = refusal(home.path(), "a.gguf", "out");
        assert!(message.contains(expected), "{message}\nshould contain\n{expected}");
        assert!(message.contains("a.gguf"), "{message}");
    }
}

#[test]
fn something_else_than_a_model_is_told_what_it_is() {
    expect([
        (vec![], "cannot read a.gguf: the file is empty; fetch it again"),
        (
            b"Hello, this is a README".into(),
            "not a GGUF file: it starts with \"Hello, this is a\", expected \"GGUF\"; give a model's .gguf file",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 98362432\n".into(),
            "not the model but Git LFS's note where it lies; fetch the file itself (`git lfs pull`)",
        ),
        (
            changed(|model| model.version = 1),
            "GGUF version 1 is not supported, expected 2 or 3; convert the model again with a current llama.cpp",
        ),
        (changed(|model| model.version = 3u32.swap_bytes()), "big-endian, expected little-endian; convert it with"),
    ]);
}

#[test]
fn a_file_that_ends_too_early_says_where() {
    let (good, whole) = (Model::new(), Model::new().bytes());
    // Each cut is the length of the name, and of what follows it, but for the last few bytes.
    let cuts = [
        (whole[..3].to_vec(), "the magic of the header: 4 bytes are needed at offset 0, 3 are left"),
        (whole[..20].to_vec(), "the key count of the header: 8 bytes are needed at offset 16, 4 are left"),
        (good.cut("general.arch", 7), "the name of metadata key 0: 20 bytes are needed at offset 32, 7 are left"),
        (
            good.cut("llama.block_count", 17 + 4 + 3),
            "the value of key \"llama.block_count\": 4 bytes are needed at offset 98, 3 are left",
        ),
        (good.cut("tokenizer.ggml.tokens", 21 + 4 + 12 + 5), "the value of key \"tokenizer.ggml.tokens\": 8 bytes are"),
        (good.cut("blk.0.attn_v.weight", 5), "the name of tensor 3: 19 bytes are needed"),
        (good.cut("blk.0.attn_v.weight", 19 + 4 + 2), "the description of tensor \"blk.0.attn_v.weight\": 8 bytes"),
        (
            // All descriptions are there, and no data: the first tensor misses its three rows.
            good.cut("output_norm.weight", 18 + 4 + 8 + 4 + 8),
            "tensor \"token_embd.weight\" needs 384 bytes at offset 0 of the tensor data, which has 0 bytes",
        ),
        (
            // 384 bytes of embedding, seven matrices of 4096, two norms of 128.
            whole[..whole.len() - 1].to_vec(),
            "tensor \"output_norm.weight\" needs 128 bytes at offset 29312 of the tensor data, which has 29439 bytes",
        ),
    ];
    expect(cuts.clone());
    expect(cuts.map(|(bytes, _)| (bytes, "; the file is damaged or incomplete, fetch it again")));
}

#[test]
fn a_key_that_is_not_right_is_quoted() {
    let key = |name: &'static str, value: Value| changed(|model| model.set(name, value));
    let part = |model: &mut Model| {
        model.set("split.count", number(3));
        model.set("split.no", number(1));
    };
    expect([
        (
            key("general.architecture", text("mamba")),
            "key \"general.architecture\" is \"mamba\", expected one of those that can be built: llama, qwen2, qwen3",
        ),
        (
            changed(part),
            "key \"split.count\" is 3, expected 1: this is part 2; \
             join the parts with llama.cpp's llama-gguf-split --merge",
        ),
        (
            changed(|model| model.keys.retain(|(key, _)| key != "llama.block_count")),
            "key \"llama.block_count\" is missing; the file was not made for this architecture, or by an old converter",
        ),
        (
            key("llama.block_count", text("one")),
            "key \"llama.block_count\" is \"one\", expected a whole number, not negative",
        ),
        (
            key("llama.block_count", (13, vec![])),
            "key \"llama.block_count\" has value type 13, expected 0 to 12; the file is damaged",
        ),
        (
            key("general.name", (8, [2u64.to_le_bytes().as_slice(), &[0xff, 0xfe]].concat())),
            "the value of key \"general.name\" is not valid UTF-8: \"\u{fffd}\u{fffd}\"; the file is damaged",
        ),
        (
            key("llama.attention.head_count", number(3)),
            "key \"llama.attention.head_count\" is 3, expected a divisor of the hidden size 32",
        ),
        (
            key("tokenizer.ggml.model", text("rwkv")),
            "the tokenizer tokenizer.ggml.model is \"rwkv\", which is not known; known are: \"gpt2\" (byte-level BPE)",
        ),
        (
            key("tokenizer.ggml.merges", texts(&["b a"])),
            "merge 0 of the vocabulary is \"b a\": \"ba\" is not in the vocabulary",
        ),
    ]);
}

#[test]
fn a_tensor_that_is_not_right_is_named() {
    let kind = |kind: u32| changed(|model| model.find("blk.0.attn_k.weight").kind = kind);
    expect([
        (
            kind(16),
            "tensor \"blk.0.attn_k.weight\" has type 16 (IQ2_XXS), which is not supported, \
             expected one of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K",
        ),
        (kind(77), "tensor \"blk.0.attn_k.weight\" has type 77, which is not supported, expected one of F32, F16"),
        (
            changed(|model| model.tensors.retain(|tensor| tensor.name != "blk.0.ffn_down.weight")),
            "tensor \"blk.0.ffn_down.weight\" is missing; the file is incomplete or not of this architecture",
        ),
        (
            changed(|model| model.tensor("blk.0.attn_q_norm.weight", &[32])),
            "tensor \"blk.0.attn_q_norm.weight\" has no place in the architecture \"llama\" as it is known here; \
             leaving it out would give wrong answers, use a model without it",
        ),
        (
            changed(|model| model.find("blk.0.ffn_up.weight").shape = vec![32, 16]),
            "tensor \"blk.0.ffn_up.weight\" has the shape [32, 16], expected [32, 32]",
        ),
        (
            changed(|model| model.find("output_norm.weight").offset = Some(33)),
            "tensor \"output_norm.weight\" starts at offset 33, expected a multiple of the alignment 32",
        ),
    ]);
}

#[test]
fn places_that_cannot_be_read_or_written_are_named() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    fs::write(folder.join("good.gguf"), Model::new().bytes()).unwrap();
    fs::create_dir(folder.join("full")).unwrap();
    fs::write(folder.join("full/kept"), "kept").unwrap();
    fs::write(folder.join("file"), "kept").unwrap();
    let taken = |path| format!("{path} exists and is not an empty folder; give another --output, or remove it");
    for (source, output, expected) in [
        ("absent.gguf", "out", "there is no file or folder 'absent.gguf', and no model of this name".to_owned()),
        (
            "full",
            "out",
            "full is a folder without config.json; give a GGUF file, or a folder with config.json and".to_owned(),
        ),
        ("good.gguf", "full", taken("full")),
        ("good.gguf", "file", taken("file")),
        ("good.gguf", "good.gguf", taken("good.gguf")),
    ] {
        let message = refusal(folder, source, output);
        assert!(message.starts_with(&expected), "{source} to {output}:\n{message}\nshould start with\n{expected}");
    }
    let message = refusal(folder, "good.gguf", "file/out");
    let parent = format!("{}file: ", std::path::MAIN_SEPARATOR);
    assert!(message.starts_with("cannot write into the folder ") && message.contains(&parent), "{message}");
    assert!(message.ends_with("; give another --output"), "{message}");
    assert_eq!(
        (fs::read(folder.join("file")).unwrap(), names(&folder.join("full"))),
        (b"kept".to_vec(), vec!["kept".to_owned()])
    );
}

#[cfg(unix)]
#[test]
fn links_devices_and_folders_without_permission_are_told_apart() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    fs::write(folder.join("good.gguf"), Model::new().bytes()).unwrap();
    let message = refusal(folder, "/dev/null", "out");
    assert_eq!(
        message,
        "cannot read /dev/null: it is a pipe or a device, expected a file; save the model to a file first"
    );

    symlink("nowhere", folder.join("dangling")).unwrap();
    assert!(refusal(folder, "good.gguf", "dangling").starts_with("dangling exists and is not an empty folder"));

    let closed = folder.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    // The superuser may write everywhere.
    if fs::create_dir(closed.join("probe")).is_ok() {
        fs::remove_dir(closed.join("probe")).unwrap();
    } else {
        let message = refusal(folder, "good.gguf", "closed/out");
        assert!(
            message.contains("cannot write into the folder ") && message.contains("closed: Permission denied"),
            "{message}"
        );
    }

    // A link to an empty folder stays; the folder behind it gets the model.
    fs::create_dir(folder.join("behind")).unwrap();
    symlink("behind", folder.join("link")).unwrap();
    assert!(build(folder, "good.gguf", "link", &[]).status.success());
    assert!(fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
    assert!(folder.join("behind/genai_config.json").is_file());
}

#[test]
fn each_precision_says_what_it_became() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("good.gguf"), Model::new().bytes()).unwrap();
    for (options, recipe) in [
        (&[][..], "cpu-int8"),
        (&["--precision", "int8"], "cpu-int8"),
        (&["--precision", "int4"], "cpu-int4-32"),
        (&["--precision", "int4", "--block-size", "128", "--symmetric"], "cpu-int4-128-symmetric"),
        (&["--precision", "fp16"], "cpu-fp16"),
        (&["--precision", "fp32"], "cpu-fp32"),
    ] {
        let output = build(home.path(), "good.gguf", recipe, options);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{options:?}: {said}");
        let precision = recipe.split('-').nth(1).unwrap();
        assert!(said.lines().last().unwrap().contains(&format!(" in {precision}, ")), "{said}");
        let mut inspect = Command::new(env!("CARGO_BIN_EXE_ortalk"));
        let shown = inspect.current_dir(home.path()).args(["inspect", recipe]).output().unwrap().stdout;
        let shown = String::from_utf8(shown).unwrap();
        let line = shown.lines().find(|line| line.trim_start().starts_with("recipe ")).unwrap();
        assert!(line.ends_with(recipe), "{line}");
        fs::remove_dir_all(home.path().join(recipe)).unwrap();
    }
}

#[test]
fn a_precision_of_the_other_target_is_refused_with_the_right_ones() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("good.gguf"), Model::new().bytes()).unwrap();
    let npu = ["--target", "npu", "--soc", "x-elite", "--precision"];
    for (options, expected) in [
        (
            vec!["--precision", "w8a16"],
            "--precision w8a16 is for --target npu; for the CPU give int4, int8, fp16 or fp32",
        ),
        ([&npu[..], &["int4"]].concat(), "--precision int4 is for --target cpu; for an NPU give w8a16 or fp16"),
        ([&npu[..], &["fp32"]].concat(), "--precision fp32 is for --target cpu; for an NPU give w8a16 or fp16"),
        (vec!["--symmetric"], "--block-size and --symmetric are for --precision int4; add that"),
        (
            vec!["--precision", "fp32", "--block-size", "64"],
            "--block-size and --symmetric are for --precision int4; add that",
        ),
        (
            [&npu[..], &["w8a16", "--symmetric"]].concat(),
            "--block-size and --symmetric are for --target cpu --precision int4; leave them out for an NPU",
        ),
    ] {
        assert_eq!(refusal_with(home.path(), "good.gguf", "out", &options), expected);
    }
    let wrong = build(home.path(), "good.gguf", "out", &["--precision", "int4", "--block-size", "48"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("invalid value '48' for '--block-size <N>': expected 32, 64 or 128"), "{said}");
}
