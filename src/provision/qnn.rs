//! Where Qualcomm's QNN plug-in for ONNX Runtime is: named by the user, fetched before, or in a Python package; and
//! fetching it.
//!
//! Qualcomm's licence lets people use the plug-in's libraries, but not pass them on alone, so everyone fetches the wheel
//! for themselves. The licence comes with it and is unpacked beside the libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::find::named;
use super::install::{Artifact, Layout};
use super::package::{self, Package};
use super::{
    Fault, LibraryOrigin, NamedLibraryError, ObtainError, ProvisionError, Provisioned, Report, no_wheel, pins,
    provision,
};
use crate::config::Settings;
use crate::paths::Paths;

pub use pins::QNN_PLUGIN_VERSION;

/// What to tell a person who fetches it.
pub const QNN_LICENCE: &str = "Qualcomm's licence allows use, not passing the libraries on: Qualcomm_LICENSE.pdf";

/// The files that make a QNN session: ONNX Runtime's plug-in, and Qualcomm's backend for the Hexagon NPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QnnPlugin {
    pub library: PathBuf,
    pub backend: PathBuf,
}

/// The plug-in's file name, and its backend's.
pub const PLUGIN_FILES: (&str, &str) = if cfg!(windows) {
    ("onnxruntime_providers_qnn.dll", "QnnHtp.dll")
} else {
    ("libonnxruntime_providers_qnn.so", "libQnnHtp.so")
};

impl QnnPlugin {
    /// With the backend that lies beside the plug-in, where its package puts it.
    pub fn with_backend_beside(library: &Path) -> Self {
        Self { library: library.to_path_buf(), backend: library.with_file_name(PLUGIN_FILES.1) }
    }

    /// A variable for the environment of a process that is to reach a real NPU with the plug-in.
    ///
    /// What runs on the NPU itself lies beside the backend, but the system's loader for it looks there only where this
    /// variable names the folder. On Linux the plug-in sees to that; on Windows Python's package did.
    pub fn environment(&self) -> Option<(&'static str, OsString)> {
        cfg!(all(windows, target_arch = "aarch64")).then(|| (ADSP_PATH, self.adsp_path(std::env::var_os(ADSP_PATH))))
    }

    /// The backend's folder before those that are named already.
    fn adsp_path(&self, named: Option<OsString>) -> OsString {
        let mut path = self.backend.parent().map(|folder| folder.as_os_str().to_owned()).unwrap_or_default();
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            path.push(";");
            path.push(named);
        }
        path
    }
}

const ADSP_PATH: &str = "ADSP_LIBRARY_PATH";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPlugin {
    pub plugin: QnnPlugin,
    pub origin: LibraryOrigin,
}

const PACKAGE: Package = Package("onnxruntime_qnn");

/// Looks for the plug-in where that costs almost nothing. `None`: it has to be fetched, or a Python package that was not
/// asked for yet has it.
pub fn find_qnn_plugin(settings: &Settings, paths: &Paths) -> Result<Option<FoundPlugin>, NamedLibraryError> {
    let npu = &settings.npu;
    let by = |key: &str| format!("npu.{key} in '{}'", paths.settings_file().display());
    let backend = match &npu.backend {
        Some(path) => Some(named(path.clone(), "the QNN backend", || by("backend"))?),
        None => None,
    };
    let found = |library: &Path, origin| {
        let mut plugin = QnnPlugin::with_backend_beside(library);
        plugin.backend = backend.clone().unwrap_or(plugin.backend);
        Ok(Some(FoundPlugin { plugin, origin }))
    };
    if let Some(path) = &npu.plugin {
        let library = named(path.clone(), "the QNN plug-in", || by("plugin"))?;
        return found(&library, LibraryOrigin::Setting);
    }
    if let Some(artifact) = artifact(paths).filter(Artifact::is_installed) {
        return found(&artifact.main_file(), LibraryOrigin::Cache);
    }
    if let Some(library) = PACKAGE.noted(paths).and_then(|init| usable_package(&init)) {
        return found(&library, LibraryOrigin::PythonPackage);
    }
    Ok(None)
}

/// The plug-in: found where looking costs almost nothing, else in a Python package, else fetched.
pub fn obtain_qnn_plugin(settings: &Settings, paths: &Paths, report: Report<'_>) -> Result<FoundPlugin, ObtainError> {
    if let Some(found) = find_qnn_plugin(settings, paths)? {
        return Ok(found);
    }
    let asked = PACKAGE.ask("an installed QNN plug-in", paths, report).map_err(|fault| failed(paths, fault))?;
    let origin = match asked.filter(|init| usable_package(init).is_some()) {
        Some(init) => {
            PACKAGE.note(paths, &init);
            LibraryOrigin::PythonPackage
        }
        None if ensure_qnn_plugin(paths, report)?.fetched => LibraryOrigin::Fetched,
        None => LibraryOrigin::Cache,
    };
    // Where the settings name another backend, it counts here, too.
    match find_qnn_plugin(settings, paths)? {
        Some(found) => Ok(FoundPlugin { origin, ..found }),
        None => Err(failed(paths, Fault::Vanished { folder: paths.libraries() }).into()),
    }
}

/// The pinned plug-in in ortalk's cache, fetched when it is not there.
///
/// Once it is there, this costs a look at its files' sizes: no Python, no network.
pub fn ensure_qnn_plugin(paths: &Paths, report: Report<'_>) -> Result<Provisioned, ProvisionError> {
    let artifact = artifact(paths).ok_or_else(|| failed(paths, no_wheel(pins::QNN_PLUGIN)))?;
    provision(&artifact, paths, report).map_err(|fault| failed(paths, fault))
}

