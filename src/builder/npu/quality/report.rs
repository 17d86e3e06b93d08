//! The quality report: what was compared where, as a table for people and as JSON for `ortalk_build.json`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{LIMITS, Limits, Quality};
use crate::builder::npu::CalibrationData;

/// Comparisons with the float model over texts that calibration has not seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub limits: Limits,
    /// The first one is what is built, and the limits are for it.
    pub columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// What the ranges of the activations were observed on.
    pub calibration: CalibrationData,
    pub engine: Engine,
    pub quality: Quality,
}

/// What ran the quantized model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// ONNX Runtime's CPU execution provider, on the quantized graphs before they are compiled.
    Cpu,
    /// QNN's HTP simulator, on the compiled context binaries.
    HtpSimulator,
    /// QNN's HTP backend on an NPU, on the compiled context binaries.
    Htp,
}

impl Report {
    pub fn new(columns: Vec<Column>) -> Self {
        Self { limits: LIMITS, columns }
    }

    /// Which limits the first column misses, with the numbers.
    pub fn missed(&self) -> Vec<String> {
        self.columns.first().map_or_else(Vec::new, |built| self.limits.missed(&built.quality))
    }
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::HtpSimulator => "HTP simulator",
            Self::Htp => "HTP",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Cpu => "the quantized graphs on ONNX Runtime's CPU execution provider",
            Self::HtpSimulator => "the compiled graphs on QNN's HTP simulator, for a part of the text",
            Self::Htp => "the compiled graphs on the NPU, for a part of the text",
        }
    }
}

type Row = (&'static str, fn(&Column) -> String);

const ROWS: [Row; 9] = [
    ("calibrated on", |column| match column.calibration {
        CalibrationData::Text => "text".into(),
        CalibrationData::Random => "random numbers".into(),
    }),
    ("run on", |column| column.engine.name().into()),
    ("positions", |column| column.quality.positions.to_string()),
    ("cosine of logits", |column| format!("{:.4}", column.quality.cosine)),
    ("  5th percentile", |column| format!("{:.4}", column.quality.cosine_percentile_5)),
    ("same top token, %", |column| format!("{:.1}", column.quality.agreement)),
    ("KL divergence, nats", |column| format!("{:.4}", column.quality.divergence)),
    ("perplexity", |column| format!("{:.2}", column.quality.perplexity)),
    ("  of the float model", |column| format!("{:.2}", column.quality.float_perplexity)),
];

/// Some lines without an end of the last: the table, what its engines are, and whether the limits are kept.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "quality beside the float model, on text that calibration has not seen")?;
        for (name, cell) in ROWS {
            write!(f, "  {name:<21}")?;
            self.columns.iter().try_for_each(|column| write!(f, "{:>16}", cell(column)))?;
            writeln!(f)?;
        }
        for engine in [Engine::Cpu, Engine::HtpSimulator, Engine::Htp] {
            if self.columns.iter().any(|column| column.engine == engine) {
                writeln!(f, "  {}: {}", engine.name(), engine.meaning())?;
            }
        }
        let Limits { cosine, divergence, agreement } = self.limits;
        let verdict = if self.missed().is_empty() { "kept" } else { "missed" };
        write!(
            f,
            "  limits: cosine at least {cosine}, same top token at least {agreement} %, KL at most {divergence}: {verdict}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cosine: f64) -> Report {
        let quality = Quality {
            positions: 1013,
            cosine,
            cosine_percentile_5: 0.996_951,
            agreement: 94.77,
            divergence: 0.003_912,
            perplexity: 17.1709,
            float_perplexity: 17.3041,
        };
        let part = Quality { positions: 67, agreement: 100.0, ..quality.clone() };
        let random = Quality { cosine: 0.7497, agreement: 68.28, divergence: 0.4548, ..quality.clone() };
        Report::new(vec![
            Column { calibration: CalibrationData::Text, engine: Engine::Cpu, quality },
            Column { calibration: CalibrationData::Text, engine: Engine::HtpSimulator, quality: part },
            Column { calibration: CalibrationData::Random, engine: Engine::Cpu, quality: random },
        ])
    }

    #[test]
    fn the_table() {
        insta::assert_snapshot!(report(0.99901));
    }

    #[test]
    fn a_missed_limit_shows() {
        let bad = report(0.9);
        assert!(bad.to_string().ends_with(": missed"));
        assert_eq!(bad.missed(), ["mean cosine of the logits is 0.9000; expected at least 0.998"]);
    }

    #[test]
    fn what_is_recorded() {
        let report = report(0.99901);
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(serde_json::from_value::<Report>(value.clone()).unwrap(), report);
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }
}
