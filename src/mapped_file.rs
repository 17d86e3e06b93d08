//! A file seen as bytes in memory, so that one larger than the free memory can be read.
//!
//! All of the mapping's unsafe code is here; what the bytes mean is the business of those who read a format.
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

    /// Gives the pages of `part` back to the system, if it is a part of this file: they are read again when they are needed.
    /// Without this a large file counts as this process's memory as far as it was read. Windows takes pages back by itself.
    pub fn release(&self, part: &[u8]) {
        let Some(offset) = (part.as_ptr() as usize).checked_sub(self.0.as_ptr() as usize) else { return };
        if offset.checked_add(part.len()).is_none_or(|end| end > self.0.len()) {
            return;
        }
        // SAFETY: the mapping is one of a file and never written by us, so a page that was dropped has the file's bytes
        // again when it is next read. It is advice: that it may fail is no reason to stop.
        #[cfg(unix)]
        let _ = unsafe { self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, part.len()) };
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// Bytes of files that this process has in memory, as Linux counts them.
    #[cfg(target_os = "linux")]
    fn resident(map: &MappedFile) -> usize {
        let start = format!("{:x}-", map.as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
        let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }

    #[test]
    fn what_is_released_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..1 << 20).map(|index: u32| ((index * 7) >> 3) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = MappedFile::open(&path).unwrap();
        assert!(*file == bytes);
        #[cfg(target_os = "linux")]
        assert_eq!(resident(&file), bytes.len());
        file.release(&file[1 << 18..]);
        #[cfg(target_os = "linux")]
        assert_eq!(resident(&file), 1 << 18);
        assert!(*file == bytes);
        // Bytes of something else are left alone.
        file.release(&bytes);
        assert!(*file == bytes);
    }
}
