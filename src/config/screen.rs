//! The table `[screen]`: how the chat uses the terminal. Its colour theme is named by `theme`, outside this table.

use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ScreenSettings {
    pub unicode: Unicode,
    pub colours: Colours,
    pub pace: Pace,
    pub panels: Panels,
    /// Whether the chat takes the mouse; the terminal's own selection then needs Shift.
    pub mouse: bool,
}

impl Default for ScreenSettings {
    fn default() -> Self {
        Self { unicode: Unicode::Auto, colours: Colours::Auto, pace: Pace::Auto, panels: Panels::Auto, mouse: true }
    }
}

/// Which signs ortalk itself draws with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unicode {
    /// Unicode where the locale has it.
    #[default]
    Auto,
    Always,
    Ascii,
}

/// How many colours the terminal shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Colours {
    /// What the environment says of the terminal.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "none")]
    None,
    #[serde(rename = "16")]
    Sixteen,
    #[serde(rename = "256")]
    Indexed,
    #[serde(rename = "full")]
    Full,
}

/// How much is sent to the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// `Low` over SSH, else `Full`.
    #[default]
    Auto,
    Full,
    /// Fewer frames, and scrolling in steps, for slow connections.
    Low,
}

/// The panels beside or above the conversation, as the chat opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Panels {
    /// Where there is room for them.
    #[default]
    Auto,
    Hidden,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_values_and_a_wrong_one_is_told_with_them() {
        let settings: ScreenSettings =
            toml::from_str("unicode = 'ascii'\ncolours = '256'\npace = 'low'\npanels = 'hidden'\nmouse = false")
                .unwrap();
        let expected = ScreenSettings {
            unicode: Unicode::Ascii,
            colours: Colours::Indexed,
            pace: Pace::Low,
            panels: Panels::Hidden,
            mouse: false,
        };
        assert_eq!(settings, expected);
        assert_eq!(toml::from_str::<ScreenSettings>("").unwrap(), ScreenSettings::default());
        for (text, words) in [
            ("colours = '8'", "expected one of `auto`, `none`, `16`, `256`, `full`"),
            ("pace = 'slow'", "expected one of `auto`, `full`, `low`"),
            ("panels = 'off'", "expected `auto` or `hidden`"),
            ("unicode = 'utf8'", "expected one of `auto`, `always`, `ascii`"),
            ("mice = true", "unknown field `mice`"),
        ] {
            let error = toml::from_str::<ScreenSettings>(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
