//! Each theme is whole and can be read: contrast by WCAG 2.2, colour blindness by simulation.

use super::super::palette::{Depth, rgb};
use super::*;

type Rgb = (u8, u8, u8);

/// <https://www.w3.org/TR/WCAG22/#dfn-relative-luminance>
fn luminance((r, g, b): Rgb) -> f64 {
    let [r, g, b] = [r, g, b].map(linear);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn linear(value: u8) -> f64 {
    let value = f64::from(value) / 255.0;
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

/// <https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio>
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn contrast_is_what_the_standard_says() {
    assert!((contrast((255, 255, 255), (0, 0, 0)) - 21.0).abs() < 1e-9);
    // The classical grey that just passes on white.
    assert!((contrast((0x76, 0x76, 0x76), (255, 255, 255)) - 4.54).abs() < 0.005);
}

#[test]
fn every_theme_says_every_role() {
    for (name, text) in FILES {
        let file: File = toml::from_str(text).unwrap();
        assert_eq!(file.left_out(), [""; 0], "{name}");
        assert!(!file.about.is_empty() && file.about.len() < 60, "{name}");
    }
}

#[test]
fn what_a_terminal_s_own_palette_decides_keeps_to_16_colours() {
    for name in ["default", "light", "mono", "high-contrast"] {
        for (role, style) in Theme::named(name).unwrap().styles() {
            for color in [style.fg, style.bg].into_iter().flatten() {
                assert!(!matches!(color, Color::Rgb(..) | Color::Indexed(_)), "{name} {role}: {color:?}");
            }
        }
    }
}

#[test]
fn mono_has_no_colour() {
    let styles = Theme::named("mono").unwrap().styles();
    assert!(styles.iter().all(|(_, style)| style.fg.is_none() && style.bg.is_none()));
}

#[test]
fn an_unknown_theme_is_named_with_those_there_are() {
    let error = Theme::named("solarised").unwrap_err().to_string();
    let expected = "there is no theme 'solarised'; there are default, light, high-contrast, colour-blind-safe, \
        projector-dark, projector-light, mono";
    assert_eq!(error, expected);
}

/// Themes with colours and a background of their own. Text needs 4.5, what is large or thick 3; a projector, which adds
/// light to everything, 7. The nearest of 256 colours may lose some of it.
#[test]
fn themes_with_a_background_can_be_read() {
    for (name, text, thin) in [
        ("high-contrast", 7.0, 7.0),
        ("colour-blind-safe", 4.5, 3.0),
        ("projector-dark", 7.0, 4.5),
        ("projector-light", 7.0, 4.0),
    ] {
        for (depth, share) in [(Depth::Full, 1.0), (Depth::Indexed, 0.8)] {
            let theme = Theme::named(name).unwrap().map(|style| depth.reduce(style));
            for (role, style) in theme.styles() {
                let limit = share
                    * match role {
                        "border" => thin,
                        "error" => 4.5,
                        _ => text,
                    };
                let ratio = contrast(rgb(style.fg.unwrap()).unwrap(), rgb(style.bg.unwrap()).unwrap());
                assert!(ratio >= limit, "{name} {role} {depth:?}: {ratio:.2} is below {limit}");
            }
        }
        // In 16 colours nobody knows the palette; what is written still differs from its background.
        for (role, style) in Theme::named(name).unwrap().map(|style| Depth::Sixteen.reduce(style)).styles() {
            assert_ne!(style.fg, style.bg, "{name} {role}");
        }
    }
}

/// Published palettes with the backgrounds that they are made for: the 16 colours in ANSI's order.
const PALETTES: [(&str, Rgb, [u32; 16]); 8] = [
    ("xterm", (0, 0, 0), XTERM),
    ("VTE dark", (0x1d, 0x1d, 0x1d), VTE),
    ("VTE light", (255, 255, 255), VTE),
    ("Windows Terminal", (0x0c, 0x0c, 0x0c), CAMPBELL),
    ("Terminal.app dark", (0, 0, 0), TERMINAL_APP),
    ("Terminal.app light", (255, 255, 255), TERMINAL_APP),
    ("Visual Studio Code dark", (0x1e, 0x1e, 0x1e), CODE_DARK),
    ("Visual Studio Code light", (255, 255, 255), CODE_LIGHT),
];

const XTERM: [u32; 16] = [
    0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5, 0x7f7f7f, 0xff0000, 0x00ff00,
    0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
];
const VTE: [u32; 16] = [
    0x171421, 0xc01c28, 0x26a269, 0xa2734c, 0x12488b, 0xa347ba, 0x2aa1b3, 0xd0cfcc, 0x5e5c64, 0xf66151, 0x33d17a,
    0xe9ad0c, 0x2a7bde, 0xc061cb, 0x33c7de, 0xffffff,
];
const CAMPBELL: [u32; 16] = [
    0x0c0c0c, 0xc50f1f, 0x13a10e, 0xc19c00, 0x0037da, 0x881798, 0x3a96dd, 0xcccccc, 0x767676, 0xe74856, 0x16c60c,
    0xf9f1a5, 0x3b78ff, 0xb4009e, 0x61d6d6, 0xf2f2f2,
];
const TERMINAL_APP: [u32; 16] = [
    0x000000, 0x990000, 0x00a600, 0x999900, 0x0000b2, 0xb200b2, 0x00a6b2, 0xbfbfbf, 0x666666, 0xe50000, 0x00d900,
    0xe5e500, 0x0000ff, 0xe500e5, 0x00e5e5, 0xe5e5e5,
];
const CODE_DARK: [u32; 16] = [
    0x000000, 0xcd3131, 0x0dbc79, 0xe5e510, 0x2472c8, 0xbc3fbc, 0x11a8cd, 0xe5e5e5, 0x666666, 0xf14c4c, 0x23d18b,
    0xf5f543, 0x3b8eea, 0xd670d6, 0x29b8db, 0xe5e5e5,
];
const CODE_LIGHT: [u32; 16] = [
    0x000000, 0xcd3131, 0x107c10, 0x949800, 0x0451a5, 0xbc05bc, 0x0598bc, 0x555555, 0x666666, 0xcd3131, 0x14ce14,
    0xb5ba00, 0x0451a5, 0xbc05bc, 0x0598bc, 0xa5a5a5,
];

fn seen(color: Color, palette: &[u32; 16]) -> Rgb {
    const ORDER: [Color; 16] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
        Color::DarkGray,
        Color::LightRed,
        Color::LightGreen,
        Color::LightYellow,
        Color::LightBlue,
        Color::LightMagenta,
        Color::LightCyan,
        Color::White,
    ];
    let [_, r, g, b] = palette[ORDER.iter().position(|known| *known == color).unwrap()].to_be_bytes();
    (r, g, b)
}

/// Colours that a terminal shows in its own palette: never far from its background on any terminal that is in wide use.
/// Text itself has the terminal's foreground.
#[test]
fn the_default_theme_can_be_read_on_dark_and_on_light_terminals() {
    for (terminal, background, palette) in PALETTES {
        for (role, style) in Theme::named("default").unwrap().styles() {
            let Some(color) = style.fg else { continue };
            let ratio = contrast(seen(color, &palette), background);
            assert!(ratio >= 2.5, "{terminal}: {role} {ratio:.2}");
        }
    }
}

#[test]
fn the_light_theme_can_be_read_on_white_in_every_palette() {
    for (terminal, _, palette) in PALETTES {
        for (role, style) in Theme::named("light").unwrap().styles() {
            let Some(color) = style.fg else { continue };
            let ratio = contrast(seen(color, &palette), (255, 255, 255));
            assert!(ratio >= 3.9, "{terminal}: {role} {ratio:.2}");
        }
    }
}

/// How people without one of the three kinds of cones see a colour: Machado, Oliveira and Fernandes, "A physiologically
/// based model for simulation of color vision deficiency", 2009, severity 1.0; applied to linear light.
const BLINDNESS: [(&str, [[f64; 3]; 3]); 3] = [
    ("protanopia", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    (
        "deuteranopia",
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ),
    ("tritanopia", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
];

/// CIE 1976 L*a*b* of linear sRGB, white D65.
fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
    let x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505;
    let y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    let z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089;
    let [x, y, z] =
        [x, y, z].map(|t: f64| if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// What is good, what is a warning and what is an error stay apart for everybody: CIE 1976 differences of 35 and more,
/// where 2.3 is just noticed.
#[test]
fn the_colour_blind_safe_theme_keeps_good_and_bad_apart() {
    let theme = Theme::named("colour-blind-safe").unwrap();
    let roles = [("good", theme.good), ("warning", theme.warning), ("error", theme.error), ("text", theme.text)];
    for (kind, matrix) in BLINDNESS {
        let seen = |style: Style| {
            let (r, g, b) = rgb(style.fg.unwrap()).unwrap();
            let light = [r, g, b].map(linear);
            lab(matrix.map(|row| row.iter().zip(light).map(|(m, l)| m * l).sum::<f64>().clamp(0.0, 1.0)))
        };
        for (at, (first, one)) in roles.iter().enumerate() {
            for (second, other) in &roles[at + 1..] {
                let (one, other) = (seen(*one), seen(*other));
                let difference = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                assert!(difference >= 35.0, "{kind}: {first} and {second} differ by {difference:.1}");
            }
        }
    }
}
