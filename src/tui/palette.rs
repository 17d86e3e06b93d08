//! How many colours the terminal shows, and a theme's colours brought down to them.

use std::ffi::OsStr;

use ratatui::style::{Color, Style};

use crate::config::Colours;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    None,
    Sixteen,
    Indexed,
    Full,
}

impl Depth {
    /// What the settings say; else what the environment says of the terminal.
    pub fn new(colours: Colours) -> Self {
        match colours {
            Colours::None => Self::None,
            Colours::Sixteen => Self::Sixteen,
            Colours::Indexed => Self::Indexed,
            Colours::Full => Self::Full,
            // Windows' consoles set neither variable and show all colours.
            Colours::Auto if cfg!(windows) => Self::Full,
            Colours::Auto => Self::of_terminal(|name| std::env::var_os(name)),
        }
    }

    fn of_terminal<V: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<V>) -> Self {
        let value = |name| variable(name).map_or_else(String::new, |v| v.as_ref().to_string_lossy().into_owned());
        let (color_term, term) = (value("COLORTERM"), value("TERM"));
        if matches!(color_term.as_str(), "truecolor" | "24bit") || term.contains("direct") {
            Self::Full
        } else if term.contains("256color") {
            Self::Indexed
        } else if ["vt", "dumb"].iter().any(|start| term.starts_with(start)) || term.ends_with("-mono") {
            Self::None
        } else {
            Self::Sixteen
        }
    }

    /// The style in colours that the terminal shows.
    pub fn reduce(self, style: Style) -> Style {
        let mut reduced = style;
        reduced.fg = style.fg.map(|color| self.nearest(color));
        reduced.bg = style.bg.map(|color| self.nearest(color));
        if reduced.fg.is_some() && reduced.fg == reduced.bg && style.fg != style.bg {
            let dark = rgb(reduced.bg.unwrap_or_default()).is_some_and(|(r, g, b)| luma(r, g, b) < 128);
            reduced.fg = Some(if dark { Color::White } else { Color::Black });
        }
        reduced
    }

    fn nearest(self, color: Color) -> Color {
        let Some(wanted) = rgb(color) else { return color };
        let is_one_of_16 = !matches!(color, Color::Rgb(..) | Color::Indexed(_));
        match self {
            Self::Full => color,
            _ if is_one_of_16 => color,
            Self::Indexed if matches!(color, Color::Indexed(_)) => color,
            // The first 16 are the terminal's own, whatever they look like.
            Self::Indexed => Color::Indexed(closest(wanted, 16..=255, indexed)),
            Self::None | Self::Sixteen => ANSI[usize::from(closest(wanted, 0..=15, indexed))].0,
        }
    }
}

/// The 16 colours with their looks in xterm, which others are near to.
const ANSI: [(Color, (u8, u8, u8)); 16] = [
    (Color::Black, (0, 0, 0)),
    (Color::Red, (205, 0, 0)),
    (Color::Green, (0, 205, 0)),
    (Color::Yellow, (205, 205, 0)),
    (Color::Blue, (0, 0, 238)),
    (Color::Magenta, (205, 0, 205)),
    (Color::Cyan, (0, 205, 205)),
    (Color::Gray, (229, 229, 229)),
    (Color::DarkGray, (127, 127, 127)),
    (Color::LightRed, (255, 0, 0)),
    (Color::LightGreen, (0, 255, 0)),
    (Color::LightYellow, (255, 255, 0)),
    (Color::LightBlue, (92, 92, 255)),
    (Color::LightMagenta, (255, 0, 255)),
    (Color::LightCyan, (0, 255, 255)),
    (Color::White, (255, 255, 255)),
];

/// The terminal's own foreground and background have no colour that is known here.
pub fn rgb(color: Color) -> Option<(u8, u8, u8)> {
    match color {
        Color::Rgb(r, g, b) => Some((r, g, b)),
        Color::Indexed(number) => Some(indexed(number)),
        named => ANSI.iter().find(|(known, _)| *known == named).map(|(_, rgb)| *rgb),
    }
}

/// The 256 colours of xterm: 16 named ones, a cube of 6 steps, 24 greys.
fn indexed(number: u8) -> (u8, u8, u8) {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match number {
        0..=15 => ANSI[usize::from(number)].1,
        16..=231 => {
            let step = |of: u8| STEPS[usize::from((number - 16) / of % 6)];
            (step(36), step(6), step(1))
        }
        232..=255 => {
            let grey = 8 + 10 * (number - 232);
            (grey, grey, grey)
        }
    }
}

fn closest(wanted: (u8, u8, u8), numbers: std::ops::RangeInclusive<u8>, color_of: impl Fn(u8) -> (u8, u8, u8)) -> u8 {
    numbers.min_by_key(|number| distance(wanted, color_of(*number))).unwrap_or_default()
}

/// Squared, weighted as eyes weigh: the "redmean" approximation, <https://www.compuphase.com/cmetric.htm>.
fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> i32 {
    let square = |a: u8, b: u8| (i32::from(a) - i32::from(b)).pow(2);
    let mean = (i32::from(a.0) + i32::from(b.0)) / 2;
    (((512 + mean) * square(a.0, b.0)) >> 8) + 4 * square(a.1, b.1) + (((767 - mean) * square(a.2, b.2)) >> 8)
}

/// By ITU-R BT.601.
fn luma(r: u8, g: u8, b: u8) -> u32 {
    (299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b)) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_tells_the_depth() {
        let depth = |color_term: &str, term: &str| {
            Depth::of_terminal(|name| Some(if name == "TERM" { term.to_owned() } else { color_term.to_owned() }))
        };
        assert_eq!(depth("truecolor", "xterm-256color"), Depth::Full);
        assert_eq!(depth("", "xterm-direct"), Depth::Full);
        assert_eq!(depth("", "screen-256color"), Depth::Indexed);
        assert_eq!(depth("", "linux"), Depth::Sixteen);
        assert_eq!(depth("", "vt220"), Depth::None);
        assert_eq!(depth("", "xterm-mono"), Depth::None);
    }

    #[test]
    fn a_colour_becomes_the_nearest_one_that_there_is() {
        let style = Style::new().fg(Color::Rgb(255, 210, 63)).bg(Color::Rgb(2, 2, 2));
        assert_eq!(Depth::Full.reduce(style), style);
        // The cube's 255, 215, 95; and its black.
        assert_eq!(Depth::Indexed.reduce(style), Style::new().fg(Color::Indexed(221)).bg(Color::Indexed(16)));
        assert_eq!(Depth::Sixteen.reduce(style), Style::new().fg(Color::Yellow).bg(Color::Black));
        let named = Style::new().fg(Color::Cyan).bg(Color::Reset);
        assert_eq!(Depth::Indexed.reduce(named), named);
        assert_eq!(Depth::Sixteen.reduce(Style::new().fg(Color::Indexed(196))), Style::new().fg(Color::LightRed));
    }

    #[test]
    fn what_is_written_does_not_become_its_background() {
        let grey = Style::new().fg(Color::Rgb(30, 30, 30)).bg(Color::Rgb(10, 10, 10));
        assert_eq!(Depth::Sixteen.reduce(grey), Style::new().fg(Color::White).bg(Color::Black));
    }

    #[test]
    fn the_cube_and_the_greys_are_where_xterm_has_them() {
        assert_eq!(
            [16, 21, 196, 231, 232, 255].map(indexed),
            [(0, 0, 0), (0, 0, 255), (255, 0, 0), (255, 255, 255), (8, 8, 8), (238, 238, 238)]
        );
    }
}
