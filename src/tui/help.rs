//! The help: the table of keys as it is bound, the commands, and what the signs mean.

use ratatui::text::Line;

use super::command::COMMANDS;
use super::keys::BINDINGS;
use super::skin::{Skin, Text, pad_right};
use super::trace::STALL;

const KEY: usize = 19;
/// Columns of one key with its help.
const COLUMN: usize = 56;

pub fn lines(skin: &Skin, columns: usize) -> Vec<Text> {
    let keys = BINDINGS.iter().filter(|b| !b.shown.is_empty()).map(|binding| (binding.shown, binding.help));
    let commands = COMMANDS.iter().filter(|c| !c.help.is_empty()).map(|command| (command.name, command.help));
    let entries: Vec<(&str, &str)> = keys.chain(commands).collect();
    let side_by_side = (columns / COLUMN).clamp(1, 2);
    let rows = entries.len().div_ceil(side_by_side);
    let mut lines: Vec<Text> = (0..rows)
        .map(|row| {
            let cells: Vec<_> = entries.iter().skip(row).step_by(rows).collect();
            let last = cells.len().saturating_sub(1);
            let spans = cells.into_iter().enumerate().flat_map(|(column, (key, help))| {
                let help = if column < last { pad_right(help, COLUMN - KEY) } else { help.to_string() };
                [skin.styled(skin.theme.strong, pad_right(key, KEY)), skin.dim(help)]
            });
            skin.fit(Line::from(spans.collect::<Vec<_>>()), columns)
        })
        .collect();
    lines.push(Line::default());
    let glyphs = &skin.glyphs;
    let signs = [
        (glyphs.running, "answering now".to_string()),
        (glyphs.ready, "ready".to_string()),
        (glyphs.rejected, "not taken, or not to be had".to_string()),
        (glyphs.stall, format!("a token that took over {STALL} times the median")),
        (glyphs.absent, "not measured yet".to_string()),
    ];
    for (sign, meaning) in signs {
        let spans = vec![skin.styled(skin.theme.strong, pad_right(sign, KEY)), skin.dim(meaning)];
        lines.push(skin.fit(Line::from(spans), columns));
    }
    lines
}
