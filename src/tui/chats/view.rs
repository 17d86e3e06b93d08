//! Draws the list of conversations, and what of a message's place in the tree shows.

use ratatui::text::{Line, Span};

use super::super::glyphs::Glyphs;
use super::super::keys::{Action, Context};
use super::super::skin::{Skin, Text, pad_right, rows_of, width};
use super::super::state::{Overlay, State};
use super::super::text::sanitize::one_line;
use super::super::text::truncate;
use super::{ChatList, Mode, Redo, Row};

/// `‹ 2/3 ›` behind who speaks, where other messages stand in the same place.
pub fn place(state: &State, message: Option<u32>, skin: &Skin) -> Vec<Span<'static>> {
    let Some((id, (at, of))) = message.and_then(|id| Some((id, state.chats.place(id)?))) else { return Vec::new() };
    let Glyphs { previous, next, .. } = skin.glyphs;
    let style = if state.chats.selected == Some(id) { skin.theme.accent } else { skin.theme.dim };
    vec![skin.styled(style, format!("  {previous} {at}/{of} {next}"))]
}

/// The keys of the open list or of the message that is selected, or what the next message will do.
pub fn footer(state: &State, skin: &Skin, columns: usize) -> Option<Text> {
    if let Some(Overlay::Chats(list)) = &state.overlay {
        let gone = list.chosen().is_some_and(|row| list.gone.contains(&row.found.id));
        let actions = match list.mode {
            Mode::Search if list.rows().is_empty() => vec![(Action::Escape, "back")],
            Mode::Search => vec![
                (Action::Send, "open"),
                (Action::RenameChat, "rename"),
                (Action::DeleteChat, if gone { "undelete" } else { "delete" }),
                (Action::Escape, "back"),
            ],
            Mode::Rename { .. } => vec![(Action::Send, "rename"), (Action::Escape, "leave it")],
        };
        return Some(keys(state, Context::Chats, actions, skin, columns));
    }
    // Whatever else is open has keys of its own.
    if state.overlay.is_some() {
        return None;
    }
    if let Some(id) = state.chats.selected {
        let is_answer = state.chats.tree.message(id).is_some_and(|message| message.answer.is_some());
        // Of a replay nothing can be changed.
        let lives = state.replay.is_none();
        let has_versions = lives && state.chats.place(id).is_some();
        let actions = [
            (Action::CopyMessage, "copy", true),
            (Action::EditMessage, "edit", lives),
            (Action::AnswerAgain, "again", lives),
            (Action::GoOn, "more", lives && is_answer && state.chats.tree.head() == Some(id)),
            (Action::Branch, "branch", lives),
            (Action::DeleteMessage, "delete", lives),
            (Action::PreviousVersion, "older", has_versions),
            (Action::NextVersion, "newer version", has_versions),
            (Action::Escape, "back", true),
        ];
        let actions = actions.into_iter().filter(|(_, _, counts)| *counts).map(|(action, what, _)| (action, what));
        return Some(keys(state, Context::Message, actions, skin, columns));
    }
    let (what, ways) = match state.chats.redo? {
        Redo::Edit(_) => (
            "editing",
            [
                "Enter sends it in place of the old one, which is kept; Esc leaves it",
                "Enter sends it, the old one is kept; Esc leaves it",
                "Enter sends it, Esc leaves it",
            ],
        ),
        Redo::Rewrite(_) => (
            "editing the answer",
            [
                "Enter keeps it as another version, nobody is asked; Esc leaves it",
                "Enter keeps it as another version; Esc leaves it",
                "Enter keeps, Esc leaves it",
            ],
        ),
        Redo::Again(_) | Redo::Continue(_) => return None,
    };
    let line = |way: &str| {
        Line::from(vec![skin.styled(skin.theme.accent, format!("   {what}")), skin.dim(format!(": {way}"))])
    };
    let fits = ways.iter().map(|way| line(way)).find(|line| width(line) <= columns);
    Some(fits.unwrap_or_else(|| skin.fit(line(ways[2]), columns)))
}

/// The list: what is looked for, then as many conversations as there is room for. `open` is the one on the screen.
pub fn lines(list: &ChatList, open: Option<&str>, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let all = list.rows();
    let title = match list.mode {
        Mode::Search => "conversations",
        Mode::Rename { .. } => "new name",
    };
    let input = Line::from(vec![
        skin.styled(skin.theme.strong, title),
        skin.plain(" "),
        skin.styled(skin.theme.accent, skin.glyphs.prompt),
        skin.plain(format!(" {}", list.input())),
        skin.styled(skin.theme.accent, skin.glyphs.caret),
    ]);
    let count = match &list.rows {
        None => "looking".to_owned(),
        Some(Err(_)) => String::new(),
        Some(Ok(rows)) => format!("{} of {}", if rows.is_empty() { 0 } else { list.chosen + 1 }, rows.len()),
    };
    let mut lines = vec![skin.spread(input, Line::from(skin.dim(count)), columns)];
    if let Some(Err(error)) = &list.rows {
        lines.push(skin.fit(Line::from(skin.styled(skin.theme.error, one_line(error))), columns));
    }
    if list.rows.as_ref().is_some_and(|rows| rows.as_ref().is_ok_and(Vec::is_empty)) {
        let text = match list.words.is_empty() {
            true => "No conversation is kept yet.",
            false => "Nobody said that.",
        };
        lines.push(skin.fit(Line::from(skin.dim(text)), columns));
    }
    let room = rows.saturating_sub(lines.len());
    let when = all.iter().map(|row| row.when.len()).max().unwrap_or(0);
    let drawn = |(index, row): (usize, &Row)| {
        let is_open = open == Some(row.found.id.as_str());
        self::row(row, index == list.chosen, is_open, list, skin, columns, when)
    };
    let height = |(index, row): (usize, &Row)| match index == list.chosen {
        true => drawn((index, row)).len(),
        false => 1 + usize::from(row.found.snippet.is_some()),
    };
    let heights: Vec<usize> = all.iter().enumerate().map(height).collect();
    let first = first_shown(&heights, list.chosen, room);
    for (index, row) in all.iter().enumerate().skip(first) {
        let row = drawn((index, row));
        if lines.len() + row.len() > rows {
            // The chosen one is shown as far as it goes.
            if index == list.chosen {
                lines.extend(row.into_iter().take(rows.saturating_sub(lines.len())));
            }
            break;
        }
        lines.extend(row);
    }
    lines
}

