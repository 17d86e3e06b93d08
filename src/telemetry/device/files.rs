//! Small files in which the kernel tells one value each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

pub fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

pub fn text(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

pub fn says(path: &Path, expected: &str) -> bool {
    text(path).is_ok_and(|text| text == expected)
}

pub fn number(path: &Path) -> io::Result<f64> {
    text(path)?.parse::<i64>().map(|value| value as f64).map_err(io::Error::other)
}

/// The same, with the reason why not.
pub fn value(path: &Path) -> Result<f64, String> {
    number(path).map_err(|error| unreadable(path, &error))
}

pub fn unreadable(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("needs permission: {}", path.display()),
        _ => format!("{} cannot be read: {error}", path.display()),
    }
}

/// The files of the folder that are called `start`, a number, `end`: `temp1_input`.
pub fn numbered(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| {
        let name = name_of(path);
        let number = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries(folder).into_iter().filter(is_one).collect()
}
