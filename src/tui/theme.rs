//! Colour themes: TOML files, each giving a style to every role on the screen. Some are compiled in.
//!
//! A role says what something means, never how it looks. Colour alone never carries a meaning: a sign or a word beside
//! it says the same, so that `mono` loses nothing. Which themes there are and which one is in force is `looks`' work.

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;

/// Says the roles once: the theme's fields, and the keys of its file in kebab case.
macro_rules! roles {
    ($($(#[$doc:meta])* $role:ident,)*) => {
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Theme {
            $($(#[$doc])* pub $role: Style,)*
        }

        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct File {
            /// One line for the list of themes.
            #[serde(default)]
            about: String,
            /// The theme that gives the roles that are left out; `default` where none is named.
            base: Option<String>,
            $($role: Option<Look>,)*
        }

        impl File {
            /// Fails with the role and the text that is no colour.
            fn over(&self, base: Theme) -> Result<Theme, String> {
                Ok(Theme {
                    $($role: match &self.$role {
                        Some(look) => look.style().map_err(|color| not_a_color(stringify!($role), &color))?,
                        None => base.$role,
                    },)*
                })
            }

            #[cfg(test)]
            fn left_out(&self) -> Vec<&'static str> {
                [$(self.$role.is_none().then_some(stringify!($role)),)*].into_iter().flatten().collect()
            }
        }

        impl Theme {
            /// The same theme with each style changed.
            pub fn map(self, change: impl Fn(Style) -> Style) -> Self {
                Self { $($role: change(self.$role),)* }
            }

            #[cfg(test)]
            pub fn styles(&self) -> Vec<(&'static str, Style)> {
                vec![$((stringify!($role), self.$role),)*]
            }
        }
    };
}

roles! {
    /// The conversation's text.
    text,
    /// Labels and hints that can be overlooked.
    dim,
    /// Measured numbers.
    number,
    /// Names: the program's, the model's.
    strong,
    /// The one colour of ortalk's own chrome.
    accent,
    /// The reader's own messages.
    user,
    /// The lane that runs.
    lane,
    good,
    warning,
    stall,
    error,
    border,
    /// Bars and charts.
    chart,
    /// What is chosen: a row of a list, a message, a token.
    selection,
    /// Of an answer's text: its headings.
    heading,
    link,
    quote,
    /// Code within a line, and what has no other role in a block of code.
    code,
    code_keyword,
    code_string,
    code_comment,
    code_number,
    /// Names of functions, types and the like, where they are said first.
    code_function,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    #[error("there is no theme '{name}'; there are {known}")]
    Unknown { name: String, known: String },
    #[error("the theme '{name}' is not right: {message}")]
    Parse { name: String, message: String },
}

fn not_a_color(role: &str, color: &str) -> String {
    let role = role.replace('_', "-");
    format!("'{color}' of '{role}' is not a colour; 'lightcyan', '#66ccff' and '81' are some")
}

fn no_base(name: &str, base: &str) -> String {
    let themes = FILES.map(|(name, _)| name).join(", ");
    match base == name {
        true => format!("it is its own base; a base is one of {themes}"),
        false => format!("its base '{base}' is none of {themes}"),
    }
}

/// The compiled in themes, by name.
pub const FILES: [(&str, &str); 7] = [
    ("default", include_str!("../../themes/default.toml")),
    ("light", include_str!("../../themes/light.toml")),
    ("high-contrast", include_str!("../../themes/high-contrast.toml")),
    ("colour-blind-safe", include_str!("../../themes/colour-blind-safe.toml")),
    ("projector-dark", include_str!("../../themes/projector-dark.toml")),
    ("projector-light", include_str!("../../themes/projector-light.toml")),
    ("mono", include_str!("../../themes/mono.toml")),
];

/// A theme as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    /// One line about it.
    pub about: String,
    pub theme: Theme,
}

/// Reads a theme's file. The roles that it leaves out are those of its `base`, which must be compiled in.
pub fn read(name: &str, text: &str) -> Result<Named, ThemeError> {
    let wrong = |message: String| ThemeError::Parse { name: name.to_owned(), message };
    let file: File = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let base = match file.base.as_deref() {
        None if name == "default" => Theme::default(),
        base => {
            let base = base.unwrap_or("default");
            built_in(base).map_err(|_| wrong(no_base(name, base)))?.theme
        }
    };
    let theme = file.over(base).map_err(wrong)?;
    Ok(Named { name: name.to_owned(), about: file.about, theme })
}

/// A theme that is compiled in.
pub fn built_in(name: &str) -> Result<Named, ThemeError> {
    let known = || FILES.map(|(name, _)| name).join(", ");
    let file = FILES.iter().find(|(known, _)| *known == name);
    let (name, text) = file.ok_or_else(|| ThemeError::Unknown { name: name.to_owned(), known: known() })?;
    read(name, text)
}

#[cfg(test)]
impl Theme {
    pub fn named(name: &str) -> Result<Self, ThemeError> {
        Ok(built_in(name)?.theme)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Look {
    fg: Option<String>,
    bg: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    reverse: bool,
}

impl Look {
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
#[path = "theme_tests.rs"]
mod tests;
