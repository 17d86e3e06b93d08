//! Placement proof: on which execution provider ONNX Runtime put each node of a session's graph.

use ort::session::Session;

use super::c_api;

/// The session must have been made with this configuration entry set to "1".
pub(super) const RECORD_KEY: &str = "session.record_ep_graph_assignment_info";

/// How many nodes run on which execution provider, most nodes first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    let mut counts: Vec<(String, usize)> = Vec::new();
    for (provider, nodes) in c_api::assigned_subgraphs(session).ok()? {
        match counts.iter_mut().find(|(known, _)| *known == provider) {
            Some((_, count)) => *count += nodes,
            None => counts.push((provider, nodes)),
        }
    }
    counts.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
    (!counts.is_empty()).then_some(Placement { nodes_by_provider: counts })
}
