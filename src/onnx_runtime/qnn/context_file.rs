//! Compiled models: an ONNX file whose one node, `EPContext`, names the binary that the NPU runs.
//!
//! The wrapper is read before the execution provider sees it, which would say of a wrong one only a number.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::onnx_file::{ModelProto, NodeProto};
use crate::provision::QnnPlugin;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    #[error("it cannot be read: {0}")]
    Read(String),
    #[error("its binary '{}' {problem}; build the model again with `ortalk build --target npu`", path.display())]
    Binary { path: PathBuf, problem: String },
    #[error(
        "it was compiled with QNN SDK {built}, which is newer than the plug-in's {installed}; fetch a newer plug-in, or build \
         the model again on this machine with `ortalk build --target npu`"
    )]
    NewerSdk { built: SdkVersion, installed: SdkVersion },
    #[error(
        "it was compiled for {name} {built}, but {name} is {wanted} here; build the model for this chip with `ortalk build \
         --target npu --soc`"
    )]
    OtherChip { name: &'static str, built: String, wanted: String },
    #[error("QNN does not take its binary: {0}\nBuild the model again with `ortalk build --target npu`")]
    Refused(String),
    #[error("it holds no compiled graph")]
    NoContext,
    #[error("beside the compiled graph it has {count} nodes, such as {first}")]
    OtherNodes { count: usize, first: String },
}

/// Major, minor, patch: 2.51.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SdkVersion([u32; 3]);

/// What an ONNX file with compiled graphs says of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    pub contexts: Vec<Context>,
    /// Names and operators of nodes that are not compiled.
    pub other_nodes: Vec<String>,
    pub compatibility: Option<Compatibility>,
}

/// What the execution provider wrote for its own check: the chips that it was compiled for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compatibility {
    htp_archs: Vec<u32>,
    soc_models: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// `None` where it is inside the ONNX file.
    pub binary: Option<String>,
    pub sdk: Option<SdkVersion>,
}

impl ContextFile {
    pub fn read(path: &Path) -> Result<Self, ContextError> {
        let model = ModelProto::read(path).map_err(|error| ContextError::Read(error.to_string()))?;
        let mut file = Self { contexts: Vec::new(), other_nodes: Vec::new(), compatibility: None };
        for node in model.graph.map(|graph| graph.node).unwrap_or_default() {
            if node.op_type() == "EPContext" {
                file.contexts.push(Context::of(&node));
            } else {
                file.other_nodes.push(format!("{} ({})", node.name(), node.op_type()));
            }
        }
        let compatibility = model.metadata_props.iter().find(|entry| entry.key().starts_with("ep_compatibility_info."));
        file.compatibility = compatibility.and_then(|entry| Compatibility::parse(entry.value()));
        Ok(file)
    }
}

impl Context {
    fn of(node: &NodeProto) -> Self {
        let embedded = node.attribute("embed_mode").is_some_and(|found| found.i() == 1);
        Self {
            binary: if embedded { None } else { node.text("ep_cache_context") },
            sdk: node.text("ep_sdk_version").as_deref().and_then(SdkVersion::parse),
        }
    }
}

/// Checks a compiled model against what it is to run on, and says whether it is one: a model that is not compiled passes,
/// as the execution provider compiles it.
pub fn check(model: &Path, plugin: &QnnPlugin, told: &[(String, String)]) -> Result<bool, ContextError> {
    let file = ContextFile::read(model)?;
    if file.contexts.is_empty() {
        return Ok(false);
    }
    check_binaries(&file, model)?;
    let newest = file.contexts.iter().filter_map(|context| context.sdk).max();
    if let Some(built) = newest
        && let Some(installed) = SdkVersion::of_backend(&plugin.backend)
        && built > installed
    {
        return Err(ContextError::NewerSdk { built, installed });
    }
    if let Some(compatibility) = &file.compatibility {
        compatibility.check(told)?;
    }
    Ok(true)
}

impl Compatibility {
    /// Of "v2:6:2.51.0:5.51.0:73:60:0:0": version of this text, backend, versions of its interface and of the binary, then
    /// lists of architectures, of chips and of memory sizes. 0 stands for what was not said. Other versions are not read;
    /// the execution provider has its own check.
    fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let list = |text: &str| text.split(',').map(|number| number.parse::<u32>()).collect::<Result<Vec<_>, _>>().ok();
        match parts.as_slice() {
            ["v2", _, _, _, archs, chips, ..] => Some(Self { htp_archs: list(archs)?, soc_models: list(chips)? }),
            _ => None,
        }
    }

    fn check(&self, told: &[(String, String)]) -> Result<(), ContextError> {
        for (name, built) in [("soc_model", &self.soc_models), ("htp_arch", &self.htp_archs)] {
            let Some((_, wanted)) = told.iter().find(|(known, _)| known == name) else { continue };
            let built: Vec<String> = built.iter().filter(|number| **number != 0).map(u32::to_string).collect();
            if !built.is_empty() && !built.contains(wanted) {
                return Err(ContextError::OtherChip { name, built: built.join(", "), wanted: wanted.clone() });
            }
        }
        Ok(())
    }
}

