//! Colour themes: TOML files compiled in, each giving a style to every role on the screen.
//!
//! A role says what something means, never how it looks. Colour alone never carries a meaning: a sign or a word beside
//! it says the same, so that `mono` loses nothing.

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// The conversation's text.
    pub text: Style,
    /// Labels and hints that can be overlooked.
    pub dim: Style,
    /// Measured numbers.
    pub number: Style,
    /// Names: the program's, the model's, headings.
    pub strong: Style,
    /// The one colour of ortalk's own chrome.
    pub accent: Style,
    /// The reader's own messages.
    pub user: Style,
    /// The lane that runs.
    pub lane: Style,
    pub good: Style,
    pub warning: Style,
    pub stall: Style,
    pub error: Style,
    pub border: Style,
    /// Bars and charts.
    pub chart: Style,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    #[error("there is no theme '{name}'; there are {}", names().collect::<Vec<_>>().join(", "))]
    Unknown { name: String },
    #[error("the theme '{name}' is not right: {message}")]
    Parse { name: String, message: String },
}

const FILES: [(&str, &str); 3] = [
    ("default", include_str!("../../themes/default.toml")),
    ("mono", include_str!("../../themes/mono.toml")),
    ("high-contrast", include_str!("../../themes/high-contrast.toml")),
];

fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

impl Theme {
    pub fn named(name: &str) -> Result<Self, ThemeError> {
        let (_, text) = FILES
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| ThemeError::Unknown { name: name.to_string() })?;
        let file: File = toml::from_str(text)
            .map_err(|error| ThemeError::Parse { name: name.to_string(), message: error.to_string() })?;
        let style = |role: &Role| {
            role.style().map_err(|color| ThemeError::Parse {
                name: name.to_string(),
                message: format!("'{color}' is not a colour"),
            })
        };
        Ok(Self {
            text: style(&file.text)?,
            dim: style(&file.dim)?,
            number: style(&file.number)?,
            strong: style(&file.strong)?,
            accent: style(&file.accent)?,
            user: style(&file.user)?,
            lane: style(&file.lane)?,
            good: style(&file.good)?,
            warning: style(&file.warning)?,
            stall: style(&file.stall)?,
            error: style(&file.error)?,
            border: style(&file.border)?,
            chart: style(&file.chart)?,
        })
    }

    /// The theme that was asked for; without one, `default`, or `mono` where `NO_COLOR` is set or colours are missing.
    pub fn choose(name: Option<&str>) -> Result<Self, ThemeError> {
        match name {
            Some(name) => Self::named(name),
            None if no_color() => Self::named("mono"),
            None => Self::named("default"),
        }
    }
}

/// <https://no-color.org>: present and not empty.
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb")
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    text: Role,
    dim: Role,
    number: Role,
    strong: Role,
    accent: Role,
    user: Role,
    lane: Role,
    good: Role,
    warning: Role,
    stall: Role,
    error: Role,
    border: Role,
    chart: Role,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Role {
    fg: Option<String>,
    bg: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    reverse: bool,
}

impl Role {
    /// Fails with the text that is no colour.
    fn style(&self) -> Result<Style, String> {
        let color = |name: &String| name.parse::<Color>().map_err(|_| name.clone());
        let mut style = Style::new();
        if let Some(name) = &self.fg {
            style = style.fg(color(name)?);
        }
        if let Some(name) = &self.bg {
            style = style.bg(color(name)?);
        }
        let modifiers = [
            (self.bold, Modifier::BOLD),
            (self.dim, Modifier::DIM),
            (self.italic, Modifier::ITALIC),
            (self.underline, Modifier::UNDERLINED),
            (self.reverse, Modifier::REVERSED),
        ];
        Ok(modifiers.iter().filter(|(on, _)| *on).fold(style, |style, (_, modifier)| style.add_modifier(*modifier)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styles(theme: &Theme) -> [Style; 13] {
        [
            theme.text,
            theme.dim,
            theme.number,
            theme.strong,
            theme.accent,
            theme.user,
            theme.lane,
            theme.good,
            theme.warning,
            theme.stall,
            theme.error,
            theme.border,
            theme.chart,
        ]
    }

    #[test]
    fn every_theme_is_right_and_the_default_keeps_to_16_colours() {
        for name in names() {
            let theme = Theme::named(name).unwrap();
            for style in styles(&theme) {
                for color in [style.fg, style.bg].into_iter().flatten() {
                    assert!(!matches!(color, Color::Rgb(..) | Color::Indexed(_)), "{name}: {color:?}");
                }
            }
        }
    }

    #[test]
    fn mono_has_no_colour() {
        assert!(styles(&Theme::named("mono").unwrap()).iter().all(|s| s.fg.is_none() && s.bg.is_none()));
    }

    #[test]
    fn an_unknown_theme_is_named_with_those_there_are() {
        let error = Theme::named("solarised").unwrap_err().to_string();
        assert_eq!(error, "there is no theme 'solarised'; there are default, mono, high-contrast");
    }
}
