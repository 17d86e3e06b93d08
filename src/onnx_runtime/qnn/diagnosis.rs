//! Why a model is not on the NPU as a whole: only a verbose log says it, so a session is made once more, with one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ort::logging::{LogLevel, LoggerFunction};
use ort::session::Session;

use super::QNN_PROVIDER;
use crate::model::NpuOptions;
use crate::onnx_runtime::{OnnxRuntime, RuntimeError, c_api};
use crate::provision::QnnPlugin;

/// The others say the same of other nodes.
const MOST_REASONS: usize = 10;

impl OnnxRuntime {
    /// The error for a model that no session could be made of, or none with all nodes on QNN. `said` is what the first
    /// attempt ended with.
    pub(super) fn diagnose(&self, model: &Path, plugin: &QnnPlugin, options: &NpuOptions, said: &str) -> RuntimeError {
        let notes = Arc::new(Notes::default());
        let session = self.verbose_session(model, plugin, options, notes.logger());
        let nodes = session.as_ref().ok().and_then(|session| c_api::assigned_nodes(session).ok()).unwrap_or_default();
        drop(session);
        let total = nodes.len();
        let elsewhere: Vec<_> = nodes.into_iter().filter(|node| node.provider != QNN_PROVIDER).collect();
        let reasons = notes.reasons();
        if elsewhere.is_empty() {
            let more = reasons.into_iter().filter(|reason| !said.contains(reason.as_str()));
            let reason = std::iter::once(said.to_owned()).chain(more).collect::<Vec<_>>().join("\n  ");
            return RuntimeError::Session { model: model.into(), reason };
        }
        RuntimeError::NotOnNpu { model: model.into(), elsewhere, total, reasons }
    }

    /// With the CPU allowed, so that the session says where its nodes would go.
    fn verbose_session(
        &self,
        model: &Path,
        plugin: &QnnPlugin,
        options: &NpuOptions,
        logger: LoggerFunction,
    ) -> Result<Session, String> {
        self.qnn_builder(model, plugin, options)
            .map_err(|e| e.to_string())?
            .with_log_level(LogLevel::Verbose)
            .map_err(|e| e.to_string())?
            .with_logger(logger)
            .map_err(|e| e.to_string())?
            .commit_from_file(model)
            .map_err(|e| e.to_string())
    }
}

/// The telling lines of a verbose log.
#[derive(Debug, Default)]
struct Notes {
    refusals: Mutex<BTreeSet<String>>,
    errors: Mutex<BTreeSet<String>>,
}

impl Notes {
    fn logger(self: &Arc<Self>) -> LoggerFunction {
        let notes = self.clone();
        Arc::new(move |level: LogLevel, _category: &str, _id: &str, _location: &str, message: &str| {
            let add = |list: &Mutex<BTreeSet<String>>, line: &str| {
                list.lock().unwrap_or_else(PoisonError::into_inner).insert(line.trim().to_owned());
            };
            match level {
                LogLevel::Error | LogLevel::Fatal => add(&notes.errors, message),
                _ => refusals(message).for_each(|line| add(&notes.refusals, line)),
            }
        })
    }

    /// Refusals come before errors, which they cause.
    fn reasons(&self) -> Vec<String> {
        let [refusals, errors] =
            [&self.refusals, &self.errors].map(|list| list.lock().unwrap_or_else(PoisonError::into_inner).clone());
        refusals.into_iter().chain(errors).take(MOST_REASONS).collect()
    }
}

/// A message about nodes that QNN does not take has a line for each: "REASON : ...".
fn refusals(message: &str) -> impl Iterator<Item = &str> {
    message.lines().filter_map(|line| line.split_once("REASON :").map(|(_, reason)| reason.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_picked_from_a_message() {
        let message = "Validation FAILED for 1 nodes in OrtNodeUnit (Hardmax) :\n\tOperator type: Hardmax Node name: y\n\t\
                       REASON : Operators of type `Hardmax` are not supported.\n\nREASON : b\n";
        let found: Vec<_> = refusals(message).collect();
        assert_eq!(found, ["Operators of type `Hardmax` are not supported.", "b"]);
        assert_eq!(refusals("Validation PASSED").count(), 0);
    }

    #[test]
    fn refusals_come_before_errors_and_once() {
        let notes = Arc::new(Notes::default());
        let log = notes.logger();
        log(LogLevel::Error, "", "", "", "it failed");
        for _ in 0..2 {
            log(LogLevel::Verbose, "", "", "", "\tREASON : no such operator");
        }
        log(LogLevel::Verbose, "", "", "", "all is well");
        assert_eq!(notes.reasons(), ["no such operator", "it failed"]);
    }
}
