//! What `ortalk sys` finds. As JSON (`--json`) it is this, in snake case; `schema` grows when a field changes its meaning.

use std::path::PathBuf;

use serde::Serialize;

use super::sensors::Sensor;
use crate::engine::{CpuSetting, TokenPrice};
use crate::onnx_runtime::DeviceKind;
use crate::telemetry::machine::Machine;

/// The version of this description.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SystemReport {
    pub schema: u32,
    /// ortalk's version.
    pub ortalk: String,
    pub machine: Machine,
    /// In the order NPU, GPU, CPU; each kind at least once.
    pub devices: Vec<Device>,
    /// Native libraries, ONNX Runtime first.
    pub libraries: Vec<Library>,
    pub sensors: Vec<Sensor>,
    /// How the CPU lane runs models that `ortalk bench --tune` has tuned.
    pub tuned: Vec<TunedModel>,
    /// The server that the settings name, which is not spoken to.
    pub server: Option<Server>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    pub url: String,
    /// `None` is the first one that the server has.
    pub model: Option<String>,
    /// What is sent cannot be read on its way, or does not leave this machine.
    pub private: bool,
    /// `never`, `ask` or `allow`.
    pub privacy: &'static str,
    /// `outgrown`, `first` or `named`.
    pub when: &'static str,
    /// Of a million tokens.
    pub price_per_million: Option<TokenPrice>,
    pub currency: Option<String>,
    /// Why there is no lane for it.
    pub missing: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TunedModel {
    pub folder: PathBuf,
    pub setting: CpuSetting,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Device {
    pub kind: DeviceKind,
    pub state: State,
    pub name: Option<String>,
    /// The execution providers that offer it.
    pub execution_providers: Vec<Provider>,
    /// Device nodes and files of the driver.
    pub drivers: Vec<PathBuf>,
    pub missing: Vec<Missing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// An execution provider offers the real device.
    Hardware,
    /// An execution provider simulates it: right, but slow.
    Emulated,
    /// No execution provider offers it.
    Unavailable,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provider {
    pub name: String,
    pub version: Option<String>,
    /// The version of Qualcomm's SDK that QNN was made with.
    pub qnn_sdk: Option<String>,
    /// The library of a plug-in.
    pub library: Option<PathBuf>,
}

/// Something that is not there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missing {
    pub reason: String,
    /// What to do about it; `None` where nothing helps.
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Library {
    pub name: String,
    pub version: Option<String>,
    /// How it was found; `None` where it was not.
    pub origin: Option<String>,
    pub path: Option<PathBuf>,
    pub missing: Option<Missing>,
}
