//! Where the drivers of NPUs and GPUs show themselves, found by name; no driver is asked anything.

use std::path::{Path, PathBuf};

/// A folder below the root, and how the names of interest in it start.
type Place = (&'static str, &'static str);

/// Linux's node of Qualcomm's compute DSP, which is the NPU.
const COMPUTE_DSP: Place = ("dev", "fastrpc-cdsp");

const NPU: &[Place] = if cfg!(windows) {
    // The driver package of Snapdragon's NPU.
    &[("Windows/System32/DriverStore/FileRepository", "qcnspmcdm")]
} else {
    &[
        COMPUTE_DSP,
        // Other makers' NPUs.
        ("dev/accel", "accel"),
        // Qualcomm's library for calls to the DSP.
        ("usr/lib", "libcdsprpc.so"),
        ("usr/lib64", "libcdsprpc.so"),
        ("usr/lib/aarch64-linux-gnu", "libcdsprpc.so"),
    ]
};

const GPU: &[Place] =
    if cfg!(windows) { &[] } else { &[("dev/dri", "renderD"), ("dev", "nvidia0"), ("dev", "kgsl-3d0")] };

/// Below `root`, which is `root()` outside tests.
pub fn npu(root: &Path) -> Vec<PathBuf> {
    find(root, NPU)
}

pub fn gpu(root: &Path) -> Vec<PathBuf> {
    find(root, GPU)
}

/// The compute DSP's node, where Linux has one.
pub fn compute_dsp(root: &Path) -> Option<PathBuf> {
    find(root, &[COMPUTE_DSP]).into_iter().next()
}

/// Where the system begins.
pub fn root() -> PathBuf {
    match std::env::var_os("SystemDrive") {
        Some(drive) if cfg!(windows) => PathBuf::from(format!("{}\\", drive.display())),
        _ => PathBuf::from("/"),
    }
}

fn find(root: &Path, places: &[Place]) -> Vec<PathBuf> {
    let in_place = |(folder, start): &Place| {
        let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let names = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
        let mut paths: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    places.iter().flat_map(in_place).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_found_in_the_order_of_their_places() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!((npu(root), gpu(root), compute_dsp(root)), (vec![], vec![], None));
        for name in
            ["dev/accel/accel0", "dev/fastrpc-cdsp-secure", "dev/fastrpc-cdsp", "dev/dri/renderD128", "dev/dri/card0"]
        {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), "").unwrap();
        }
        let found = |paths: Vec<PathBuf>| -> Vec<String> {
            paths.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect()
        };
        assert_eq!(found(npu(root)), ["dev/fastrpc-cdsp", "dev/fastrpc-cdsp-secure", "dev/accel/accel0"]);
        assert_eq!(found(gpu(root)), ["dev/dri/renderD128"]);
        assert_eq!(compute_dsp(root), Some(root.join("dev/fastrpc-cdsp")));
    }
}
