//! Folders as transformers.js and Optimum have them (`tests/fixtures/make_optimum_folders.py`), compared with transformers.

use std::path::{Path, PathBuf};

use ortalk::decoder::{CacheKind, Decoder};
use ortalk::model::ModelFolder;

use crate::genai_folders::{PROMPT, check_rewinding, difference, fixtures, largest_difference, open, rows, tokens};

fn folder(name: &str) -> PathBuf {
    fixtures().join("optimum").join(name)
}

/// Path, reference, and the distance that is allowed, relative to the largest logit.
const GRAPHS: [(&str, &str, f32); 5] = [
    ("llama/onnx/model.onnx", "models/llama-f32.logits", 1e-5),
    ("llama/onnx/decoder_model_merged.onnx", "models/llama-f32.logits", 1e-5),
    ("llama/onnx/model_fp16.onnx", "models/llama-f32.logits", 4e-3),
    // The folder's best variant.
    ("llama", "optimum/llama-q4.logits", 1e-5),
    ("qwen3", "models/qwen3-bf16.logits", 1e-5),
];

#[test]
fn graphs_compute_what_transformers_does() {
    for (path, reference, most) in GRAPHS {
        let mut decoder = open(&folder(path));
        assert_eq!(decoder.cache_kind(), CacheKind::Growing, "{path}");
        let reference = rows(&fixtures().join(reference), tokens().len());
        let largest = reference.iter().flatten().fold(0.0_f32, |largest, logit| largest.max(logit.abs()));
        for parts in [&[PROMPT][..], &[8, 8], &[3, 1, 12], &[1; PROMPT]] {
            let found = largest_difference(&mut decoder, &reference[PROMPT - 1..], parts) / largest;
            assert!(found <= most, "{path} in {parts:?}: {found}");
        }
        check_rewinding(&mut decoder, path);
        decoder.rewind(0);
        let all = decoder.forward_all(&tokens()).unwrap().to_vec();
        for (row, expected) in all.chunks(36).zip(&reference) {
            assert!(difference(row, expected) / largest <= most, "{path}");
        }
        assert_eq!(all.len(), 36 * tokens().len(), "{path}");
    }
}

/// The merged graph's branch for a past was traced with one token.
#[test]
fn a_graph_for_one_token_behind_its_past_is_found_out() {
    for (path, shortest) in [("llama/onnx/decoder_model_merged.onnx", 1), ("llama/onnx/model.onnx", 2)] {
        assert_eq!(open(&folder(path)).shortest_prefill(), shortest, "{path}");
    }
}

#[test]
fn the_folder_says_what_it_chose_and_counts_that_alone() {
    let chosen = ModelFolder::open(&folder("llama")).unwrap();
    assert!(chosen.notes[0].starts_with("runs onnx/model_q4.onnx"), "{:?}", chosen.notes);
    let size = |file: &str| folder(file).metadata().unwrap().len();
    assert_eq!(chosen.weight_bytes(), size("llama/onnx/model_q4.onnx"));
    let data = ModelFolder::open(&folder("qwen3")).unwrap();
    assert_eq!(data.weight_bytes(), size("qwen3/onnx/model.onnx") + size("qwen3/onnx/model.onnx_data"));
    let named = ModelFolder::open(&folder("llama/onnx/model_fp16.onnx")).unwrap();
    assert_eq!((named.name.as_str(), named.path), ("llama", folder("llama")));
}

/// Hugging Face's cache: `snapshots` has links to files in `blobs`, whose names are hashes. The data is found beside the
/// graph's link, so links must not be resolved before.
#[cfg(unix)]
#[test]
fn graphs_and_their_data_are_found_through_the_links_of_a_cache() {
    let cache = tempfile::tempdir().unwrap();
    let repository = cache.path().join("models--tiny--qwen3-ONNX");
    let (blobs, snapshot) = (repository.join("blobs"), repository.join("snapshots/0123abc"));
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::create_dir_all(snapshot.join("onnx")).unwrap();
    let mut names = Vec::new();
    for below in ["", "onnx"] {
        let files = std::fs::read_dir(folder("qwen3").join(below)).unwrap().flatten();
        names.extend(files.filter(|file| file.path().is_file()).map(|file| Path::new(below).join(file.file_name())));
    }
    assert!(names.len() >= 6, "{names:?}");
    for (index, name) in names.iter().enumerate() {
        let blob = format!("{index:064x}");
        std::fs::copy(folder("qwen3").join(name), blobs.join(&blob)).unwrap();
        let up = "../".repeat(1 + name.components().count());
        std::os::unix::fs::symlink(format!("{up}blobs/{blob}"), snapshot.join(name)).unwrap();
    }
    for path in [snapshot.clone(), snapshot.join("onnx/model.onnx")] {
        let model = ModelFolder::open(&path).unwrap();
        assert_eq!(model.name, "qwen3-ONNX");
        assert!(model.weight_bytes() > 200_000, "{}", model.weight_bytes());
        open(&path).forward(&tokens()).unwrap();
    }
}
