//! What the numbers hang on: the machine and how it stood, and which files were run.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Reported;
use crate::telemetry::machine::Machine;
use crate::telemetry::surroundings::Surroundings;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conditions {
    pub machine: Machine,
    pub versions: Versions,
    pub before: Standing,
    pub after: Standing,
}

/// `None` stands for what is not told, or not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Versions {
    pub ortalk: &'static str,
    pub onnx_runtime: Option<String>,
    pub qnn_sdk: Option<String>,
}

/// How the machine stood while ortalk did nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// Load of all cores together by other programs, 0 to 100 percent.
    pub cpu_percent: Reported<f64>,
    /// Over the last minute, ortalk included.
    pub load_average: Reported<f64>,
    pub cpu_mhz: Reported<u64>,
    pub cpu_celsius: Reported<f64>,
    pub governor: Reported<String>,
    pub on_battery: Reported<bool>,
}

impl From<Surroundings> for Standing {
    fn from(seen: Surroundings) -> Self {
        Self {
            cpu_percent: seen.cpu_percent.into(),
            load_average: seen.load_average.into(),
            cpu_mhz: seen.cpu_mhz.into(),
            cpu_celsius: seen.cpu_celsius.into(),
            governor: seen.governor.into(),
            on_battery: seen.on_battery.into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelFile {
    pub file: String,
    pub bytes: u64,
    pub sha256: String,
}

/// The graphs, weights and compiled binaries of a model folder, by name.
pub fn model_files(folder: &Path) -> io::Result<Vec<ModelFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if (file.contains(".onnx") || file.ends_with(".bin")) && entry.path().is_file() {
            let (bytes, sha256) = sha256(&entry.path())?;
            files.push(ModelFile { file, bytes, sha256 });
        }
    }
    files.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(files)
}

fn sha256(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut hash, mut piece, mut bytes) = (File::open(path)?, Sha256::new(), vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            count => {
                hash.update(&piece[..count]);
                bytes += count as u64;
            }
        }
    }
    Ok((bytes, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "abc" is FIPS 180-2's first example.
    #[test]
    fn weights_are_hashed_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("model.onnx.data", "abc"), ("model.onnx", ""), ("a.bin", "abc"), ("tokenizer.json", "{}")]
        {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let files = model_files(dir.path()).unwrap();
        let names: Vec<_> = files.iter().map(|file| (file.file.as_str(), file.bytes)).collect();
        assert_eq!(names, [("a.bin", 3), ("model.onnx", 0), ("model.onnx.data", 3)]);
        assert_eq!(files[0].sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
