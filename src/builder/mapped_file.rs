//! A file seen as bytes in memory, so that a checkpoint larger than the free memory can be read.
//!
//! It is the builder's only unsafe code; what the bytes mean is `gguf`'s and `safetensors`' business.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A read-only mapping of a whole file.
#[derive(Debug)]
pub struct MappedFile(memmap2::Mmap);

impl MappedFile {
    /// Maps the file, if it is one with something in it: what the system says of others helps nobody.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Asked before it is opened: opening a pipe waits for its other end.
        let metadata = std::fs::metadata(path)?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, expected a file"));
        }
        if !metadata.is_file() {
            let problem = "it is a pipe or a device, expected a file; save the model to a file first";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        if metadata.len() == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty; fetch it again"));
        }
        let file = File::open(path)?;
        // SAFETY: the mapping is private and never written by us. Another process that shortens or rewrites the file
        // while it is read is the one hazard a mapping has; the same hazard is accepted by every GGUF reader, and no
        // lock exists that would exclude it on all systems. Nothing below relies on the bytes staying the same: every
        // read is bounds-checked, and no length is read twice.
        let map = unsafe { memmap2::Mmap::map(&file) }?;
        Ok(Self(map))
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
