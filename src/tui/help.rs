//! The help: the keys in force by where they count, the commands, and what the signs mean.

use ratatui::text::{Line, Span};

use super::command::COMMANDS;
use super::keymap::{Bound, Keymap};
use super::keys::Context;
use super::page::matches;
use super::skin::{self, Skin, Text, pad_right};
use super::text::{truncate, width};
use super::trace::STALL;

const KEY: usize = 19;
const HELP: usize = 37;
/// Columns of one key with its help.
const COLUMN: usize = KEY + HELP;
/// Of all keys of an action, while something is searched for.
const ALL_KEYS: usize = 32;
/// Of the longest names of actions.
const NAME: usize = 20;

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
    let is_searched = !filter.trim().is_empty();
    for (title, entries) in groups(keys, is_searched, skin) {
        let fits = |entry: &Entry| matches(filter, &[&entry.sign, &entry.help, &entry.name, &title]);
        let entries: Vec<Entry> = entries.into_iter().filter(fits).collect();
        if entries.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(skin.fit(Line::from(skin.styled(skin.theme.accent, title)), columns));
        match is_searched {
            true => lines.extend(entries.iter().flat_map(|entry| with_name(entry, skin, columns))),
            false => lines.extend(side_by_side(&entries, skin, columns)),
        }
    }
    lines
}

/// Every key is in one of them: beside its action, or among the further keys.
fn groups(keys: &Keymap, is_searched: bool, skin: &Skin) -> Vec<(String, Vec<Entry>)> {
    let mut contexts: Vec<Context> = Vec::new();
    for row in keys.rows() {
        if !contexts.contains(&row.context) {
            contexts.push(row.context);
        }
    }
    let entry = |sign: String, row: &Bound| Entry {
        sign: if sign.is_empty() { skin.glyphs.absent.to_owned() } else { sign },
        help: row.help.clone(),
        name: row.action.name(),
    };
    let mut groups: Vec<(String, Vec<Entry>)> = Vec::new();
    for context in contexts {
        let rows = keys.rows().filter(|row| row.context == context);
        let entries = match is_searched {
            true => rows.map(|row| entry(row.all(), row)).collect(),
            false => rows
                .filter(|row| !row.shown.is_empty() || row.all().is_empty())
                .map(|row| entry(row.shown.clone(), row))
                .collect(),
        };
        groups.push((context.title().to_owned(), entries));
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
    if !is_searched {
        let further = keys.rows().flat_map(|row| row.others().map(|key| entry(key, row)));
        groups.push(("further keys".to_owned(), further.collect()));
    }
    groups
}

fn side_by_side(entries: &[Entry], skin: &Skin, columns: usize) -> Vec<Text> {
    if columns < 2 * COLUMN {
        return entries.iter().flat_map(|entry| in_one_column(entry, KEY, skin, columns)).collect();
    }
    let rows = entries.len().div_ceil(2);
    let line = |row: usize| {
        let cells: Vec<_> = entries.iter().skip(row).step_by(rows).collect();
        let last = cells.len().saturating_sub(1);
        let spans = cells.into_iter().enumerate().flat_map(|(column, entry)| {
            let help = if column < last {
                pad_right(&truncate(&entry.help, HELP - 1, skin.glyphs.ellipsis), HELP)
            } else {
                entry.help.clone()
            };
            [sign(entry, KEY, skin), skin.dim(help)]
        });
        skin.fit(Line::from(spans.collect::<Vec<_>>()), columns)
    };
    (0..rows).map(line).collect()
}

/// The help goes on below itself; keys that are longer than their column have a row of their own.
fn in_one_column(entry: &Entry, key: usize, skin: &Skin, columns: usize) -> Vec<Text> {
    let help = skin.dim(entry.help.clone());
    if width(&entry.sign) < key {
        return skin.wrap_below(Line::from(vec![sign(entry, key, skin), help]), columns);
    }
    let keys = skin.wrap(Line::from(skin.styled(skin.theme.strong, entry.sign.clone())), columns, 0);
    let indent = skin.plain(" ".repeat(key));
    keys.into_iter().chain(skin.wrap_below(Line::from(vec![indent, help]), columns)).collect()
}

/// With all of its keys, and with its name where there is room.
fn with_name(entry: &Entry, skin: &Skin, columns: usize) -> Vec<Text> {
    let room = columns.saturating_sub(HELP + 2 + NAME);
    let key = room.clamp(KEY, ALL_KEYS);
    if room < KEY || width(&entry.sign) >= key {
        let mut lines = in_one_column(entry, key, skin, columns);
        let name = skin.plain(entry.name.clone());
        if let Some(last) = lines.last_mut().filter(|_| room >= KEY && !entry.name.is_empty()) {
            let gap = (key + HELP + 2).saturating_sub(skin::width(last));
            last.spans.extend([skin.plain(" ".repeat(gap.max(2))), name]);
        }
        return lines;
    }
    let mut spans = vec![sign(entry, key, skin)];
    if entry.name.is_empty() {
        spans.push(skin.dim(entry.help.clone()));
    } else {
        spans.push(skin.dim(pad_right(&entry.help, HELP + 2)));
        spans.push(skin.plain(entry.name.clone()));
    }
    skin.wrap_below(Line::from(spans), columns)
}

fn sign(entry: &Entry, columns: usize, skin: &Skin) -> Span<'static> {
    skin.styled(skin.theme.strong, pad_right(&truncate(&entry.sign, columns - 1, skin.glyphs.ellipsis), columns))
}

#[cfg(test)]
mod tests {
    use super::super::keys::BINDINGS;
    use super::super::skin::test_skin;
    use super::*;

    #[test]
    fn every_key_of_the_table_is_listed() {
        let lines = lines(&Keymap::default(), "", &test_skin(), 300);
        let text: Vec<String> =
            lines.iter().map(|line| line.spans.iter().map(|span| span.content.as_ref()).collect()).collect();
        let listed = text.join("\n");
        for chord in BINDINGS.iter().flat_map(|binding| binding.keys) {
            let chord = chord.as_sent().to_string();
            let is_listed =
                listed.split([' ', ',', '\n']).any(|word| word == chord || word.starts_with(&format!("{chord}…")));
            assert!(is_listed, "{chord}");
        }
    }
}
