//! What QNN's execution provider may be told, and what of it is right: it takes unknown options and wrong values without
//! a word.
//!
//! Names and values are those of the plug-in 2.7.0. Left out are the options that ortalk sets itself (which backend, and
//! where the graph's edges are quantized), and those for the profilers and debuggers of Qualcomm's SDK.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::npu_bundle::NpuTarget;

/// How graphs are compiled for an NPU and run there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpuOptions {
    /// What the graphs are, or were, compiled for; `soc_model` and `htp_arch` come from here where the provider's options
    /// do not say them.
    pub target: Option<NpuTarget>,
    #[serde(default)]
    pub provider: ProviderOptions,
}

/// Checked options of QNN's execution provider, by its own names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ProviderOptions(BTreeMap<String, String>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NpuOptionError {
    #[error("QNN has no option '{name}'{}; it has {}", did_you_mean(name), names())]
    Name { name: String },
    #[error("{name} is '{value}'; it must be {expected}")]
    Value { name: &'static str, value: String, expected: String },
    #[error(
        "{name} is '{value}', but the model is compiled for {} ({name} {wanted}); remove {name} from the settings, or build \
         the model for the other chip with `ortalk build --target npu --soc`", target.soc
    )]
    OtherTarget { name: &'static str, value: String, wanted: u32, target: NpuTarget },
    #[error(
        "it is not said which chip the model is for: {name} is missing; for a Snapdragon X Elite, soc_model is 60 and \
         htp_arch is 73"
    )]
    NoTarget { name: &'static str },
}

/// What an option's value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Words(&'static [&'static str]),
    Numbers(&'static [u32]),
    Between(u32, u32),
    /// 0 or 1 to QNN.
    Switch,
    Path,
}

const OPTIONS: &[(&str, Values)] = &[
    ("device_id", Values::Between(0, 15)),
    ("disable_file_mapped_weights", Values::Switch),
    ("enable_htp_fp16_clamp_overflow", Values::Switch),
    ("enable_htp_fp16_precision", Values::Switch),
    ("enable_htp_shared_memory_allocator", Values::Switch),
    ("enable_htp_spill_fill_buffer", Values::Switch),
    ("enable_vtcm_backup_buffer_sharing", Values::Switch),
    ("extended_udma", Values::Switch),
    (HTP_ARCH, Values::Numbers(&[68, 69, 73, 75, 79, 81])),
    ("htp_bf16_enable", Values::Switch),
    ("htp_graph_finalization_optimization_mode", Values::Between(0, 3)),
    (
        "htp_performance_mode",
        Values::Words(&[
            "balanced",
            "burst",
            "default",
            "extreme_power_saver",
            "high_performance",
            "high_power_saver",
            "low_balanced",
            "low_power_saver",
            "power_saver",
            "sustained_high_performance",
        ]),
    ),
    ("htp_share_resource_optimization", Values::Switch),
    ("num_graph_prepare_threads", Values::Between(1, 64)),
    // A file: which operators go to the NPU that QNN would leave to the CPU.
    ("op_affinity", Values::Path),
    ("profiling_file_path", Values::Path),
    ("profiling_level", Values::Words(&["basic", "detailed", "off", "optrace"])),
    ("qnn_context_priority", Values::Words(&["high", "low", "normal", "normal_high"])),
    // Microseconds.
    ("rpc_control_latency", Values::Between(0, 1_000_000)),
    (SOC_MODEL, Values::Between(1, 9999)),
    ("vtcm_mb", Values::Between(1, 64)),
];

const SOC_MODEL: &str = "soc_model";
const HTP_ARCH: &str = "htp_arch";

impl ProviderOptions {
    /// Adds an option, or replaces its value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), NpuOptionError> {
        let Some((name, values)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
            return Err(NpuOptionError::Name { name: name.to_owned() });
        };
        let value = values.accept(value).ok_or_else(|| NpuOptionError::Value {
            name,
            value: value.to_owned(),
            expected: values.to_string(),
        })?;
        self.0.insert((*name).to_owned(), value);
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl NpuOptions {
    /// What the execution provider is told: all options, the chip among them.
    ///
    /// The chip has to be said always: without it QNN compiles for one of its own choice, another on each platform.
    pub fn for_provider(&self) -> Result<Vec<(String, String)>, NpuOptionError> {
        let mut all = self.provider.0.clone();
        for (name, wanted) in [
            (SOC_MODEL, self.target.as_ref().map(|target| target.soc_model)),
            (HTP_ARCH, self.target.as_ref().map(|target| target.htp_arch)),
        ] {
            match (self.provider.get(name), wanted, &self.target) {
                (Some(value), Some(wanted), Some(target)) if value != wanted.to_string() => {
                    let (value, target) = (value.to_owned(), target.clone());
                    return Err(NpuOptionError::OtherTarget { name, value, wanted, target });
                }
                (None, Some(wanted), _) => {
                    all.insert(name.to_owned(), wanted.to_string());
                }
                (None, None, _) => return Err(NpuOptionError::NoTarget { name }),
                (Some(_), ..) => {}
            }
        }
        Ok(all.into_iter().collect())
    }
}

impl Values {
    /// The value as QNN wants it.
    fn accept(self, value: &str) -> Option<String> {
        let number = || value.parse::<u32>().ok().filter(|number| number.to_string() == value);
        let good = match self {
            Self::Words(words) => words.contains(&value),
            Self::Numbers(numbers) => number().is_some_and(|number| numbers.contains(&number)),
            Self::Between(least, most) => number().is_some_and(|number| (least..=most).contains(&number)),
            Self::Switch => match value {
                "true" | "1" => return Some("1".to_owned()),
                "false" | "0" => return Some("0".to_owned()),
                _ => false,
            },
            Self::Path => !value.is_empty() && !value.contains('\0'),
        };
        good.then(|| value.to_owned())
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => write!(f, "one of {}", words.join(", ")),
            Self::Numbers(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
                write!(f, "one of {}", numbers.join(", "))
            }
            Self::Between(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Switch => f.write_str("true or false"),
            Self::Path => f.write_str("the path of a file"),
        }
    }
}

fn names() -> String {
    OPTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The nearest name, where one is near enough to be a mistyped one or a part of it.
fn did_you_mean(name: &str) -> String {
    let distance = |known: &str| {
        if name.len() >= 4 && known.contains(name) { 1 } else { strsim::damerau_levenshtein(name, known) }
    };
    // Of several that contain it, the shortest.
    let nearest = OPTIONS.iter().map(|(known, _)| (distance(known), known.len(), *known)).min();
    match nearest {
        Some((distance, _, known)) if distance <= name.len() / 3 => format!(" (did you mean '{known}'?)"),
        _ => String::new(),
    }
}

/// Text, whole numbers, and true or false are all taken as values.
impl<'de> Deserialize<'de> for ProviderOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Value {
            Switch(bool),
            Number(i64),
            Text(String),
        }

        struct Options;

        impl<'de> Visitor<'de> for Options {
            type Value = ProviderOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("options of QNN's execution provider")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ProviderOptions, M::Error> {
                let mut options = ProviderOptions::default();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    let value = match value {
                        Value::Switch(value) => value.to_string(),
                        Value::Number(value) => value.to_string(),
                        Value::Text(value) => value,
                    };
                    options.set(&name, &value).map_err(M::Error::custom)?;
                }
                Ok(options)
            }
        }