/// Checks what compiling has written, and gives the binaries' paths.
pub fn check_compiled(model: &Path) -> Result<Vec<PathBuf>, ContextError> {
    let file = ContextFile::read(model)?;
    if file.contexts.is_empty() {
        return Err(ContextError::NoContext);
    }
    if let Some(first) = file.other_nodes.first() {
        return Err(ContextError::OtherNodes { count: file.other_nodes.len(), first: first.clone() });
    }
    check_binaries(&file, model)
}

fn check_binaries(file: &ContextFile, model: &Path) -> Result<Vec<PathBuf>, ContextError> {
    let folder = model.parent().unwrap_or(Path::new(""));
    let names = file.contexts.iter().filter_map(|context| context.binary.as_deref());
    names
        .map(|name| {
            let fault = |problem: &str| ContextError::Binary { path: name.into(), problem: problem.into() };
            // A name that leads out of the folder would make ortalk read what a model's maker chose.
            if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
                return Err(fault("is not in the model's folder"));
            }
            let path = folder.join(name);
            match std::fs::metadata(&path) {
                Ok(found) if found.is_file() && found.len() > 0 => Ok(path),
                Ok(_) => Err(fault("is empty")),
                Err(_) => Err(fault("is missing")),
            }
        })
        .collect()
}

impl SdkVersion {
    /// Of "v2.51.0.260929181845" or "2.51.0".
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim_start_matches('v').split('.').map(|number| number.parse().ok());
        Some(Self([numbers.next()??, numbers.next()??, numbers.next()??]))
    }

    /// The version that QNN's backend library carries in its text: no function gives it without loading the library.
    pub fn of_backend(library: &Path) -> Option<Self> {
        const PIECE: usize = 1 << 20;
        let mut file = File::open(library).ok()?;
        // A hundred megabytes: looked through piece by piece, each with the end of the one before.
        let mut piece = Vec::with_capacity(PIECE + Self::LONGEST);
        loop {
            piece.drain(..piece.len().saturating_sub(Self::LONGEST));
            if file.by_ref().take(PIECE as u64).read_to_end(&mut piece).ok()? == 0 {
                return None;
            }
            if let Some(version) = Self::in_bytes(&piece) {
                return Some(version);
            }
        }
    }

    /// Bytes of the longest text that is looked for.
    const LONGEST: usize = 40;

    /// Of the first text like "v2.51.0.260929181845": three numbers, and the build's time in at least ten digits.
    fn in_bytes(bytes: &[u8]) -> Option<Self> {
        let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let mut from = 0;
        while let Some(at) = bytes[from..].windows(3).position(|start| start == b"v2.").map(|at| from + at) {
            from = at + 1;
            let text: Vec<u8> =
                bytes[from..].iter().take(Self::LONGEST).take_while(|byte| is_part(byte)).copied().collect();
            let text = String::from_utf8_lossy(&text);
            let build = text.split('.').nth(3).unwrap_or_default();
            if build.len() >= 10 && build.bytes().all(|byte| byte.is_ascii_digit()) {
                return Self::parse(&text);
            }
        }
        None
    }
}

