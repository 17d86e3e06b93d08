//! Settings: what a person wrote into `config.toml`, checked, with defaults for the rest.

mod editing;
mod keys;
mod remote;
mod screen;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use crate::model::ProviderOptions;

pub use editing::Editing;
pub use keys::{Chords, KeySetting, KeySettings};
pub use remote::{Privacy, RemotePlace, RemoteSettings};
pub use screen::{Colours, Pace, Panels, ScreenSettings, Unicode};

/// The settings file. Every key may be left out; an unknown key is an error, so that a typing mistake is noticed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// The model to chat with in place of the default one: a path or a name, as `--model` takes it.
    pub model: Option<PathBuf>,
    /// The ONNX Runtime library to load, in place of the one that ortalk fetches.
    pub onnx_runtime: Option<PathBuf>,
    /// Threads for the CPU lane; by default one for each physical core.
    pub threads: Option<NonZeroUsize>,
    /// The longest conversation, in tokens; by default the model's, within memory.
    pub context: Option<NonZeroUsize>,
    /// The system prompt of a new conversation.
    pub system: Option<String>,
    /// The longest answer, in tokens.
    pub max_tokens: Option<NonZeroUsize>,
    /// Whether the model thinks before it answers, where it can do both.
    pub think: Option<bool>,
    pub temperature: Option<f32>,
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    /// How a lane is chosen where none is asked for, as `--policy` names it.
    pub policy: Option<String>,
    /// What is said in the chat is written down; it is, unless this is `false`.
    pub save: Option<bool>,
    /// The name of a colour theme.
    pub theme: Option<String>,
    /// Whose keys edit what is typed: "emacs" or "vim".
    pub editing: Editing,
    /// Whether messages sent are kept for the chat's history in later sessions; by default they are.
    pub history: Option<bool>,
    pub keys: KeySettings,
    pub screen: ScreenSettings,
    pub npu: NpuSettings,
    pub remote: RemoteSettings,
    pub cost: CostSettings,
    /// Further libraries of execution providers.
    pub plugins: Vec<PluginSettings>,
}

/// The table `[npu]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NpuSettings {
    /// A folder built for the NPU of the model that is chatted with.
    pub model: Option<PathBuf>,
    /// ONNX Runtime's QNN plug-in, in place of the one that ortalk fetches.
    pub plugin: Option<PathBuf>,
    /// The backend library, in place of the one beside the plug-in.
    pub backend: Option<PathBuf>,
    /// All other keys, by QNN's own names: `htp_performance_mode = "burst"`.
    #[serde(flatten)]
    pub options: ProviderOptions,
}

/// The table `[cost]`: prices, by which answers are reckoned. All of them are in one currency.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CostSettings {
    /// As it is to be shown: "EUR".
    pub currency: Option<String>,
    /// Of a kilowatt-hour.
    #[serde(deserialize_with = "price")]
    pub electricity_per_kwh: Option<f64>,
    /// Of a service that answers are compared with, per million tokens.
    pub cloud_per_million: Option<TokenPriceSettings>,
}

/// Prices of tokens, of which none may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenPriceSettings {
    #[serde(deserialize_with = "amount")]
    pub input: f64,
    #[serde(deserialize_with = "amount")]
    pub output: f64,
}

fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    amount(deserializer).map(Some)
}

fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let amount = f64::deserialize(deserializer)?;
    match amount.is_finite() && amount >= 0.0 {
        true => Ok(amount),
        false => Err(serde::de::Error::custom(format!("a price is {amount}; it must be 0 or more"))),
    }
}

/// One `[[plugins]]` table. `ortalk sys` lists what such a library offers; no lane runs on it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSettings {
    /// The execution provider's name, as it is to appear.
    pub name: String,
    pub library: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("the settings file '{}' cannot be read: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("the settings file '{}' is not right:\n{error}", path.display())]
    Parse { path: PathBuf, error: Box<toml::de::Error> },
}

