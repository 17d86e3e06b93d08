//! An installed Python package: where it is and how new, found without importing it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::install::questions_in;
use super::python::CANDIDATES;
use super::{Fault, Meter, Report, Stage};
use crate::paths::Paths;

/// A package as `import` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package(pub &'static str);

impl Package {
    /// Its `__init__.py` as it was found before. Starting Python takes a tenth of a second and more, so what it said is
    /// noted for later starts.
    pub fn noted(self, paths: &Paths) -> Option<PathBuf> {
        let text = fs::read_to_string(self.note_file(paths)).ok()?;
        Some(PathBuf::from(text.trim()))
    }

    pub fn note(self, paths: &Paths, init: &Path) {
        let _ = fs::write(self.note_file(paths), init.to_string_lossy().as_bytes());
    }

    fn note_file(self, paths: &Paths) -> PathBuf {
        paths.cache.join(format!("{}-package.txt", self.0))
    }

    /// Asks the user's Python for the package's `__init__.py`. Any failure but a wish to stop means: no package.
    /// `what` is what a person calls it.
    pub fn ask(self, what: &str, paths: &Paths, report: Report<'_>) -> Result<Option<PathBuf>, Fault> {
        const LONGEST: Duration = Duration::from_secs(10);
        let question = format!(
            "import importlib.util as u; s = u.find_spec('{}'); print(s.origin if s and s.origin else '')",
            self.0
        );
        let Ok(cache) = std::path::absolute(&paths.cache) else { return Ok(None) };
        let folder = Temporary(questions_in(&cache).join(std::process::id().to_string()));
        // A cache that cannot be used is the fetch's to explain.
        if fs::create_dir_all(&folder.0).is_err() {
            return Ok(None);
        }
        let start = Instant::now();
        let mut stopped = false;
        let mut meter = Meter { what, report };
        let mut tick = || {
            meter.at(Stage::Looking, 0, 0).inspect_err(|_| stopped = true)?;
            if start.elapsed() < LONGEST { Ok(()) } else { Err(Fault::Cancelled) }
        };
        let answer = CANDIDATES.iter().find_map(|python| {
            let log = folder.0.join("answer.txt");
            let finished = python.run(&["-c", &question], &folder.0, &log, &mut tick).ok()??;
            finished.status.success().then_some(finished.output)
        });
        if stopped {
            return Err(Fault::Cancelled);
        }
        let answer = answer.unwrap_or_default();
        Ok(answer.lines().map(str::trim).find(|line| !line.is_empty()).map(PathBuf::from))
    }
}

struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The numbers of `__version__ = "1.31.1"` in a Python file: major and minor.
pub fn version(file: &Path) -> Option<(u32, u32)> {
    let text = fs::read_to_string(file).ok()?;
    let version = text.lines().find_map(|line| line.strip_prefix("__version__"))?;
    let version = version.trim_matches(|c: char| !c.is_ascii_digit());
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    Some((numbers.next()?, numbers.next()?))
}
