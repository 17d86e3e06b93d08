//! How the CPU lane would run a folder's graph, or what stands in the way: what its decoder finds out when it opens it.

use std::path::Path;

use serde::Serialize;

use crate::decoder::{Contract, GraphOutline};
use crate::model::GenaiConfig;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CpuLane {
    /// The graph that runs, below the folder.
    pub graph: Option<String>,
    /// The inputs that are fed, beside the cache.
    pub feeds: Vec<String>,
    /// Element type and kind.
    pub cache: Option<String>,
    /// What stands in the way.
    pub obstacle: Option<String>,
    /// What was chosen and what is left alone.
    pub notes: Vec<String>,
}

impl CpuLane {
    pub fn of(root: &Path, config: &GenaiConfig, notes: Vec<String>) -> Self {
        let lane = Self { graph: config.model.decoder.filename.clone(), notes, ..Self::default() };
        let Some(graph) = &lane.graph else {
            return Self { obstacle: Some("its decoder is in several graphs, made for an NPU".to_owned()), ..lane };
        };
        let contract = GraphOutline::read(&root.join(graph)).map_err(|error| error.to_string()).and_then(|outline| {
            Contract::of(&outline, &config.model).map_err(|what| format!("the graph '{graph}' {what}"))
        });
        match contract {
            Ok(contract) => Self {
                feeds: contract.fed().into_iter().map(str::to_owned).collect(),
                cache: contract.cache.first().map(|port| format!("{}, {}", port.element, contract.kind.name())),
                ..lane
            },
            Err(obstacle) => Self { obstacle: Some(obstacle), ..lane },
        }
    }
}
