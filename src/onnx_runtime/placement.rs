//! Placement proof: on which execution provider ONNX Runtime put each node of a session's graph.

use ort::session::Session;
use serde::{Deserialize, Serialize};

use super::c_api;
pub use super::c_api::AssignedNode;

/// The session must have been made with this configuration entry set to "1".
pub(super) const RECORD_KEY: &str = "session.record_ep_graph_assignment_info";

/// How many nodes run on which execution provider, most nodes first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Placement {
    pub nodes_by_provider: Vec<(String, usize)>,
}

impl Placement {
    pub fn total(&self) -> usize {
        self.nodes_by_provider.iter().map(|(_, nodes)| nodes).sum()
    }

    pub fn nodes_on(&self, provider: &str) -> usize {
        self.nodes_by_provider.iter().filter(|(name, _)| name == provider).map(|(_, nodes)| nodes).sum()
    }
}

/// `None` where ONNX Runtime has no record.
pub fn placement(session: &Session) -> Option<Placement> {
    Placement::of(&c_api::assigned_nodes(session).ok()?)
}

impl Placement {
    /// `None` where there are no nodes.
    pub(super) fn of(nodes: &[AssignedNode]) -> Option<Self> {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for node in nodes {
            match counts.iter_mut().find(|(known, _)| *known == node.provider) {
                Some((_, count)) => *count += 1,
                None => counts.push((node.provider.clone(), 1)),
            }
        }
        counts.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
        (!counts.is_empty()).then_some(Self { nodes_by_provider: counts })
    }
}

/// Whether there are nodes, and all of them on this execution provider.
pub(super) fn all_on(provider: &str, nodes: &[AssignedNode]) -> bool {
    !nodes.is_empty() && nodes.iter().all(|node| node.provider == provider)
}
