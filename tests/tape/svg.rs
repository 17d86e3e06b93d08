//! A terminal's screen as a picture: cells, colours, and the frame of a window.
//!
//! Rules, bars and blocks are drawn as shapes, so that they meet whatever font the viewer has; all else is text, held to
//! its cells by `textLength`. The same screen gives the same bytes.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

const CELL: (f64, f64) = (8.4, 18.0);
/// From a row's top to the letters' base line.
const BASE: f64 = 13.5;
const MARGIN: f64 = 16.0;
/// The window's bar.
const BAR: f64 = 32.0;
const FOREGROUND: &str = "#d8dee9";
const BACKGROUND: &str = "#14181d";

/// The 16 colours.
const PALETTE: [&str; 16] = [
    "#1f252c", "#e06c75", "#7ec98f", "#e0b75e", "#6ea3e0", "#c792d8", "#5bc0cf", "#c5ccd6", "#6f7b89", "#ff8a93",
    "#98e0a8", "#f2d27c", "#8fbdf2", "#dcaeeb", "#7fdbe8", "#ffffff",
];

pub fn picture(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let (width, height) = (f64::from(columns) * CELL.0 + 2.0 * MARGIN, f64::from(rows) * CELL.1 + BAR + MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', \
         monospace\" font-size=\"14\" shape-rendering=\"crispEdges\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for (at, color) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
        let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"16\" r=\"5.5\" fill=\"{color}\"/>", 20 + 18 * at);
    }
    for row in 0..rows {
        let runs = runs(screen, row, columns);
        for run in &runs {
            background(&mut svg, run, row);
        }
        for run in &runs {
            foreground(&mut svg, run, row);
        }
    }
    if !screen.hide_cursor() {
        let (row, column) = screen.cursor_position();
        let (x, y) = corner(column, row);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{FOREGROUND}\" opacity=\"0.6\"/>",
            CELL.0, CELL.1
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn corner(column: u16, row: u16) -> (f64, f64) {
    (MARGIN + f64::from(column) * CELL.0, BAR + f64::from(row) * CELL.1)
}

#[derive(Debug, Clone, PartialEq)]
struct Look {
    foreground: String,
    background: Option<String>,
    bold: bool,
    italic: bool,
    underline: bool,
    dim: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let (mut foreground, mut background) = (color(cell.fgcolor()), color(cell.bgcolor()));
        if cell.inverse() {
            let swapped = (background.or(Some(BACKGROUND.into())), foreground.or(Some(FOREGROUND.into())));
            (foreground, background) = swapped;
        }
        Self {
            foreground: foreground.unwrap_or_else(|| FOREGROUND.into()),
            background,
            bold: cell.bold(),
            italic: cell.italic(),
            underline: cell.underline(),
            dim: cell.dim(),
        }
    }
}

fn color(color: Color) -> Option<String> {
    match color {
        Color::Default => None,
        Color::Idx(number @ 0..=15) => Some(PALETTE[usize::from(number)].to_owned()),
        Color::Idx(number @ 16..=231) => {
            let step = |of: u8| [0, 95, 135, 175, 215, 255][usize::from((number - 16) / of % 6)];
            Some(format!("#{:02x}{:02x}{:02x}", step(36), step(6), step(1)))
        }
        Color::Idx(number) => {
            let grey = 8 + 10 * (number - 232);
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
        Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
    }
}

/// Cells side by side that look alike. One that is drawn as a shape, or is two cells wide, stands alone.
struct Run {
    column: u16,
    cells: u16,
    text: String,
    look: Look,
}

fn runs(screen: &Screen, row: u16, columns: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else { continue };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let look = Look::of(cell);
        let cells = if cell.is_wide() { 2 } else { 1 };
        let alone = |text: &str| !text.is_ascii();
        match runs.last_mut() {
            Some(run) if run.look == look && !alone(text) && !alone(&run.text) => {
                run.text.push_str(text);
                run.cells += cells;
            }
            Some(run)
                if run.look == look && shape(&run.text).is_some() && run.text.starts_with(text) && text != " " =>
            {
                run.text.push_str(text);
                run.cells += cells;
            }
            _ => runs.push(Run { column, cells, text: text.to_owned(), look }),
        }
    }
    runs
}

fn background(svg: &mut String, run: &Run, row: u16) {
    if let Some(color) = &run.look.background {
        let (x, y) = corner(run.column, row);
        let width = f64::from(run.cells) * CELL.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{color}\"/>",
            CELL.1
        );
    }
}

fn foreground(svg: &mut String, run: &Run, row: u16) {
    let (x, y) = corner(run.column, row);
    let width = f64::from(run.cells) * CELL.0;
    let look = &run.look;
    let faint = if look.dim { " opacity=\"0.6\"" } else { "" };
    if let Some(shape) = shape(&run.text) {
        return draw(svg, shape, (x, y), run, faint);
    }
    let text = run.text.trim_end();
    if text.is_empty() && !look.underline {
        return;
    }
    let start = text.len() - text.trim_start().len();
    let (text, x) = (text.trim_start(), x + start as f64 * CELL.0);
    // What is left of the run behind it.
    let length = if run.text.is_ascii() { text.len() as f64 * CELL.0 } else { width };
    let mut style = String::new();
    for (on, attribute) in [
        (look.bold, " font-weight=\"bold\""),
        (look.italic, " font-style=\"italic\""),
        (look.underline, " text-decoration=\"underline\""),
    ] {
        style.push_str(if on { attribute } else { "" });
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
         xml:space=\"preserve\" fill=\"{}\"{style}{faint}>{escaped}</text>",
        y + BASE,
        look.foreground
    );
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Lines from the middle: left, right, up, down, and their width.
    Lines([bool; 4], f64),
    /// A rectangle within the cell: left, top, right, bottom, in parts of it.
    Block([f64; 4]),
}

