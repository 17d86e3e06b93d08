//! The help: the keys in force by where they count, the commands, and what the signs mean.

use ratatui::text::{Line, Span};

use super::command::COMMANDS;
use super::keymap::{Bound, Keymap};
use super::keys::Context;
use super::page::matches;
use super::skin::{Skin, Text, pad_right, rows_of};
use super::text::{self, truncate};
use super::trace::STALL;

const KEY: usize = 19;
const HELP: usize = 37;
/// Columns of one key with its help.
const COLUMN: usize = KEY + HELP;
/// Of all keys of an action, while something is searched for.
const ALL_KEYS: usize = 29;
/// Of the longest names of actions.
const NAME: usize = 20;

const COMMANDS_TITLE: &str = "commands";
/// Columns of commands with what they take.
const WITH_TAKES: usize = 108;

/// One thing to know.
struct Entry {
    sign: String,
    help: String,
    /// What the settings call a key's action; what a command takes.
    name: String,
}

/// What fits the filter, in groups, the keys of `place` first. While something is searched for, it is told what the
/// settings call an action, and what a command takes.
pub fn lines(keys: &Keymap, place: Context, filter: &str, skin: &Skin, columns: usize) -> Vec<Text> {
    let mut lines = Vec::new();
    let is_searched = !filter.trim().is_empty();
    for (title, entries) in groups(keys, place, is_searched, skin) {
        let fits = |entry: &Entry| matches(filter, &[&entry.sign, &entry.help, &entry.name, &title]);
        let entries: Vec<Entry> = entries.into_iter().filter(fits).collect();
        if entries.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(skin.fit(Line::from(skin.styled(skin.theme.accent, title.clone())), columns));
        // What commands take is always told where there is room for it.
        if is_searched || (title == COMMANDS_TITLE && columns >= WITH_TAKES) {
            lines.extend(entries.iter().flat_map(|entry| with_name(entry, skin, columns)));
        } else {
            lines.extend(side_by_side(&entries, skin, columns));
        }
    }
    lines
}

/// Every key is in one of them: beside its action, or among the further keys.
fn groups(keys: &Keymap, place: Context, is_searched: bool, skin: &Skin) -> Vec<(String, Vec<Entry>)> {
    let mut contexts = vec![place];
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
    let mut further = Vec::new();
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
        if !is_searched {
            let rows = keys.rows().filter(|row| row.context == context);
            let others = rows.flat_map(|row| row.others().map(|key| entry(key, row)));
            further.push((format!("further {}", context.title()), others.collect()));
        }
    }
    let nameless = |sign: &str, help: String| Entry { sign: sign.to_owned(), help, name: String::new() };
    let commands = COMMANDS.iter().filter(|command| !command.help.is_empty()).map(|command| Entry {
        sign: command.name.to_owned(),
        help: command.help.to_owned(),
        name: command.takes.to_owned(),
    });
    groups.push((COMMANDS_TITLE.to_owned(), commands.collect()));
    let glyphs = &skin.glyphs;
    let both = |one: &str, other: &str| format!("{one} {other}");
    let signs = [
        nameless(glyphs.running, "answering now".to_owned()),
        nameless(glyphs.ready, "ready".to_owned()),
        nameless(glyphs.chosen, "the lane that was taken".to_owned()),
        nameless(glyphs.rejected, "not taken, or not to be had".to_owned()),
        nameless(glyphs.stall, format!("over {STALL} times the median; a warning")),
        nameless(glyphs.absent, "none, or not measured yet".to_owned()),
        nameless(glyphs.open, "the open panel, the chosen token".to_owned()),
        nameless(&glyphs.parts.join(""), "system, history, prompt, answer".to_owned()),
        nameless(glyphs.limit, "how much the NPU holds".to_owned()),
        nameless(glyphs.best, "the best of a race".to_owned()),
        nameless(glyphs.leads, "so many times the other lane".to_owned()),
        nameless(&both(glyphs.previous, glyphs.next), "around a version's number".to_owned()),
        nameless(&both(glyphs.up, glyphs.down), "there is more above, below".to_owned()),
    ];
    groups.push(("signs".to_owned(), signs.into()));
    groups.extend(further);
    groups
}

fn side_by_side(entries: &[Entry], skin: &Skin, columns: usize) -> Vec<Text> {
    let across = (columns / COLUMN).clamp(1, 2);
    let rows = entries.len().div_ceil(across);
    if columns < 2 * KEY {
        let below = |entry: &Entry| {
            let key = Line::from(skin.styled(skin.theme.strong, truncate(&entry.sign, columns, skin.glyphs.ellipsis)));
            let helps = rows_of(&entry.help, columns.saturating_sub(1).max(1)).into_iter();
            std::iter::once(key).chain(helps.map(|help| Line::from(skin.dim(format!(" {help}"))))).collect::<Vec<_>>()
        };
        return entries.iter().flat_map(below).collect();
    }
    if across == 1 {
        return entries.iter().flat_map(|entry| rows_of_entry(entry, KEY, "", skin, columns)).collect();
    }
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

/// With all of its keys where there is room, and with its name.
fn with_name(entry: &Entry, skin: &Skin, columns: usize) -> Vec<Text> {
    let room = columns.saturating_sub(HELP + 2 + NAME);
    rows_of_entry(entry, room.clamp(KEY, ALL_KEYS), &entry.name, skin, columns)
}

/// One below the other where there is no room beside each other: nothing is cut.
fn rows_of_entry(entry: &Entry, key: usize, name: &str, skin: &Skin, columns: usize) -> Vec<Text> {
    let room = columns.saturating_sub(key);
    let mut helps = rows_of(&entry.help, room);
    let mut names = Vec::new();
    if !name.is_empty() && helps.len() == 1 && HELP + 2 + text::width(name) <= room {
        helps[0] = pad_right(&helps[0], HELP + 2);
        names.push(name.to_owned());
    }
    let is_beside = !names.is_empty();
    if !name.is_empty() && !is_beside {
        names = rows_of(name, room);
    }
    let mut rows: Vec<Vec<Span<'static>>> = helps.into_iter().map(|help| vec![skin.dim(help)]).collect();
    for name in names {
        match rows.last_mut() {
            Some(last) if is_beside => last.push(skin.plain(name)),
            _ => rows.push(vec![skin.plain(name)]),
        }
    }
    // Keys that are many have a row of their own.
    let is_long = text::width(&entry.sign) >= key;
    let mut signs = if is_long { rows_of(&entry.sign, columns) } else { vec![entry.sign.clone()] }.into_iter();
    let strong = |sign: String| skin.styled(skin.theme.strong, pad_right(&sign, key));
    let mut lines: Vec<Text> = Vec::new();
    if is_long {
        lines.extend(signs.by_ref().map(|sign| Line::from(strong(sign))));
    }
    for row in rows {
        let first = vec![strong(signs.next().unwrap_or_default())];
        lines.push(skin.fit(Line::from([first, row].concat()), columns));
    }
    lines
}

fn sign(entry: &Entry, columns: usize, skin: &Skin) -> Span<'static> {
    let sign = truncate(&entry.sign, columns - 1, skin.glyphs.ellipsis);
    skin.styled(skin.theme.strong, pad_right(&sign, columns))
}

#[cfg(test)]
mod tests {
    use super::super::keys::BINDINGS;
    use super::super::skin::test_skin;
    use super::*;

    #[test]
    fn every_key_of_the_table_is_listed() {
        let lines = lines(&Keymap::default(), Context::Compose, "", &test_skin(), 300);
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
