//! Where ONNX Runtime's library is: named by the user, beside the executable, fetched before, or in a Python package.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::install::staging_in;
use super::python::CANDIDATES;
use super::{
    Fault, Meter, ProvisionError, Report, Stage, ensure_onnx_runtime, onnx_runtime_artifact, onnx_runtime_name,
};
use crate::config::Settings;
use crate::paths::Paths;

/// The environment variable that names the library.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The oldest release whose library has the interface that ortalk is compiled for (feature `api-24` of `ort`).
const OLDEST_MINOR: u32 = 24;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLibrary {
    pub path: PathBuf,
    pub origin: LibraryOrigin,
}

/// Why this library and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibraryOrigin {
    Variable,
    Setting,
    BesideExecutable,
    Cache,
    PythonPackage,
    /// Fetched by this very call.
    Fetched,
}

impl std::fmt::Display for LibraryOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Variable => "named by ORT_DYLIB_PATH",
            Self::Setting => "named in the settings",
            Self::BesideExecutable => "beside the executable",
            Self::Cache => "in ortalk's cache",
            Self::PythonPackage => "in a Python package",
            Self::Fetched => "fetched",
        })
    }
}

/// The user named a library that is not there. It is not passed over: another library would answer in its name.
#[derive(Debug, thiserror::Error)]
#[error("{by} names '{}' as ONNX Runtime's library, but {problem}; correct it, or remove it to let ortalk find one", path.display())]
pub struct NamedLibraryError {
    pub by: String,
    pub path: PathBuf,
    pub problem: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ObtainError {
    #[error(transparent)]
    Named(#[from] NamedLibraryError),
    #[error(transparent)]
    Provision(#[from] ProvisionError),
}

/// Looks for the library where that costs almost nothing. `None`: it has to be fetched.
pub fn find_onnx_runtime(settings: &Settings, paths: &Paths) -> Result<Option<FoundLibrary>, NamedLibraryError> {
    let named = std::env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let executable = std::env::current_exe().ok();
    find(named, executable.as_deref().and_then(Path::parent), settings, paths)
}

/// The library, from a Python package or fetched when [`find_onnx_runtime`] knows none.
pub fn obtain_onnx_runtime(
    settings: &Settings,
    paths: &Paths,
    report: Report<'_>,
) -> Result<FoundLibrary, ObtainError> {
    if let Some(found) = find_onnx_runtime(settings, paths)? {
        return Ok(found);
    }
    let asked = ask_python(paths, report).map_err(|fault| ProvisionError {
        what: onnx_runtime_name(),
        fault: Box::new(fault),
        instead: String::new(),
    })?;
    if let Some(found) = asked {
        return Ok(found);
    }
    let library = ensure_onnx_runtime(paths, report)?;
    let origin = if library.fetched { LibraryOrigin::Fetched } else { LibraryOrigin::Cache };
    Ok(FoundLibrary { path: library.path, origin })
}

fn find(
    variable: Option<PathBuf>,
    beside: Option<&Path>,
    settings: &Settings,
    paths: &Paths,
) -> Result<Option<FoundLibrary>, NamedLibraryError> {
    let found = |path, origin| Ok(Some(FoundLibrary { path, origin }));
    if let Some(path) = variable {
        return found(named(path, || LIBRARY_VARIABLE.to_owned())?, LibraryOrigin::Variable);
    }
    if let Some(path) = &settings.onnx_runtime {
        let by = || format!("onnx-runtime in '{}'", paths.settings_file().display());
        return found(named(path.clone(), by)?, LibraryOrigin::Setting);
    }
    if let Some(path) = beside.and_then(library_in) {
        return found(path, LibraryOrigin::BesideExecutable);
    }
    if let Some(artifact) = onnx_runtime_artifact(paths).filter(|artifact| artifact.is_installed()) {
        return found(artifact.main_file(), LibraryOrigin::Cache);
    }
    if let Some(path) = fs::read_to_string(note_of_package(paths)).ok().and_then(|text| usable_package(text.trim())) {
        return found(path, LibraryOrigin::PythonPackage);
    }
    Ok(None)
}

fn named(path: PathBuf, by: impl Fn() -> String) -> Result<PathBuf, NamedLibraryError> {
    let problem = match fs::metadata(&path) {
        Ok(found) if found.is_file() => return Ok(path),
        Ok(found) if found.is_dir() => "that is a folder, not the library file in it".to_owned(),
        Ok(_) => "that is not a file".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(NamedLibraryError { by: by(), path, problem })
}

/// A library with one of the names that ONNX Runtime's releases use on this platform. The plain name comes first: it is
/// the one a person makes.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let (plain, start, end) = match std::env::consts::OS {
        "windows" => ("onnxruntime.dll", "onnxruntime.dll", ""),
        "macos" => ("libonnxruntime.dylib", "libonnxruntime.1.", ".dylib"),
        _ => ("libonnxruntime.so", "libonnxruntime.so.1.", ""),
    };
    let path = folder.join(plain);
    if path.is_file() {
        return Some(path);
    }
    let mut versioned: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(start) && name.ends_with(end)))
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    versioned.sort();
    versioned.pop()
}