/// Whether there is a plug-in for this platform at all.
pub fn qnn_plugin_exists() -> bool {
    pins::qnn_plugin_for(std::env::consts::OS, std::env::consts::ARCH).is_some()
}

fn name() -> String {
    format!("QNN plug-in {QNN_PLUGIN_VERSION}")
}

fn failed(paths: &Paths, fault: Fault) -> ProvisionError {
    ProvisionError {
        what: name(),
        fault: Box::new(fault),
        instead: format!(
            "To use a plug-in that you have: write plugin = 'PATH' below [npu] into '{}'.",
            paths.settings_file().display()
        ),
    }
}

fn artifact(paths: &Paths) -> Option<Artifact> {
    let (system, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let wheel = pins::qnn_plugin_for(system, arch)?;
    let folder = paths.libraries().join(format!("onnxruntime-qnn-{}-{system}-{arch}", wheel.version));
    // The backend finds the C++ library by its way from one folder to the other.
    Some(Artifact { what: name(), wheel: *wheel, folder, layout: Layout::AsInWheel })
}

/// The plug-in of a Python package, given the package's `__init__.py`, if it is of the pinned release: another may need
/// another ONNX Runtime, and has other options.
fn usable_package(init: &Path) -> Option<PathBuf> {
    let folder = init.parent()?;
    let pinned = QNN_PLUGIN_VERSION.split('.').map_while(|number| number.parse().ok()).collect::<Vec<u32>>();
    let (major, minor) = package::version(&folder.join("build_and_package_info.py"))?;
    (pinned.first() == Some(&major) && pinned.get(1) == Some(&minor)).then_some(())?;
    let inside = if cfg!(all(windows, target_arch = "x86_64")) { folder.join("libs/amd64") } else { folder.into() };
    let library = inside.join(PLUGIN_FILES.0);
    (library.is_file() && library.with_file_name(PLUGIN_FILES.1).is_file()).then_some(library)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::config::NpuSettings;

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
            let inside = if cfg!(all(windows, target_arch = "x86_64")) { "libs/amd64/" } else { "" };
            self.file(&format!("{name}/{inside}{}", PLUGIN_FILES.0), "");
            self.file(&format!("{name}/{inside}{}", PLUGIN_FILES.1), "");
            self.file(&format!("{name}/build_and_package_info.py"), &format!("__version__ = '{version}'\n"));
            self.file(&format!("{name}/__init__.py"), "")
        }

        fn find(&self, npu: NpuSettings) -> Result<Option<FoundPlugin>, String> {
            let settings = Settings { npu, ..Settings::default() };
            find_qnn_plugin(&settings, &self.paths).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn the_settings_come_first_and_may_name_the_backend_alone() {
        let places = Places::new();
        assert_eq!(places.find(NpuSettings::default()), Ok(None));
        PACKAGE.note(&places.paths, &places.package("site", "2.7.1"));
        let package = places.find(NpuSettings::default()).unwrap().unwrap();
        assert_eq!(package.origin, LibraryOrigin::PythonPackage);
        let (plugin, backend) = (places.file("mine/plugin.so", ""), places.file("my_backend.so", ""));
        let found =
            places.find(NpuSettings { plugin: Some(plugin.clone()), ..NpuSettings::default() }).unwrap().unwrap();
        assert_eq!(found.origin, LibraryOrigin::Setting);
        assert_eq!(found.plugin, QnnPlugin { backend: plugin.with_file_name(PLUGIN_FILES.1), library: plugin });
        let found =
            places.find(NpuSettings { backend: Some(backend.clone()), ..NpuSettings::default() }).unwrap().unwrap();
        assert_eq!((found.plugin.library, found.plugin.backend), (package.plugin.library, backend));
    }

    #[test]
    fn a_named_file_that_is_not_there_is_an_error_and_not_passed_over() {
        let places = Places::new();
        let missing = places.dir.path().join("none.so");
        let error = places.find(NpuSettings { plugin: Some(missing.clone()), ..NpuSettings::default() }).unwrap_err();
        assert!(error.starts_with("npu.plugin in") && error.contains("as the QNN plug-in, but there is no"), "{error}");
        let error = places.find(NpuSettings { backend: Some(missing), ..NpuSettings::default() }).unwrap_err();
        assert!(error.starts_with("npu.backend in"), "{error}");
    }

    #[test]
    fn the_backend_s_folder_comes_before_those_that_are_named() {
        let plugin = QnnPlugin { library: "p".into(), backend: Path::new("q").join("QnnHtp.dll") };
        assert_eq!(plugin.adsp_path(None), "q");
        assert_eq!(plugin.adsp_path(Some("".into())), "q");
        assert_eq!(plugin.adsp_path(Some("a;b".into())), "q;a;b");
    }

    #[test]
    fn only_the_pinned_release_of_a_package_is_used() {
        let places = Places::new();
        let usable = |version| usable_package(&places.package(version, version)).is_some();
        assert!(usable("2.7.0") && usable("2.7.3"));
        assert!(!usable("2.8.0") && !usable("2.6.9") && !usable("1.7.0") && !usable(""));
        assert_eq!(usable_package(Path::new("/no/such/__init__.py")), None);
    }
}
