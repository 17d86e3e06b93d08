//! The help: the keys in force by where they count, the commands, and what the signs mean.

use ratatui::text::Line;

use super::command::COMMANDS;
use super::keymap::Keymap;
use super::keys::Context;
use super::page::matches;
use super::skin::{Skin, Text, pad_right};
use super::text::truncate;
use super::trace::STALL;

const KEY: usize = 19;
const HELP: usize = 37;
/// Columns of one key with its help.
const COLUMN: usize = KEY + HELP;

/// One thing to know.
struct Entry {
    sign: String,
    help: String,
    /// What the settings call a key's action; what a command takes.
    name: String,
}

/// What fits the filter, in groups. While something is searched for, it is told what the settings call
/// an action, and what a command takes.
pub fn lines(keys: &Keymap, filter: &str, skin: &Skin, columns: usize) -> Vec<Text> {
    let mut lines = Vec::new();
    for (title, entries) in groups(keys, skin) {
        let fits = |entry: &Entry| matches(filter, &[&entry.sign, &entry.help, &entry.name, &title]);
        let entries: Vec<Entry> = entries.into_iter().filter(fits).collect();
        if entries.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(skin.fit(Line::from(skin.styled(skin.theme.accent, title)), columns));
        match filter.is_empty() {
            true => lines.extend(side_by_side(&entries, skin, columns)),
            false => lines.extend(entries.iter().map(|entry| with_name(entry, skin, columns))),
        }
    }
    lines
}

fn groups(keys: &Keymap, skin: &Skin) -> Vec<(String, Vec<Entry>)> {
    let mut contexts: Vec<Context> = Vec::new();
    for row in keys.rows() {
        if !contexts.contains(&row.context) {
            contexts.push(row.context);
        }
    }
    let mut groups: Vec<(String, Vec<Entry>)> = Vec::new();
    for context in contexts {
        let listed = keys.rows().filter(|row| row.context == context && !row.help.is_empty());
        let entries = listed.map(|row| Entry {
            sign: if row.shown.is_empty() { skin.glyphs.absent.to_owned() } else { row.shown.clone() },
            help: row.help.clone(),
            name: row.action.name(),
        });
        groups.push((context.title().to_owned(), entries.collect()));
    }
    let nameless = |sign: &str, help: String| Entry { sign: sign.to_owned(), help, name: String::new() };
    let commands = COMMANDS.iter().filter(|command| !command.help.is_empty()).map(|command| Entry {
        sign: command.name.to_owned(),
        help: command.help.to_owned(),
        name: command.takes.to_owned(),
    });
    groups.push(("commands".to_owned(), commands.collect()));
    let glyphs = &skin.glyphs;
    let signs = [
        nameless(glyphs.running, "answering now".to_owned()),
        nameless(glyphs.ready, "ready".to_owned()),
        nameless(glyphs.rejected, "not taken, or not to be had".to_owned()),
        nameless(glyphs.stall, format!("a token of over {STALL} times the median")),
        nameless(glyphs.absent, "none, or not measured yet".to_owned()),
    ];
    groups.push(("signs".to_owned(), signs.into()));
    groups
}

fn side_by_side(entries: &[Entry], skin: &Skin, columns: usize) -> Vec<Text> {
    let across = (columns / COLUMN).clamp(1, 2);
    let rows = entries.len().div_ceil(across);
    let line = |row: usize| {
        let cells: Vec<_> = entries.iter().skip(row).step_by(rows).collect();
        let last = cells.len().saturating_sub(1);
        let spans = cells.into_iter().enumerate().flat_map(|(column, entry)| {
            let help = if column < last {
                pad_right(&truncate(&entry.help, HELP - 1, skin.glyphs.ellipsis), HELP)
            } else {
                entry.help.clone()
            };
            [sign(entry, skin), skin.dim(help)]
        });
        skin.fit(Line::from(spans.collect::<Vec<_>>()), columns)
    };
    (0..rows).map(line).collect()
}

fn with_name(entry: &Entry, skin: &Skin, columns: usize) -> Text {
    let mut spans = vec![sign(entry, skin)];
    if entry.name.is_empty() {
        spans.push(skin.dim(entry.help.clone()));
    } else {
        spans.push(skin.dim(pad_right(&entry.help, HELP + 2)));
        spans.push(skin.plain(entry.name.clone()));
    }
    skin.fit(Line::from(spans), columns)
}

fn sign(entry: &Entry, skin: &Skin) -> ratatui::text::Span<'static> {
    let sign = truncate(&entry.sign, KEY - 1, skin.glyphs.ellipsis);
    skin.styled(skin.theme.strong, pad_right(&sign, KEY))
}