        deserializer.deserialize_map(Options)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn refused(name: &str, value: &str) -> String {
        ProviderOptions::default().set(name, value).unwrap_err().to_string()
    }

    fn read(json: &str) -> Result<NpuOptions, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    fn x_elite() -> NpuTarget {
        NpuTarget { soc: "x-elite".into(), soc_model: 60, htp_arch: 73 }
    }

    #[test]
    fn right_values_are_taken_as_qnn_wants_them() {
        let options = read(
            r#"{ "target": null, "provider": { "htp_performance_mode": "burst", "vtcm_mb": 8, "soc_model": "60",
                 "enable_htp_fp16_precision": true, "extended_udma": 0 } }"#,
        );
        let options = options.unwrap().provider;
        let get = |name| options.get(name);
        assert_eq!(get("htp_performance_mode"), Some("burst"));
        assert_eq!((get("vtcm_mb"), get("soc_model")), (Some("8"), Some("60")));
        assert_eq!((get("enable_htp_fp16_precision"), get("extended_udma")), (Some("1"), Some("0")));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut options = NpuOptions { target: Some(x_elite()), ..NpuOptions::default() };
        options.provider.set("qnn_context_priority", "high").unwrap();
        assert_eq!(read(&serde_json::to_string(&options).unwrap()).unwrap(), options);
    }

    #[test]
    fn a_wrong_name_gets_the_nearest_one() {
        for (name, meant) in [
            ("htp_perfomance_mode", Some("htp_performance_mode")),
            ("vtcm", Some("vtcm_mb")),
            ("soc-model", Some("soc_model")),
            ("nonsense", None),
            ("backend_path", None),
            ("", None),
        ] {
            let error = refused(name, "1");
            assert!(error.starts_with(&format!("QNN has no option '{name}'")), "{error}");
            assert!(error.contains("it has device_id, ") && error.ends_with("vtcm_mb"), "{error}");
            match meant {
                Some(meant) => assert!(error.contains(&format!("did you mean '{meant}'?")), "{error}"),
                None => assert!(!error.contains("did you mean"), "{error}"),
            }
        }
    }

    #[test]
    fn a_wrong_value_gets_the_right_ones() {
        let error = refused("htp_performance_mode", "warp9");
        assert!(error.starts_with("htp_performance_mode is 'warp9'; it must be one of balanced, burst, "), "{error}");
        assert_eq!(refused("htp_arch", "74"), "htp_arch is '74'; it must be one of 68, 69, 73, 75, 79, 81");
        let mode = refused("htp_graph_finalization_optimization_mode", "4");
        assert!(mode.ends_with("it must be a whole number from 0 to 3"), "{mode}");
        for value in ["-1", "+8", "08", "8.0", "", "9999999999"] {
            assert!(refused("vtcm_mb", value).contains(&format!("'{value}'")));
        }
        assert!(refused("extended_udma", "yes").ends_with("true or false"));
        assert!(refused("op_affinity", "").ends_with("the path of a file"));
    }

    #[test]
    fn the_chip_is_always_said_and_never_contradicted() {
        let told = |options: &NpuOptions| -> Vec<String> {
            options.for_provider().unwrap().iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        let mut options = NpuOptions { target: Some(x_elite()), ..NpuOptions::default() };
        assert_eq!(told(&options), ["htp_arch=73", "soc_model=60"]);
        options.provider.set("soc_model", "60").unwrap();
        assert_eq!(told(&options), ["htp_arch=73", "soc_model=60"]);
        options.provider.set("soc_model", "88").unwrap();
        let error = options.for_provider().unwrap_err().to_string();
        assert!(
            error.starts_with("soc_model is '88', but the model is compiled for x-elite (soc_model 60)"),
            "{error}"
        );
        options.target = None;
        let error = options.for_provider().unwrap_err().to_string();
        assert!(error.contains("htp_arch"), "{error}");
    }
}
