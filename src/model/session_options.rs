//! `session_options` of a `genai_config.json`: how its maker wants the graph's session to be made, as far as that concerns
//! the CPU. The keys are onnxruntime-genai's (`src/config.h`); every other one with a text is a configuration entry.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct SessionOptions {
    pub graph_optimization: Option<GraphOptimization>,
    pub memory_pattern: Option<bool>,
    /// Keys and values for ONNX Runtime's configuration.
    pub entries: Vec<(String, String)>,
    /// What is not done, and why, for people.
    pub ignored: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphOptimization {
    None,
    Basic,
    Extended,
    All,
}

impl From<Map<String, Value>> for SessionOptions {
    fn from(written: Map<String, Value>) -> Self {
        let mut options = Self::default();
        for (key, value) in written {
            options.take(&key, &value);
        }
        options
    }
}

impl SessionOptions {
    fn take(&mut self, key: &str, value: &Value) {
        let mut ignore = |why: &str| self.ignored.push(format!("session_options.{key} is left alone: {why}"));
        match (key, value) {
            // Ours is to say how much is logged and measured.
            ("log_id" | "log_severity_level" | "enable_profiling", _) => {}
            ("intra_op_num_threads" | "inter_op_num_threads", _) => ignore("--threads says how many there are"),
            ("graph_optimization_level", Value::String(level)) => match level.as_str() {
                "ORT_DISABLE_ALL" => self.graph_optimization = Some(GraphOptimization::None),
                "ORT_ENABLE_BASIC" => self.graph_optimization = Some(GraphOptimization::Basic),
                "ORT_ENABLE_EXTENDED" => self.graph_optimization = Some(GraphOptimization::Extended),
                "ORT_ENABLE_LAYOUT" | "ORT_ENABLE_ALL" => self.graph_optimization = Some(GraphOptimization::All),
                other => ignore(&format!("'{other}' is no level")),
            },
            ("enable_mem_pattern", Value::Bool(enable)) => self.memory_pattern = Some(*enable),
            ("provider_options", Value::Array(providers)) => {
                let names = providers.iter().filter_map(Value::as_object).flat_map(Map::keys);
                let names: Vec<&str> =
                    names.map(String::as_str).filter(|name| !name.eq_ignore_ascii_case("cpu")).collect();
                if !names.is_empty() {
                    ignore(&format!("{} is not the CPU", names.join(", ")));
                }
            }
            ("custom_ops_library", _) => ignore("no program code is loaded from a model folder"),
            (_, Value::String(_)) if key.starts_with("ep.") => ignore("it is for another execution provider"),
            (_, Value::String(value)) => self.entries.push((key.to_owned(), value.clone())),
            _ => ignore("it is not known here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_concerns_the_cpu_is_taken_and_the_rest_is_said() {
        let written = r#"{"log_id": "onnxruntime-genai", "intra_op_num_threads": 4, "enable_mem_pattern": false,
            "graph_optimization_level": "ORT_ENABLE_EXTENDED", "session.set_denormal_as_zero": "1",
            "ep.cuda.fpa_intb_gemm": "1", "custom_ops_library": "x.so", "provider_options": [{"cuda": {"a": "1"}}, {"cpu": {}}],
            "enable_cpu_mem_arena": true}"#;
        let found: SessionOptions = serde_json::from_str(written).unwrap();
        assert_eq!(found.graph_optimization, Some(GraphOptimization::Extended));
        assert_eq!(found.memory_pattern, Some(false));
        assert_eq!(found.entries, [("session.set_denormal_as_zero".to_owned(), "1".to_owned())]);
        let ignored = found.ignored.join("\n");
        for expected in ["--threads", "ep.cuda", "no program code", "cuda is not the CPU", "enable_cpu_mem_arena"] {
            assert!(ignored.contains(expected), "{expected}: {ignored}");
        }
        assert_eq!(found.ignored.len(), 5, "{ignored}");
    }

    #[test]
    fn a_level_that_is_none_is_said() {
        let found: SessionOptions = serde_json::from_str(r#"{"graph_optimization_level": "MOST"}"#).unwrap();
        assert_eq!(found.graph_optimization, None);
        assert!(found.ignored[0].contains("'MOST' is no level"));
    }
}
