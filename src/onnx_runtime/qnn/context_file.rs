//! Compiled models: an ONNX file whose one node, `EPContext`, names the binary that the NPU runs.
//!
//! The wrapper is read before the execution provider sees it, which would say of a wrong one only a number.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use prost::Message;

use crate::model::NpuOptions;
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
    /// What the execution provider wrote for its own check.
    pub compatibility: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// `None` where it is inside the ONNX file.
    pub binary: Option<String>,
    pub sdk: Option<SdkVersion>,
}

impl ContextFile {
    pub fn read(path: &Path) -> Result<Self, ContextError> {
        let bytes = std::fs::read(path).map_err(|error| ContextError::Read(error.to_string()))?;
        let model = proto::Model::decode(bytes.as_slice()).map_err(|error| ContextError::Read(error.to_string()))?;
        let mut file = Self { contexts: Vec::new(), other_nodes: Vec::new(), compatibility: None };
        for node in model.graph.map(|graph| graph.node).unwrap_or_default() {
            if node.op_type == "EPContext" {
                file.contexts.push(Context::of(&node));
            } else {
                file.other_nodes.push(format!("{} ({})", node.name, node.op_type));
            }
        }
        let is_compatibility = |entry: &proto::Entry| entry.key.starts_with("ep_compatibility_info.");
        file.compatibility = model.metadata_props.into_iter().find(is_compatibility).map(|entry| entry.value);
        Ok(file)
    }
}

impl Context {
    fn of(node: &proto::Node) -> Self {
        let attribute = |name| node.attribute.iter().find(|attribute| attribute.name == name);
        let text = |name| attribute(name).map(|found| String::from_utf8_lossy(&found.s).into_owned());
        let embedded = attribute("embed_mode").is_some_and(|found| found.i == 1);
        Self {
            binary: text("ep_cache_context").filter(|_| !embedded),
            sdk: text("ep_sdk_version").as_deref().and_then(SdkVersion::parse),
        }
    }
}

/// Checks a compiled model. A model that is not compiled passes: the execution provider compiles it.
pub fn check(model: &Path, plugin: &QnnPlugin, _options: &NpuOptions) -> Result<(), ContextError> {
    let file = ContextFile::read(model)?;
    if file.contexts.is_empty() {
        return Ok(());
    }
    check_binaries(&file, model)?;
    let newest = file.contexts.iter().filter_map(|context| context.sdk).max();
    if let (Some(built), Some(installed)) = (newest, SdkVersion::of_backend(&plugin.backend))
        && built > installed
    {
        return Err(ContextError::NewerSdk { built, installed });
    }
    Ok(())
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
        Self::in_bytes(&std::fs::read(library).ok()?)
    }

    /// Of the first text like "v2.51.0.260929181845": three numbers, and the build's time in at least ten digits.
    fn in_bytes(bytes: &[u8]) -> Option<Self> {
        let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let mut from = 0;
        while let Some(at) = bytes[from..].windows(3).position(|start| start == b"v2.").map(|at| from + at) {
            from = at + 1;
            let text: Vec<u8> = bytes[from..].iter().take(40).take_while(|byte| is_part(byte)).copied().collect();
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

/// The few fields that are read of `onnx.proto`; protobuf passes over the others.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Model {
        #[prost(message, optional, tag = "7")]
        pub graph: Option<Graph>,
        #[prost(message, repeated, tag = "14")]
        pub metadata_props: Vec<Entry>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Graph {
        #[prost(message, repeated, tag = "1")]
        pub node: Vec<Node>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Node {
        #[prost(string, tag = "3")]
        pub name: String,
        #[prost(string, tag = "4")]
        pub op_type: String,
        #[prost(message, repeated, tag = "5")]
        pub attribute: Vec<Attribute>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Attribute {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(int64, tag = "3")]
        pub i: i64,
        #[prost(bytes = "vec", tag = "4")]
        pub s: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Entry {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }
}