impl fmt::Display for SdkVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        f.pad(&format!("{major}.{minor}.{patch}"))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use prost::Message;

    use super::*;
    use crate::onnx_file::{AttributeProto, GraphProto, StringStringEntryProto};

    fn attribute(name: &str, i: i64, s: &str) -> AttributeProto {
        let s = Some(s.to_owned().into());
        AttributeProto { name: Some(name.into()), i: Some(i), s, ..AttributeProto::default() }
    }

    fn model(node: Vec<NodeProto>) -> ModelProto {
        let graph = GraphProto { node, ..GraphProto::default() };
        ModelProto { ir_version: Some(10), graph: Some(graph), ..ModelProto::default() }
    }

    /// A wrapper in a folder of its own, naming `binary`.
    fn wrapper(binary: &str, sdk: &str, compatibility: &str) -> (tempfile::TempDir, PathBuf) {
        let node = NodeProto {
            name: Some("n".into()),
            op_type: Some("EPContext".into()),
            attribute: vec![
                attribute("embed_mode", 0, ""),
                attribute("ep_cache_context", 0, binary),
                attribute("ep_sdk_version", 0, sdk),
            ],
            ..NodeProto::default()
        };
        let key = Some("ep_compatibility_info.QNNExecutionProvider".into());
        let entry = StringStringEntryProto { key, value: Some(compatibility.into()) };
        let model = ModelProto { metadata_props: vec![entry], ..model(vec![node]) };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.onnx");
        std::fs::write(&path, model.encode_to_vec()).unwrap();
        std::fs::write(dir.path().join("m.bin"), "binary").unwrap();
        std::fs::write(dir.path().join("QnnHtp"), "..v2.x.v2.50.1.250101000000.").unwrap();
        (dir, path)
    }

    fn checked(binary: &str, sdk: &str, compatibility: &str) -> Result<bool, String> {
        let (dir, path) = wrapper(binary, sdk, compatibility);
        let plugin = QnnPlugin { library: dir.path().join("plugin"), backend: dir.path().join("QnnHtp") };
        let told = [("htp_arch".to_owned(), "73".to_owned()), ("soc_model".to_owned(), "60".to_owned())];
        check(&path, &plugin, &told).map_err(|error| error.to_string())
    }

    #[test]
    fn what_fits_passes() {
        let fits = "v2:6:2.51.0:5.51.0:73:60:0:0";
        assert_eq!(checked("m.bin", "v2.50.1.250101000000", fits), Ok(true));
        assert_eq!(checked("./m.bin", "v2.49.9.250101000000", "v2:6:2.51.0:5.51.0:0:0:0:0"), Ok(true));
        assert_eq!(checked("m.bin", "", "v2:6:2.51.0:5.51.0:73,81:60,88:8,8:0"), Ok(true));
        assert_eq!(checked("m.bin", "what?", "v9:something new"), Ok(true));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let fits = "v2:6:2.51.0:5.51.0:73:60:0:0";
        let newer = checked("m.bin", "v2.51.0.260929181845", fits).unwrap_err();
        assert!(newer.starts_with("it was compiled with QNN SDK 2.51.0, which is newer than the plug-in's 2.50.1"));
        let chip = checked("m.bin", "v2.50.1.250101000000", "v2:6:2.51.0:5.51.0:73:88:0:0").unwrap_err();
        assert!(chip.starts_with("it was compiled for soc_model 88, but soc_model is 60 here"), "{chip}");
        let arch = checked("m.bin", "v2.50.1.250101000000", "v2:6:2.51.0:5.51.0:75,81:60:0:0").unwrap_err();
        assert!(arch.starts_with("it was compiled for htp_arch 75, 81, but htp_arch is 73 here"), "{arch}");
    }

    #[test]
    fn a_binary_must_be_there_and_in_the_folder() {
        for (name, problem) in
            [("none.bin", "is missing"), ("../m.bin", "not in"), ("/etc/passwd", "not in"), ("", "empty")]
        {
            let error = checked(name, "", "").unwrap_err();
            assert!(error.starts_with(&format!("its binary '{name}'")) && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn what_is_no_compiled_model() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.onnx");
        std::fs::write(&path, [0xff; 20]).unwrap();
        assert!(matches!(check_compiled(&path), Err(ContextError::Read(_))));
        std::fs::write(&path, model(Vec::new()).encode_to_vec()).unwrap();
        assert_eq!(check_compiled(&path), Err(ContextError::NoContext));
        let plugin = QnnPlugin { library: path.clone(), backend: path.clone() };
        assert_eq!(check(&path, &plugin, &[]), Ok(false));
        let node = |operator: &str| NodeProto { op_type: Some(operator.into()), ..NodeProto::default() };
        std::fs::write(&path, model(vec![node("EPContext"), node("Cast")]).encode_to_vec()).unwrap();
        assert_eq!(check_compiled(&path), Err(ContextError::OtherNodes { count: 1, first: " (Cast)".into() }));
    }

    #[test]
    fn the_sdk_s_version_is_found_in_a_library() {
        for (text, version) in [
            ("x v2.51.0.260929181845.", Some([2, 51, 0])),
            ("v2.1 v2.2.3 v2.51.0.123 v2.4.5.1234567890\0", Some([2, 4, 5])),
            ("v3.51.0.260929181845", None),
            ("v2.", None),
            ("", None),
        ] {
            assert_eq!(SdkVersion::in_bytes(text.as_bytes()), version.map(SdkVersion), "{text}");
        }
        assert_eq!(SdkVersion([2, 51, 0]).to_string(), "2.51.0");
        // In a library, also across the pieces that it is read in.
        let path = tempfile::NamedTempFile::new().unwrap();
        for place in [0, (1 << 20) - 10, (1 << 20) + 3, 3 << 20] {
            let mut bytes = vec![b'v'; place];
            bytes.extend(b" v2.51.0.260929181845\0");
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(SdkVersion::of_backend(path.path()), Some(SdkVersion([2, 51, 0])), "{place}");
        }
        std::fs::write(&path, vec![b'v'; 3 << 20]).unwrap();
        assert_eq!(SdkVersion::of_backend(path.path()), None);
        assert!(SdkVersion([2, 51, 0]) > SdkVersion([2, 9, 12]));
    }
}
