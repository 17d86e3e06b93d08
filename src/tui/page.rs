//! A text over the whole screen that is scrolled and searched: the help and the log.

use ratatui::text::Line;

use super::help;
use super::keymap::Keymap;
use super::keys::{Action, Context};
use super::picker::typed_line;
use super::skin::{Skin, Text};
use super::text::{sanitize, wrap};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The keys of the place that it was asked for from stand first.
    Help(Context),
    /// The end of the log, the newest line last.
    Log(Vec<String>),
}

#[derive(Debug, Clone)]
pub struct Page {
    content: Content,
    filter: String,
    /// The first line in view. Drawing keeps it within the text.
    pub top: usize,
}

impl Page {
    pub fn help(place: Context) -> Self {
        Self { content: Content::Help(place), filter: String::new(), top: 0 }
    }

    /// Opens at its end.
    pub fn log(text: &str) -> Self {
        let lines = text.lines().map(sanitize::one_line).collect();
        Self { content: Content::Log(lines), filter: String::new(), top: usize::MAX }
    }

    pub fn is_help(&self) -> bool {
        matches!(self.content, Content::Help(_))
    }

    pub fn search(&mut self, text: &str) {
        self.filter.push_str(&typed_line(text));
        self.top = 0;
    }

    pub fn erase(&mut self) {
        self.filter.pop();
        self.top = 0;
    }

    pub fn clear(&mut self) {
        self.filter.clear();
        self.top = 0;
    }

    pub fn scroll_by(&mut self, lines: isize) {
        self.top = self.top.saturating_add_signed(lines);
    }

    /// What stands above the text: what it is, and what is searched for.
    pub fn heading(&self, keys: &Keymap, skin: &Skin, columns: usize) -> Text {
        let title = match &self.content {
            Content::Help(_) => "help",
            Content::Log(_) => "log",
        };
        let mut left = vec![skin.styled(skin.theme.strong, title), skin.plain(" ")];
        left.push(skin.styled(skin.theme.accent, skin.glyphs.prompt));
        left.push(skin.plain(format!(" {}", self.filter)));
        left.push(skin.styled(skin.theme.accent, skin.glyphs.caret));
        if self.filter.is_empty() {
            left.push(skin.dim(" type to search"));
        }
        skin.spread(Line::from(left), Line::from(skin.dim(format!("{} closes", keys.say(Action::Escape)))), columns)
    }

    pub fn lines(&self, keys: &Keymap, skin: &Skin, columns: usize) -> Vec<Text> {
        let mut lines = match &self.content {
            Content::Help(place) => help::lines(keys, *place, &self.filter, skin, columns),
            Content::Log(log) => log
                .iter()
                .filter(|line| matches(&self.filter, &[line]))
                .flat_map(|line| {
                    let rows = wrap::wrap(line, columns);
                    rows.into_iter().map(|row| Line::from(skin.plain(&line[row.start..row.end]))).collect::<Vec<_>>()
                })
                .collect(),
        };
        if lines.is_empty() {
            let word = if self.filter.is_empty() { "nothing was logged" } else { "nothing of this kind" };
            lines.push(Line::from(skin.dim(word)));
        }
        lines
    }
}

/// Whether each word of the filter is in one of the texts, in whatever case.
pub fn matches(filter: &str, texts: &[&str]) -> bool {
    let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
    filter.to_lowercase().split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::super::skin::test_skin;
    use super::*;

    fn shown(page: &Page, columns: usize) -> Vec<String> {
        let lines = page.lines(&Keymap::default(), &test_skin(), columns);
        lines.iter().map(|line| line.spans.iter().map(|span| span.content.as_ref()).collect()).collect()
    }

    #[test]
    fn a_log_is_made_safe_wrapped_and_searched() {
        let mut page = Page::log("one \x1b[2J\ntwo words\n");
        assert_eq!(shown(&page, 20), ["one ^[[2J", "two words"]);
        assert_eq!(shown(&page, 5), ["one", "^[[2J", "two", "words"]);
        page.search("WORDS two");
        assert_eq!(shown(&page, 20), ["two words"]);
        page.search("x");
        assert_eq!(shown(&page, 20), ["nothing of this kind"]);
        assert_eq!(shown(&Page::log(""), 20), ["nothing was logged"]);
    }

    #[test]
    fn the_help_begins_with_the_keys_of_the_place_it_was_asked_for_from() {
        for place in [Context::Compose, Context::Message, Context::Token] {
            let shown = shown(&Page::help(place), 80);
            assert_eq!(shown[0], place.title());
            assert_eq!(shown.iter().filter(|line| *line == place.title()).count(), 1);
        }
    }

    #[test]
    fn the_help_finds_keys_commands_and_the_names_of_actions() {
        let mut page = Page::help(Context::Compose);
        page.search("send the");
        assert!(shown(&page, 80).iter().any(|line| line.starts_with("Enter") && line.contains("send")));
        let mut page = Page::help(Context::Compose);
        page.search("kill-line-end");
        assert!(shown(&page, 78).iter().any(|line| line.starts_with("Ctrl-K") && line.ends_with("kill-line-end")));
        let mut page = Page::help(Context::Compose);
        page.search("/clear");
        assert!(shown(&page, 80).iter().any(|line| line.starts_with("/clear")));
    }
}