fn shape(text: &str) -> Option<Shape> {
    let first = text.chars().next()?;
    let lines = |left, right, up, down| Some(Shape::Lines([left, right, up, down], 1.0));
    match first {
        '─' => lines(true, true, false, false),
        '━' => Some(Shape::Lines([true, true, false, false], 3.0)),
        '│' => lines(false, false, true, true),
        '┬' => lines(true, true, false, true),
        '┴' => lines(true, true, true, false),
        '├' => lines(false, true, true, true),
        '┤' => lines(true, false, true, true),
        '┼' => lines(true, true, true, true),
        '┌' => lines(false, true, false, true),
        '┐' => lines(true, false, false, true),
        '└' => lines(false, true, true, false),
        '┘' => lines(true, false, true, false),
        '▁'..='█' => {
            let eighths = f64::from(first as u32 - 0x2580);
            Some(Shape::Block([0.0, 1.0 - eighths / 8.0, 1.0, 1.0]))
        }
        '▉'..='▏' => {
            let eighths = 8.0 - f64::from(first as u32 - 0x2588);
            Some(Shape::Block([0.0, 0.0, eighths / 8.0, 1.0]))
        }
        _ => None,
    }
}

fn draw(svg: &mut String, shape: Shape, (x, y): (f64, f64), run: &Run, faint: &str) {
    let width = f64::from(run.cells) * CELL.0;
    let color = &run.look.foreground;
    match shape {
        Shape::Block([left, top, right, bottom]) => {
            let right = if right >= 1.0 { width } else { right * CELL.0 };
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\"{faint}/>",
                x + left * CELL.0,
                y + top * CELL.1,
                right - left * CELL.0,
                (bottom - top) * CELL.1
            );
        }
        Shape::Lines([left, right, up, down], thick) => {
            let (middle, base) = (x + CELL.0 / 2.0, y + CELL.1 / 2.0);
            let mut path = String::new();
            if left || right {
                let from = if left { x } else { middle };
                let to = if right { x + width } else { middle };
                let _ = write!(path, "M{from:.1} {base:.1}H{to:.1}");
            }
            if up || down {
                let from = if up { y } else { base };
                let to = if down { y + CELL.1 } else { base };
                let _ = write!(path, "M{middle:.1} {from:.1}V{to:.1}");
            }
            let _ = writeln!(svg, "<path d=\"{path}\" stroke=\"{color}\" stroke-width=\"{thick}\"{faint}/>");
        }
    }
}

mod tests {
    use super::*;

    fn drawn(bytes: &str) -> String {
        let mut parser = vt100::Parser::new(2.try_into().unwrap(), 10.try_into().unwrap(), 0);
        parser.process(bytes.as_bytes());
        picture(parser.screen())
    }

    #[test]
    fn text_is_held_to_its_cells_and_escaped() {
        let svg = drawn("\x1b[?25l  a<b&c \x1b[1;36mbold");
        assert!(svg.contains("<text x=\"32.8\" y=\"45.5\" textLength=\"42.0\""), "{svg}");
        assert!(svg.contains(">a&lt;b&amp;c</text>") && svg.contains("font-weight=\"bold\""), "{svg}");
        assert_eq!(svg, drawn("\x1b[?25l  a<b&c \x1b[1;36mbold"));
    }

    #[test]
    fn rules_are_one_line_and_bars_are_blocks() {
        let svg = drawn("\x1b[?25l────┬▄▄█");
        // Four cells of 8.4 from the margin on, in the middle of a row of 18.
        assert!(svg.contains("<path d=\"M16.0 41.0H49.6\""), "{svg}");
        assert!(svg.contains("M49.6 41.0H58.0M53.8 41.0V50.0"), "{svg}");
        assert!(svg.contains("<rect x=\"58.0\" y=\"41.0\" width=\"16.8\" height=\"9.0\""), "{svg}");
        assert!(svg.contains("<rect x=\"74.8\" y=\"32.0\" width=\"8.4\" height=\"18.0\""), "{svg}");
        assert!(!svg.contains("<text"));
    }

    #[test]
    fn colours_and_reversed_cells_are_as_in_the_terminal() {
        let svg = drawn("\x1b[?25l\x1b[38;2;1;2;3;48;5;196mx\x1b[0;7my\x1b[0m漢");
        assert!(svg.contains("fill=\"#ff0000\"") && svg.contains("fill=\"#010203\""), "{svg}");
        assert!(svg.contains(&format!("fill=\"{FOREGROUND}\"/>\n")), "{svg}");
        assert!(svg.contains("textLength=\"16.8\"") && svg.contains(">漢</text>"), "{svg}");
    }
}