/// Starting Python takes a tenth of a second and more, so what it said is noted for later starts.
fn note_of_package(paths: &Paths) -> PathBuf {
    paths.cache.join("onnxruntime-package.txt")
}

/// The library of a Python package `onnxruntime`, given the package's `__init__.py`, if it is recent enough.
fn usable_package(init: &str) -> Option<PathBuf> {
    let init = Path::new(init);
    let text = fs::read_to_string(init).ok()?;
    let version = text.lines().find_map(|line| line.strip_prefix("__version__"))?;
    let version = version.trim_matches(|c: char| !c.is_ascii_digit());
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next()? == 1 && numbers.next()? >= OLDEST_MINOR).then_some(())?;
    library_in(&init.parent()?.join("capi"))
}

/// Asks the user's Python where its package is, without importing it. Any failure but a wish to stop means: no package.
fn ask_python(paths: &Paths, report: Report<'_>) -> Result<Option<FoundLibrary>, Fault> {
    const QUESTION: &str =
        "import importlib.util as u; s = u.find_spec('onnxruntime'); print(s.origin if s and s.origin else '')";
    const LONGEST: Duration = Duration::from_secs(10);
    let Ok(cache) = std::path::absolute(&paths.cache) else { return Ok(None) };
    let folder = staging_in(&cache).join(format!("question-{}", std::process::id()));
    // A cache that cannot be used is the fetch's to explain.
    if fs::create_dir_all(&folder).is_err() {
        return Ok(None);
    }
    let start = Instant::now();
    let what = "an installed ONNX Runtime";
    let mut stopped = false;
    let mut meter = Meter { what, report };
    let mut tick = || {
        meter.at(Stage::Looking, 0, 0).inspect_err(|_| stopped = true)?;
        if start.elapsed() < LONGEST { Ok(()) } else { Err(Fault::Cancelled) }
    };
    let answer = CANDIDATES.iter().find_map(|python| {
        let finished = python.run(&["-c", QUESTION], &folder, &folder.join("answer.txt"), &mut tick).ok()??;
        finished.status.success().then_some(finished.output)
    });
    let _ = fs::remove_dir_all(&folder);
    if stopped {
        return Err(Fault::Cancelled);
    }
    let answer = answer.unwrap_or_default();
    let Some(init) = answer.lines().map(str::trim).find(|line| !line.is_empty()) else { return Ok(None) };
    let Some(path) = usable_package(init) else { return Ok(None) };
    let _ = fs::write(note_of_package(paths), init);
    Ok(Some(FoundLibrary { path, origin: LibraryOrigin::PythonPackage }))
}
