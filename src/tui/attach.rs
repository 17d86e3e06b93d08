//! Files that are named by `@path`: what there is to choose from, and their text. Everything here waits for disks, and is
//! done on threads.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::format;

/// The longest file that is attached, in bytes. A model's context ends long before.
pub const LONGEST: u64 = 2 << 20;
/// Paths that a folder is listed with.
const MOST: usize = 4000;
/// Folders below a folder that are listed with it.
const DEEPEST: usize = 6;
/// Folders of what programs made, which nobody looks for a text in.
const PASSED_OVER: &[&str] = &["target", "node_modules", "__pycache__", "venv"];

/// A file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    /// As much of what was named as is the path.
    pub path: String,
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    #[error("there is no file '{0}'")]
    Missing(String),
    #[error("'{0}' is a folder; attach the files in it one by one")]
    Folder(String),
    #[error("'{0}' is a device or a pipe, not a file")]
    NotAFile(String),
    #[error("'{path}' has {}; files up to {} can be attached", format::size(*size as usize), format::size(LONGEST as usize))]
    TooLong { path: String, size: u64 },
    #[error("'{0}' is not UTF-8 text, so it cannot be attached")]
    NotText(String),
    #[error("'{path}' cannot be read: {reason}")]
    Unreadable { path: String, reason: String },
}

/// Reads the file that a message names. Punctuation behind the path is no part of it, where there is no such file.
pub fn read(mentioned: &str) -> Result<FileText, AttachError> {
    let shorter = mentioned.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'', '"']);
    for path in [mentioned, shorter] {
        match std::fs::metadata(expand(path)) {
            Ok(metadata) => return read_file(path, &metadata),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(unreadable(path, &error)),
        }
    }
    Err(AttachError::Missing(mentioned.to_owned()))
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename | InvalidInput)
}

fn unreadable(path: &str, error: &io::Error) -> AttachError {
    AttachError::Unreadable { path: path.to_owned(), reason: error.to_string() }
}

fn read_file(path: &str, metadata: &Metadata) -> Result<FileText, AttachError> {
    if metadata.is_dir() {
        return Err(AttachError::Folder(path.to_owned()));
    }
    // A pipe would be waited for without an end.
    if !metadata.is_file() {
        return Err(AttachError::NotAFile(path.to_owned()));
    }
    let too_long = |size| Err(AttachError::TooLong { path: path.to_owned(), size });
    if metadata.len() > LONGEST {
        return too_long(metadata.len());
    }
    let file = File::open(expand(path)).map_err(|error| unreadable(path, &error))?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    // It may have grown, and some systems' files have no size.
    if bytes.len() as u64 > LONGEST {
        return too_long(bytes.len() as u64);
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| AttachError::NotText(path.to_owned()))?;
    let content = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n");
    Ok(FileText { path: path.to_owned(), content })
}

/// `~/` is the user's own folder.
fn expand(path: &str) -> PathBuf {
    let home = || Some(directories::BaseDirs::new()?.home_dir().to_owned());
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with(std::path::is_separator) => {
            home().map_or_else(|| path.into(), |home| home.join(rest.trim_start_matches(std::path::is_separator)))
        }
        _ => path.into(),
    }
}

/// What lies in and below a folder, as paths from there, folders with a slash behind them; nearer ones first. Nothing
/// where there is no such folder.
pub fn list(folder: &str) -> Vec<String> {
    let root = expand(if folder.is_empty() { "." } else { folder });
    let mut found = Vec::new();
    let mut folders = VecDeque::from([(root, String::new(), 0)]);
    while let Some((folder, prefix, depth)) = folders.pop_front() {
        for (name, is_folder) in entries(&folder) {
            if found.len() == MOST {
                return found;
            }
            let path = format!("{prefix}{name}{}", if is_folder { "/" } else { "" });
            if is_folder && depth < DEEPEST && !name.starts_with('.') && !PASSED_OVER.contains(&name.as_str()) {
                folders.push_back((folder.join(&name), path.clone(), depth + 1));
            }
            found.push(path);
        }
    }
    found
}

/// Names in a folder, in their order, hidden ones last; those that cannot be typed are left out.
fn entries(folder: &Path) -> Vec<(String, bool)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut entries: Vec<(String, bool)> = entries
        .take(MOST)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok().filter(|name| !name.contains(char::is_control))?;
            // A link's folder is not gone into: it may lead back.
            let kind = entry.file_type().ok()?;
            Some((name, kind.is_dir()))
        })
        .collect();
    entries.sort_by(|(a, _), (b, _)| (a.starts_with('.'), a).cmp(&(b.starts_with('.'), b)));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_everything_else_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(at("a b.txt"), "\u{feff}one\r\n\ttwo\n").unwrap();
        std::fs::write(at("x.bin"), b"\0\x01").unwrap();
        std::fs::write(at("latin.txt"), b"caf\xe9").unwrap();
        File::create(at("huge.txt")).unwrap().set_len(LONGEST + 1).unwrap();
        let text = read(&at("a b.txt")).unwrap();
        assert_eq!((text.path, text.content), (at("a b.txt"), "one\n\ttwo\n".to_owned()));
        assert_eq!(read(&format!("{}).", at("a b.txt"))).unwrap().path, at("a b.txt"));
        assert_eq!(read(&at("none.txt")), Err(AttachError::Missing(at("none.txt"))));
        assert_eq!(read(&at("x.bin/none")), Err(AttachError::Missing(at("x.bin/none"))));
        assert_eq!(read(&at("")), Err(AttachError::Folder(at(""))));
        for name in ["x.bin", "latin.txt"] {
            assert_eq!(read(&at(name)), Err(AttachError::NotText(at(name))));
        }
        let error = read(&at("huge.txt")).unwrap_err().to_string();
        assert!(error.ends_with("has 2.1 MB; files up to 2.1 MB can be attached"), "{error}");
        #[cfg(unix)]
        assert_eq!(read("/dev/null"), Err(AttachError::NotAFile("/dev/null".into())));
    }

    #[test]
    fn folders_are_listed_with_what_is_below_them() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["src/deep", "target/debug", ".git"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        for path in ["b.txt", "src/main.rs", "src/deep/x.rs", "target/debug/made", ".git/config", ".hidden"] {
            std::fs::write(folder.path().join(path), "").unwrap();
        }
        let expected = ["b.txt", "src/", "target/", ".git/", ".hidden", "src/deep/", "src/main.rs", "src/deep/x.rs"];
        assert_eq!(list(folder.path().to_str().unwrap()), expected);
        assert_eq!(list("/no/such/folder"), [""; 0]);
    }
}
