//! Placement proof: on which execution provider ONNX Runtime put each node of a session's graph.
//!
//! The C functions (`Session_GetEpGraphAssignmentInfo` and its companions, ONNX Runtime 1.24) have no safe wrapper yet.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::ptr;

use ort::AsPointer;
use ort::session::Session;

use super::status::check;

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

/// `None` where ONNX Runtime has no record, as it is for a library older than 1.24.
pub fn placement(session: &Session) -> Option<Placement> {
    let api = ort::api();
    let mut counts: Vec<(String, usize)> = Vec::new();
    // SAFETY: the session is alive for the whole block and owns the subgraphs, nodes and names that the calls hand out;
    // each pointer is read only after its call reported success (a null status), and the count bounds the reads.
    unsafe {
        let (mut subgraphs, mut subgraph_count) = (ptr::null(), 0_usize);
        check((api.Session_GetEpGraphAssignmentInfo)(session.ptr(), &mut subgraphs, &mut subgraph_count)).ok()?;
        for index in 0..subgraph_count {
            let subgraph = *subgraphs.add(index);
            let mut name: *const c_char = ptr::null();
            check((api.EpAssignedSubgraph_GetEpName)(subgraph, &mut name)).ok()?;
            let (mut nodes, mut node_count) = (ptr::null(), 0_usize);
            check((api.EpAssignedSubgraph_GetNodes)(subgraph, &mut nodes, &mut node_count)).ok()?;
            let name = CStr::from_ptr(name).to_string_lossy();
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += node_count,
                None => counts.push((name.into_owned(), node_count)),
            }
        }
    }
    counts.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
    (!counts.is_empty()).then_some(Placement { nodes_by_provider: counts })
}
