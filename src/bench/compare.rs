//! A report beside an older one.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::report::{Kind, LaneReport, Report, SCHEMA_VERSION};
use crate::telemetry::statistics::{Change, Summary};

/// What is read of an older report's JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct OldReport {
    path: PathBuf,
    content: OldContent,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldContent {
    model: String,
    conditions: OldConditions,
    lanes: Vec<OldLane>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldConditions {
    machine: OldMachine,
    versions: OldVersions,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldMachine {
    processor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldVersions {
    ortalk: String,
    onnx_runtime: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldLane {
    lane: String,
    emulated: bool,
    threads: Option<usize>,
    /// Reports of earlier versions do not say.
    spinning: Option<bool>,
    files: Vec<OldFile>,
    cases: Vec<OldCase>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldFile {
    sha256: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct OldCase {
    kind: Kind,
    prompt_tokens: usize,
    generated_tokens: usize,
    request_ttft_duration_ms: Summary,
    prefill_tokens_per_second: Summary,
    steady_state_decode_tokens_per_second: Option<Summary>,
}

#[derive(Debug, thiserror::Error)]
pub enum OldReportError {
    #[error("'{}' cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("'{}' is no report of `ortalk bench --json`: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
}

impl OldReport {
    pub fn read(path: &Path) -> Result<Self, OldReportError> {
        let invalid = |reason: String| OldReportError::Invalid { path: path.into(), reason };
        let text = std::fs::read(path).map_err(|error| OldReportError::Read { path: path.into(), error })?;
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        match value.get("schema_version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(SCHEMA_VERSION) => {}
            Some(version) => return Err(invalid(format!("its schema_version is {version}, not {SCHEMA_VERSION}"))),
            None => return Err(invalid("it has no schema_version".into())),
        }
        let content = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { path: path.into(), content })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub old: PathBuf,
    /// What else changed, for people.
    pub differing_conditions: Vec<String>,
    /// Of what both reports have.
    pub differences: Vec<Difference>,
}

/// A mean that both reports have. The values of one report are taken as independent: one for each request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    pub lane: String,
    pub emulated: bool,
    pub kind: Kind,
    pub prompt_tokens: usize,
    /// As in a case.
    pub number: &'static str,
    pub old: f64,
    pub new: f64,
    #[serde(flatten)]
    pub change: Change,
}

impl Comparison {
    pub fn between(old: &OldReport, new: &Report) -> Self {
        let content = &old.content;
        let pairs: Vec<(&OldLane, &LaneReport)> = new
            .lanes
            .iter()
            .filter_map(|lane| {
                let same = |old: &&OldLane| (old.lane.as_str(), old.emulated) == (lane.lane.as_str(), lane.emulated);
                Some((content.lanes.iter().find(same)?, lane))
            })
            .collect();
        let differences = pairs.iter().flat_map(|(old, new)| differences(old, new)).collect();
        Self { old: old.path.clone(), differing_conditions: differing(content, new, &pairs), differences }
    }
}

fn differences(old: &OldLane, new: &LaneReport) -> Vec<Difference> {
    let of_case = |case: &super::Case| -> Vec<Difference> {
        let same = |old: &&OldCase| {
            (old.kind, old.prompt_tokens, old.generated_tokens)
                == (case.kind, case.prompt_tokens, case.generated_tokens)
        };
        let Some(before) = old.cases.iter().find(same) else { return Vec::new() };
        let numbers = [
            ("request_ttft_duration_ms", Some(&before.request_ttft_duration_ms)),
            ("prefill_tokens_per_second", Some(&before.prefill_tokens_per_second)),
            ("steady_state_decode_tokens_per_second", before.steady_state_decode_tokens_per_second.as_ref()),
        ];
        let difference = |(number, before): (&'static str, Option<&Summary>)| {
            let (before, after) = (before?, case.numbers().into_iter().find(|(name, _)| *name == number)?.1?);
            Some(Difference {
                lane: new.lane.clone(),
                emulated: new.emulated,
                kind: case.kind,
                prompt_tokens: case.prompt_tokens,
                number,
                old: before.mean,
                new: after.mean,
                change: Change::between(before, after)?,
            })
        };
        numbers.into_iter().filter_map(difference).collect()
    };
    new.cases.iter().flat_map(of_case).collect()
}

fn differing(old: &OldContent, new: &Report, lanes: &[(&OldLane, &LaneReport)]) -> Vec<String> {
    let (mut differing, mut others) = (Vec::new(), Vec::new());
    let mut compare = |what: &str, old: Option<&str>, new: Option<&str>| {
        if old != new {
            differing.push(format!("{what}: {} before, {} now", old.unwrap_or("unknown"), new.unwrap_or("unknown")));
        }
    };
    let (conditions, versions) = (&new.conditions, &new.conditions.versions);
    compare("model", Some(&old.model), Some(&new.model));
    compare("processor", old.conditions.machine.processor.as_deref(), conditions.machine.processor.as_deref());
    compare("ortalk", Some(&old.conditions.versions.ortalk), Some(versions.ortalk));
    compare("ONNX Runtime", old.conditions.versions.onnx_runtime.as_deref(), versions.onnx_runtime.as_deref());
    for (old, new) in lanes {
        let threads = |threads: Option<usize>| threads.map(|threads| threads.to_string());
        compare(
            &format!("threads of the {} lane", new.lane),
            threads(old.threads).as_deref(),
            threads(new.threads).as_deref(),
        );
        if let (Some(before), Some(now)) = (old.spinning, new.spinning)
            && before != now
        {
            let said = |spinning: bool| if spinning { "spinning" } else { "not spinning" };
            let (before, now) = (said(before), said(now));
            others.push(format!("threads of the {} lane: {before} before, {now} now", new.lane));
        }
        if !old.files.iter().map(|file| &file.sha256).eq(new.files.iter().map(|file| &file.sha256)) {
            others.push(format!("the {} lane runs other files than before", new.lane));
        }
    }
    differing.extend(others);
    differing
}