/// Columns below which a title has all of the row.
const LEAST_WITH_DATE: usize = 30;

/// The first row in view, so that the chosen one is in it, too.
fn first_shown(heights: &[usize], chosen: usize, room: usize) -> usize {
    let mut used = 0;
    let mut first = chosen;
    for at in (0..=chosen.min(heights.len().saturating_sub(1))).rev() {
        used += heights.get(at).copied().unwrap_or(0);
        if used > room {
            break;
        }
        first = at;
    }
    first
}

/// The keys as they are bound. Where there is no room for all of them, the help says the rest; the last one, which leads
/// back, is always among them.
fn keys(
    state: &State,
    context: Context,
    actions: impl IntoIterator<Item = (Action, &'static str)>,
    skin: &Skin,
    columns: usize,
) -> Text {
    let named = |(action, what): (Action, &str)| {
        let bound = |context| state.keys.key(context, action);
        let key = bound(context).or_else(|| bound(Context::Compose))?;
        Some([skin.plain(format!("  {key}")), skin.dim(format!(" {what}"))])
    };
    let mut named_keys: Vec<_> = actions.into_iter().filter_map(named).collect();
    let width_of = |keys: &[[Span; 2]]| keys.iter().flatten().map(Span::width).sum::<usize>();
    let room = columns.saturating_sub(1);
    let last = named_keys.len().saturating_sub(1);
    if width_of(&named_keys) > room {
        named_keys.splice(last..last, named((Action::Help, "keys")));
        let mut least_important = last;
        while width_of(&named_keys) > room && least_important > 0 {
            least_important -= 1;
            named_keys.remove(least_important);
        }
    }
    let spans = std::iter::once(skin.plain(" ")).chain(named_keys.into_iter().flatten());
    Line::from(spans.collect::<Vec<_>>())
}

fn row(row: &Row, chosen: bool, is_open: bool, list: &ChatList, skin: &Skin, columns: usize, when: usize) -> Vec<Text> {
    let Row { found, when: moment } = row;
    let gone = list.gone.contains(&found.id);
    let style = match (gone, chosen) {
        (true, _) => skin.theme.dim,
        (false, true) => skin.theme.strong,
        (false, false) => skin.theme.text,
    };
    let sign = if chosen { skin.glyphs.prompt } else { " " };
    let title = |text: &str| vec![skin.styled(skin.theme.accent, sign), skin.styled(style, format!(" {text}"))];
    let mut right = Vec::new();
    if gone {
        right.push(skin.styled(skin.theme.warning, pad_right("deleted", when)));
    } else if columns >= LEAST_WITH_DATE {
        if columns >= 60 {
            let messages = if found.messages == 1 { "message " } else { "messages" };
            right.push(skin.dim(format!("{} {messages}   ", found.messages)));
        }
        right.push(match is_open {
            true => skin.styled(skin.theme.good, pad_right("open", when)),
            false => skin.dim(pad_right(moment, when)),
        });
    }
    let right = Line::from(right);
    // The chosen one is read whole.
    let mut rows = match chosen {
        true => rows_of(&one_line(&found.title), columns.saturating_sub(width(&right) + 4)),
        false => vec![one_line(&found.title)],
    }
    .into_iter();
    let mut lines = vec![skin.spread(Line::from(title(&rows.next().unwrap_or_default())), right, columns)];
    lines.extend(rows.map(|row| skin.fit(Line::from(skin.styled(style, format!("  {row}"))), columns)));
    if let Some(snippet) = &found.snippet {
        let (before, rest) = snippet.text.split_at(snippet.at.start);
        let (word, behind) = rest.split_at(snippet.at.len());
        let cut = if snippet.is_cut { skin.glyphs.ellipsis } else { "" };
        let line = Line::from(vec![
            skin.dim(format!("    {cut}{}", clean(before))),
            skin.styled(skin.theme.accent, clean(word)),
            skin.dim(clean(behind)),
        ]);
        lines.push(skin.fit(line, columns));
    }
    lines
}

/// A piece of one line, with the spaces at its ends.
fn clean(piece: &str) -> String {
    let text = super::super::text::sanitize::sanitize(piece);
    truncate(&text, 400, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_row_is_in_view() {
        let heights = [1, 2, 1, 2, 2];
        assert_eq!(first_shown(&heights, 0, 3), 0);
        assert_eq!(first_shown(&heights, 2, 4), 0);
        assert_eq!(first_shown(&heights, 2, 3), 1);
        assert_eq!(first_shown(&heights, 4, 4), 3);
        assert_eq!(first_shown(&heights, 4, 1), 4);
        assert_eq!(first_shown(&[], 0, 4), 0);
    }
}
