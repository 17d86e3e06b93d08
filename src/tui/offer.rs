//! The paths that are offered while `@path` is typed.
//!
//! A folder is listed once, off this thread, with what lies below it; what is typed behind it chooses among its paths.
//! `update::writing` says what keys do, the lines are drawn above the composer.

use std::ops::Range;

use ratatui::text::Line;

use super::composer::{Composer, mention};
use super::picker::ranked;
use super::skin::{Skin, Text};
use super::text::sanitize::one_line;
use super::text::width;

#[derive(Debug, Clone)]
pub struct Offer {
    /// Of the `@path` in the composer's text.
    pub range: Range<usize>,
    /// As it was typed, up to its last slash.
    pub folder: String,
    typed: String,
    /// What lies in the folder; `None` until it was listed.
    listed: Option<Vec<String>>,
    /// The best first.
    matching: Vec<usize>,
    chosen: usize,
}

/// Rows of paths that are shown at once.
const ROWS: usize = 8;

impl Offer {
    /// For the `@path` that the cursor stands in or behind. What `before` knows of the folder is kept.
    pub fn at_cursor(composer: &Composer, before: Option<Self>) -> Option<Self> {
        let cursor = composer.cursor();
        // A bare `@` names nothing yet, but something is about to be.
        let bare = || {
            let start = composer.text()[..cursor].strip_suffix('@')?.len();
            let begins = composer.text()[..start].chars().next_back().is_none_or(|c| c.is_whitespace() || c == '(');
            begins.then_some((start..cursor, ""))
        };
        let mentions = composer.mentions().into_iter();
        let (range, path) =
            mentions.rev().find(|(range, _)| range.start < cursor && cursor <= range.end).or_else(bare)?;
        let slash = path.rfind(std::path::is_separator).map_or(0, |at| at + 1);
        let (folder, typed) = path.split_at(slash);
        let listed = before.filter(|before| before.folder == folder).and_then(|before| before.listed);
        let mut offer =
            Self { range, folder: folder.to_owned(), typed: typed.to_owned(), listed, matching: Vec::new(), chosen: 0 };
        offer.search();
        Some(offer)
    }

    pub fn is_listed(&self) -> bool {
        self.listed.is_some()
    }

    /// What lies in a folder, if it is this one.
    pub fn list(&mut self, folder: &str, paths: Vec<String>) {
        if folder == self.folder {
            self.listed = Some(paths);
            self.search();
        }
    }

    fn search(&mut self) {
        self.chosen = 0;
        let paths = self.listed.as_deref().unwrap_or_default();
        self.matching = ranked(&self.typed, paths.iter().map(String::as_str));
        // Hidden ones have to be asked for.
        if !self.typed.starts_with('.') {
            self.matching.retain(|at| !paths[*at].starts_with('.') && !paths[*at].contains("/."));
        }
    }

    /// There is something to choose.
    pub fn offers(&self) -> bool {
        !self.matching.is_empty()
    }

    pub fn move_by(&mut self, rows: isize) {
        let last = self.matching.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(rows).min(last);
    }

    /// The text for the chosen path, with what the folder was called, and whether it is a folder, so that there is more
    /// to choose.
    pub fn chosen(&self) -> Option<(String, bool)> {
        let path = self.listed.as_ref()?.get(*self.matching.get(self.chosen)?)?;
        let mut text = mention(&format!("{}{path}", self.folder));
        let is_folder = path.ends_with('/');
        if is_folder && text.ends_with('"') {
            text.pop();
        }
        Some((text, is_folder))
    }

    /// Rows that it would like of a conversation of so many, with the heading.
    pub fn rows(&self, conversation: u16) -> u16 {
        if self.matching.is_empty() {
            return 0;
        }
        u16::try_from(1 + self.matching.len().min(ROWS)).unwrap_or(u16::MAX).min(conversation / 2)
    }

    /// The heading and the paths around the chosen one, at most `rows` of `columns`.
    pub fn lines(&self, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
        let listed = self.listed.as_deref().unwrap_or_default();
        let count = format!(" {} of {} ", self.chosen + 1, self.matching.len());
        let title =
            format!(" files in {} ", if self.folder.is_empty() { "./".to_owned() } else { one_line(&self.folder) });
        let rule = columns.saturating_sub(width(&title) + width(&count) + 2);
        let heading = Line::from(vec![
            skin.styled(skin.theme.border, skin.glyphs.rule(1)),
            skin.styled(skin.theme.accent, title),
            skin.styled(skin.theme.border, skin.glyphs.rule(rule)),
            skin.dim(count),
            skin.styled(skin.theme.border, skin.glyphs.rule(1)),
        ]);
        let room = rows.saturating_sub(1).min(ROWS);
        let first = (self.chosen + 1).saturating_sub(room);
        let paths = self.matching.iter().enumerate().skip(first).take(room).map(|(index, at)| {
            let path = listed.get(*at).map(|path| one_line(path)).unwrap_or_default();
            let (sign, style) = match index == self.chosen {
                true => (skin.glyphs.prompt, skin.theme.strong),
                false => (" ", skin.theme.text),
            };
            let sign = skin.styled(skin.theme.accent, format!(" {sign} "));
            skin.fit(Line::from(vec![sign, skin.styled(style, path)]), columns)
        });
        std::iter::once(skin.fit(heading, columns)).chain(paths).take(rows).collect()
    }
}
