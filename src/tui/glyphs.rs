//! The one place that decides between Unicode and ASCII: every sign, rule and bar that ortalk itself draws.
//!
//! The conversation's own text is not translated. No emoji: terminals do not agree on their width.

use std::ffi::OsStr;

use crate::config::Unicode;

use super::text::rows::Sign;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glyphs {
    pub running: &'static str,
    pub ready: &'static str,
    pub chosen: &'static str,
    pub rejected: &'static str,
    pub stall: &'static str,
    pub down: &'static str,
    pub up: &'static str,
    /// The panel that is open.
    pub open: &'static str,
    /// What a context is full of: system message, earlier turns, question, answer.
    pub parts: [&'static str; 4],
    /// A limit within a bar.
    pub limit: &'static str,
    /// Around the number of a version.
    pub previous: &'static str,
    pub next: &'static str,
    /// Between two facts of one line.
    pub dot: &'static str,
    pub ellipsis: &'static str,
    pub prompt: &'static str,
    /// Where the next word of an answer will stand.
    pub caret: &'static str,
    pub sigma: &'static str,
    /// Before the best number of a column.
    pub best: &'static str,
    /// Beside the winner of a race.
    pub leads: &'static str,
    /// In place of a number that was not measured yet.
    pub absent: &'static str,
    pub degrees: &'static str,
    pub horizontal: &'static str,
    pub vertical: &'static str,
    pub tee_down: &'static str,
    pub tee_up: &'static str,
    pub tee_right: &'static str,
    pub tee_left: &'static str,
    pub cross: &'static str,
    /// Of lists, the outermost first.
    pub bullets: [&'static str; 3],
    /// Eighths of a cell, the lowest first.
    pub levels: [&'static str; 8],
    pub gauge_full: &'static str,
    pub gauge_empty: &'static str,
}

pub const UNICODE: Glyphs = Glyphs {
    running: "●",
    ready: "○",
    chosen: "✓",
    rejected: "✗",
    stall: "▲",
    down: "↓",
    up: "↑",
    open: "▸",
    parts: ["█", "▓", "▒", "░"],
    limit: "┃",
    previous: "‹",
    next: "›",
    dot: "·",
    ellipsis: "…",
    prompt: "›",
    caret: "▌",
    sigma: "σ",
    best: "*",
    leads: "◀",
    absent: "—",
    degrees: "°C",
    horizontal: "─",
    vertical: "│",
    tee_down: "┬",
    tee_up: "┴",
    tee_right: "├",
    tee_left: "┤",
    cross: "┼",
    bullets: ["•", "◦", "▪"],
    levels: ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    gauge_full: "━",
    gauge_empty: "─",
};

pub const ASCII: Glyphs = Glyphs {
    running: "*",
    ready: "o",
    chosen: "+",
    rejected: "x",
    stall: "!",
    down: "v",
    up: "^",
    open: ">",
    parts: ["#", "=", "+", "~"],
    limit: "|",
    previous: "<",
    next: ">",
    dot: "-",
    ellipsis: "...",
    prompt: ">",
    caret: "_",
    sigma: "sd",
    best: "*",
    leads: "<",
    absent: "-",
    degrees: "C",
    horizontal: "-",
    vertical: "|",
    tee_down: "+",
    tee_up: "+",
    tee_right: "+",
    tee_left: "+",
    cross: "+",
    bullets: ["*", "-", "+"],
    levels: ["_", "_", ".", ":", "-", "=", "+", "#"],
    gauge_full: "#",
    gauge_empty: ".",
};

impl Glyphs {
    /// What the settings say; else what the environment's locale can show.
    pub fn new(unicode: Unicode) -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        match unicode {
            Unicode::Always => UNICODE,
            Unicode::Ascii => ASCII,
            Unicode::Auto if cfg!(windows) || locale_is_utf8(variable) => UNICODE,
            Unicode::Auto => ASCII,
        }
    }

    /// The bar that fills `fraction` of one cell; nothing is drawn for zero.
    pub fn level(&self, fraction: f64) -> &'static str {
        if fraction <= 0.0 || !fraction.is_finite() {
            return " ";
        }
        let eighths = (fraction * 8.0).ceil().clamp(1.0, 8.0) as usize;
        self.levels[eighths - 1]
    }

    /// One column wide.
    pub fn sign(&self, sign: Sign) -> &'static str {
        match sign {
            Sign::Bullet(depth) => self.bullets[usize::from(depth) % self.bullets.len()],
            Sign::Bar | Sign::Column => self.vertical,
            Sign::Rule => self.horizontal,
            Sign::Cross => self.cross,
        }
    }

    pub fn rule(&self, columns: usize) -> String {
        self.horizontal.repeat(columns)
    }
}

/// POSIX: the first of these that is set and not empty names the character set.
fn locale_is_utf8<V: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<V>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name)).is_some_and(|value| {
        let value = value.as_ref().to_string_lossy().to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locale(pairs: &[(&str, &'static str)]) -> bool {
        locale_is_utf8(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
    }

    #[test]
    fn the_strongest_variable_decides() {
        assert!(locale(&[("LANG", "C.UTF-8")]));
        assert!(locale(&[("LC_CTYPE", "de_DE.utf8"), ("LANG", "C")]));
        assert!(!locale(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]));
        assert!(!locale(&[]));
    }

    #[test]
    fn bars_grow_and_zero_is_empty() {
        assert_eq!([0.0, 0.01, 0.5, 1.0, 2.0, f64::NAN].map(|f| UNICODE.level(f)), [" ", "▁", "▄", "█", "█", " "]);
    }
}
