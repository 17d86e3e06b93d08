//! Where ONNX Runtime's library is: named by the user, beside the executable, fetched before, or in a Python package.

use std::fs;
use std::path::{Path, PathBuf};

use super::package::{self, Package};
use super::{ProvisionError, Report, ensure_onnx_runtime, onnx_runtime_artifact, onnx_runtime_name};
use crate::config::Settings;
use crate::paths::Paths;

/// The environment variable that names the library.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The oldest release whose library has the interface that ortalk is compiled for (feature `api-24` of `ort`).
const OLDEST_MINOR: u32 = 24;

const PACKAGE: Package = Package("onnxruntime");
const ONNX_RUNTIME: &str = "ONNX Runtime's library";

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
#[error("{by} names '{}' as {what}, but {problem}; correct it, or remove it to let ortalk find one", path.display())]
pub struct NamedLibraryError {
    pub by: String,
    pub what: &'static str,
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

/// Looks for the library where that costs almost nothing. `None`: it has to be fetched, or a Python package that was not
/// asked for yet has it.
pub fn find_onnx_runtime(settings: &Settings, paths: &Paths) -> Result<Option<FoundLibrary>, NamedLibraryError> {
    let named = std::env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let executable = std::env::current_exe().ok();
    find(named, executable.as_deref().and_then(Path::parent), settings, paths)
}

/// The library: found where looking costs almost nothing, else in a Python package, else fetched.
pub fn obtain_onnx_runtime(
    settings: &Settings,
    paths: &Paths,
    report: Report<'_>,
) -> Result<FoundLibrary, ObtainError> {
    if let Some(found) = find_onnx_runtime(settings, paths)? {
        return Ok(found);
    }
    let asked = PACKAGE.ask("an installed ONNX Runtime", paths, report).map_err(|fault| ProvisionError {
        what: onnx_runtime_name(),
        fault: Box::new(fault),
        instead: String::new(),
    })?;
    if let Some(init) = asked
        && let Some(path) = usable_package(&init)
    {
        PACKAGE.note(paths, &init);
        return Ok(FoundLibrary { path, origin: LibraryOrigin::PythonPackage });
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
        return found(named(path, ONNX_RUNTIME, || LIBRARY_VARIABLE.to_owned())?, LibraryOrigin::Variable);
    }
    if let Some(path) = &settings.onnx_runtime {
        let by = || format!("onnx-runtime in '{}'", paths.settings_file().display());
        return found(named(path.clone(), ONNX_RUNTIME, by)?, LibraryOrigin::Setting);
    }
    if let Some(path) = beside.and_then(library_in) {
        return found(path, LibraryOrigin::BesideExecutable);
    }
    if let Some(artifact) = onnx_runtime_artifact(paths).filter(|artifact| artifact.is_installed()) {
        return found(artifact.main_file(), LibraryOrigin::Cache);
    }
    if let Some(path) = PACKAGE.noted(paths).and_then(|init| usable_package(&init)) {
        return found(path, LibraryOrigin::PythonPackage);
    }
    Ok(None)
}

/// The file that `by` names as `what`, if it is one.
pub fn named(path: PathBuf, what: &'static str, by: impl Fn() -> String) -> Result<PathBuf, NamedLibraryError> {
    let problem = match fs::metadata(&path) {
        Ok(found) if found.is_file() => return Ok(path),
        Ok(found) if found.is_dir() => "that is a folder, not the library file in it".to_owned(),
        Ok(_) => "that is not a file".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(NamedLibraryError { by: by(), what, path, problem })
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
    versioned.sort_by_key(|path| numbers_in(path));
    versioned.pop()
}

/// 1.10 is newer than 1.9, whatever their text says.
fn numbers_in(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// The library of a Python package `onnxruntime`, given the package's `__init__.py`, if it is recent enough.
fn usable_package(init: &Path) -> Option<PathBuf> {
    let (major, minor) = package::version(init)?;
    (major == 1 && minor >= OLDEST_MINOR).then_some(())?;
    library_in(&init.parent()?.join("capi"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Places {
        dir: tempfile::TempDir,
        paths: Paths,
    }

    impl Places {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let paths = Paths::below(&dir.path().join("home"));
            fs::create_dir_all(&paths.cache).unwrap();
            Self { paths, dir }
        }

        fn file(&self, name: &str, content: &str) -> PathBuf {
            let path = self.dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            path
        }

        /// A Python package of this version, and its `__init__.py`.
        fn package(&self, name: &str, version: &str) -> PathBuf {
            self.file(&format!("{name}/onnxruntime/capi/{}", library_name()), "");
            self.file(&format!("{name}/onnxruntime/__init__.py"), &format!("import os\n__version__ = \"{version}\"\n"))
        }
    }

    fn library_name() -> &'static str {
        match std::env::consts::OS {
            "windows" => "onnxruntime.dll",
            "macos" => "libonnxruntime.1.31.1.dylib",
            _ => "libonnxruntime.so.1.31.1",
        }
    }

    #[test]
    fn each_place_is_tried_in_order() {
        let places = Places::new();
        let (variable, setting) = (places.file("a.so", ""), places.file("b.so", ""));
        let beside = places.file(&format!("bin/{}", library_name()), "");
        let package = places.package("site", "1.31.1");
        PACKAGE.note(&places.paths, &package);
        let settings = Settings { onnx_runtime: Some(setting), ..Settings::default() };
        let origin = |variable, beside, settings: &Settings| {
            find(variable, beside, settings, &places.paths).unwrap().map(|found| found.origin)
        };
        let bin = beside.parent();
        assert_eq!(origin(Some(variable), bin, &settings), Some(LibraryOrigin::Variable));
        assert_eq!(origin(None, bin, &settings), Some(LibraryOrigin::Setting));
        assert_eq!(origin(None, bin, &Settings::default()), Some(LibraryOrigin::BesideExecutable));
        assert_eq!(origin(None, None, &Settings::default()), Some(LibraryOrigin::PythonPackage));
        fs::remove_file(package).unwrap();
        assert_eq!(origin(None, None, &Settings::default()), None);
    }

    #[test]
    fn the_cached_library_comes_before_a_package_and_must_have_its_size() {
        let places = Places::new();
        let Some(artifact) = onnx_runtime_artifact(&places.paths) else { return };
        let find = || find(None, None, &Settings::default(), &places.paths).unwrap();
        fs::create_dir_all(&artifact.folder).unwrap();
        let file = fs::File::create(artifact.main_file()).unwrap();
        file.set_len(artifact.wheel.members[0].bytes - 1).unwrap();
        assert_eq!(find(), None);
        file.set_len(artifact.wheel.members[0].bytes).unwrap();
        let package = places.package("site", "1.31.1");
        PACKAGE.note(&places.paths, &package);
        assert_eq!(find(), Some(FoundLibrary { path: artifact.main_file(), origin: LibraryOrigin::Cache }));
    }

    #[test]
    fn a_named_library_that_is_not_there_is_an_error_and_not_passed_over() {
        let places = Places::new();
        let missing = places.dir.path().join("none.so");
        let variable = find(Some(missing.clone()), None, &Settings::default(), &places.paths).unwrap_err().to_string();
        assert!(variable.starts_with("ORT_DYLIB_PATH names") && variable.contains("none.so"), "{variable}");
        let settings = Settings { onnx_runtime: Some(places.dir.path().to_path_buf()), ..Settings::default() };
        let setting = find(None, None, &settings, &places.paths).unwrap_err().to_string();
        assert!(setting.contains("config.toml") && setting.contains("that is a folder"), "{setting}");
    }

    #[test]
    fn only_a_recent_package_is_used() {
        let places = Places::new();
        let usable = |version| usable_package(&places.package(version, version)).is_some();
        assert!(usable("1.31.1") && usable("1.24.0") && usable("1.25.0rc1"));
        assert!(!usable("1.23.2") && !usable("2.0.0") && !usable("") && !usable("one.two"));
        assert_eq!(usable_package(Path::new("/no/such/__init__.py")), None);
    }

    #[test]
    fn the_newest_of_several_is_taken_by_number() {
        let places = Places::new();
        let (start, end) = match std::env::consts::OS {
            "macos" => ("libonnxruntime.", ".dylib"),
            "windows" => return,
            _ => ("libonnxruntime.so.", ""),
        };
        for version in ["1.24.0", "1.31.9", "1.31.10", "1.9.2"] {
            places.file(&format!("bin/{start}{version}{end}"), "");
        }
        let bin = places.dir.path().join("bin");
        assert_eq!(library_in(&bin), Some(bin.join(format!("{start}1.31.10{end}"))));
    }
}