impl Settings {
    /// A file that is not there gives the defaults.
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(SettingsError::Read { path: path.into(), error }),
        };
        toml::from_str(&text).map_err(|error| SettingsError::Parse { path: path.into(), error: Box::new(error) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        Settings::load(&path)
    }

    /// The TOML in the page about the settings.
    fn documented() -> toml::Table {
        let page = include_str!("../docs/settings.md");
        let (_, rest) = page.split_once("```toml\n").unwrap();
        rest.split_once("```").unwrap().0.parse().unwrap()
    }

    #[test]
    fn the_page_about_the_settings_has_every_key() {
        let documented = documented();
        toml::from_str::<Settings>(&documented.to_string()).unwrap();
        // Each table says by its error which keys it knows.
        for table in ["", "screen", "remote", "cost", "plugins"] {
            let (line, own) = match table {
                "" => ("no-such-key = 1".to_owned(), &documented),
                "plugins" => ("[[plugins]]\nno-such-key = 1".to_owned(), documented["plugins"][0].as_table().unwrap()),
                table => (format!("[{table}]\nno-such-key = 1"), documented[table].as_table().unwrap()),
            };
            let error = toml::from_str::<Settings>(&line).unwrap_err().to_string();
            let (_, known) = error.split_once("expected").unwrap();
            let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
            assert!(known.len() > 1, "{error}");
            for key in known {
                assert!(own.contains_key(key), "the page lacks '{key}' of [{table}]");
            }
        }
        let npu = documented["npu"].as_table().unwrap();
        assert!(["model", "plugin", "backend"].iter().all(|key| npu.contains_key(*key)));
    }

    #[test]
    fn no_file_means_defaults() {
        assert_eq!(Settings::load(Path::new("/no/such/file.toml")).unwrap(), Settings::default());
    }

    #[test]
    fn known_keys_are_read() {
        let settings = parse("threads = 3\nmax-tokens = 64\nthink = false\ntheme = 'mono'").unwrap();
        assert_eq!(
            (settings.threads, settings.max_tokens, settings.think, settings.theme.as_deref()),
            (NonZeroUsize::new(3), NonZeroUsize::new(64), Some(false), Some("mono"))
        );
    }

    #[test]
    fn editing_is_emacs_or_vim() {
        assert_eq!(parse("").unwrap().editing, Editing::Emacs);
        let settings = parse("editing = 'vim'\nhistory = false").unwrap();
        assert_eq!((settings.editing, settings.history), (Editing::Vim, Some(false)));
        let error = parse("editing = 'vi'").unwrap_err().to_string();
        assert!(error.contains("unknown variant `vi`, expected `emacs` or `vim`"), "{error}");
    }

    #[test]
    fn the_npu_s_options_are_checked_and_a_plug_in_can_be_named() {
        let settings = parse(
            "[npu]\nplugin = '/p.so'\nhtp_performance_mode = 'burst'\nvtcm_mb = 8\nenable_htp_fp16_precision = true\n\
             [[plugins]]\nname = 'OtherExecutionProvider'\nlibrary = '/o.so'",
        )
        .unwrap();
        let NpuSettings { model: _, plugin, backend, options } = &settings.npu;
        assert_eq!((plugin.as_deref(), backend), (Some(Path::new("/p.so")), &None));
        let get = |name| options.get(name);
        assert_eq!((get("htp_performance_mode"), get("vtcm_mb")), (Some("burst"), Some("8")));
        assert_eq!(get("enable_htp_fp16_precision"), Some("1"));
        let expected = PluginSettings { name: "OtherExecutionProvider".into(), library: "/o.so".into() };
        assert_eq!(settings.plugins, [expected]);
        for (text, words) in [
            ("[npu]\nhtp_perfomance_mode = 'burst'", "did you mean 'htp_performance_mode'"),
            ("[npu]\nhtp_performance_mode = 'warp9'", "one of balanced, burst"),
            ("[[plugins]]\nname = 'x'", "library"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("config.toml"), "{error}");
        }
    }

    #[test]
    fn prices_are_numbers_and_none_of_a_pair_is_missing() {
        let settings = parse(
            "[cost]\ncurrency = 'EUR'\nelectricity-per-kwh = 0.32\ncloud-per-million = { input = 1, output = 2.5 }",
        );
        let expected = CostSettings {
            currency: Some("EUR".into()),
            electricity_per_kwh: Some(0.32),
            cloud_per_million: Some(TokenPriceSettings { input: 1.0, output: 2.5 }),
        };
        assert_eq!(settings.unwrap().cost, expected);
        assert_eq!(parse("[cost]").unwrap().cost, CostSettings::default());
        for (line, words) in [
            ("electricity-per-kwh = -0.1", "a price is -0.1; it must be 0 or more"),
            ("electricity-per-kwh = nan", "a price is NaN"),
            ("cloud-per-million = { input = 1 }", "missing field `output`"),
            ("cloud-per-million = { input = 1, output = inf }", "a price is inf"),
            ("electricity = 0.3", "electricity"),
        ] {
            let error = parse(&format!("[cost]\n{line}")).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("config.toml"), "{error}");
        }
    }

    #[test]
    fn no_threads_and_no_tokens_are_refused_as_on_the_command_line() {
        for key in ["threads", "max-tokens", "context"] {
            let error = parse(&format!("{key} = 0")).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("nonzero"), "{error}");
        }
    }

    #[test]
    fn a_fault_is_told_once() {
        let error = anyhow::Error::from(parse("thraeds = 3").unwrap_err());
        assert_eq!(format!("{error:#}").matches("thraeds = 3").count(), 1, "{error:#}");
        let folder = tempfile::tempdir().unwrap();
        let error = anyhow::Error::from(Settings::load(folder.path()).unwrap_err());
        assert_eq!(format!("{error:#}").matches("os error").count(), 1, "{error:#}");
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = parse("thraeds = 3").unwrap_err().to_string();
        assert!(error.contains("thraeds") && error.contains("config.toml"), "{error}");
    }
}
