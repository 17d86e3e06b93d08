//! Which themes there are, which one is in force, and which one is only being looked at.
//!
//! The reader's own are files in a folder beside the settings; one with the name of a compiled in theme takes its place.

use std::path::Path;

use super::palette::Depth;
use super::theme::{FILES, Named, Theme, ThemeError, built_in, read};

#[derive(Debug, Clone)]
pub struct Looks {
    /// One that is not right is told when it is asked for.
    themes: Vec<(String, Result<Named, ThemeError>)>,
    depth: Depth,
    /// The one in force.
    chosen: String,
    /// The one that is looked at.
    shown: String,
    theme: Theme,
}

impl Looks {
    /// The compiled in themes.
    pub fn new(depth: Depth) -> Self {
        let themes = FILES.iter().map(|(name, _)| ((*name).to_owned(), built_in(name))).collect();
        let mut looks = Self { themes, depth, chosen: String::new(), shown: String::new(), theme: Theme::default() };
        looks.show("default");
        looks.chosen = "default".to_owned();
        looks
    }

    /// Adds the files `NAME.toml` of a folder, which need not be there.
    pub fn add_folder(&mut self, folder: &Path) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        for path in paths {
            let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            let theme = match std::fs::read_to_string(&path) {
                Ok(text) => read(&name, &text),
                Err(error) => Err(ThemeError::Parse { name: name.clone(), message: error.to_string() }),
            };
            self.themes.retain(|(known, _)| *known != name);
            self.themes.push((name, theme));
        }
    }

    /// Takes the theme that was asked for; without one, `mono` where `NO_COLOR` is set, else `default`.
    pub fn choose_first(&mut self, name: Option<&str>) -> Result<(), ThemeError> {
        self.choose(name.unwrap_or(if no_color() { "mono" } else { "default" }))
    }

    pub fn choose(&mut self, name: &str) -> Result<(), ThemeError> {
        self.find(name)?;
        self.show(name);
        self.chosen = name.to_owned();
        Ok(())
    }

    /// Shows a theme without taking it; one that is not right leaves all as it is.
    pub fn browse(&mut self, name: &str) {
        if self.shown != name {
            self.show(name);
        }
    }

    /// Goes back to the one in force.
    pub fn cancel(&mut self) {
        if self.shown != self.chosen {
            self.show(&self.chosen.clone());
        }
    }

    /// The style of every role, in colours that the terminal shows.
    pub fn theme(&self) -> Theme {
        self.theme
    }

    pub fn chosen(&self) -> &str {
        &self.chosen
    }

    /// Names, and a line about each.
    pub fn list(&self) -> impl Iterator<Item = (&str, String)> {
        self.themes.iter().map(|(name, theme)| match theme {
            Ok(named) => (name.as_str(), named.about.clone()),
            Err(error) => (name.as_str(), error.to_string()),
        })
    }

    /// Whether the terminal shows no colours, so that all themes look alike.
    pub fn is_without_colour(&self) -> bool {
        self.depth == Depth::None
    }

    fn find(&self, name: &str) -> Result<&Named, ThemeError> {
        match self.themes.iter().find(|(known, _)| known == name) {
            Some((_, theme)) => theme.as_ref().map_err(Clone::clone),
            None => {
                let known = self.themes.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
                Err(ThemeError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    fn show(&mut self, name: &str) {
        self.shown = name.to_owned();
        // Without colours a theme's own weight and signs would be missing; `mono` has them.
        let name = if self.is_without_colour() { "mono" } else { name };
        if let Ok(named) = self.find(name) {
            self.theme = named.theme.map(|style| self.depth.reduce(style));
        }
    }
}

/// <https://no-color.org>: present and not empty.
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use ratatui::style::{Color, Style};

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn a_theme_of_ones_own_says_what_differs() {
        let folder = folder(&[
            ("mine.toml", "base = 'mono'\nabout = 'mine'\naccent = { fg = '#102030' }"),
            ("mono.toml", "good = { bold = true }"),
            ("notes.txt", "no theme"),
        ]);
        let mut looks = Looks::new(Depth::Full);
        looks.add_folder(folder.path());
        looks.choose("mine").unwrap();
        assert_eq!(looks.theme().accent, Style::new().fg(Color::Rgb(16, 32, 48)));
        assert_eq!(looks.theme().warning, Theme::named("mono").unwrap().warning);
        looks.choose("mono").unwrap();
        assert_eq!(looks.theme().accent, Theme::named("default").unwrap().accent);
        assert_eq!(looks.list().filter(|(name, _)| *name == "mono").count(), 1);
        assert!(looks.list().any(|entry| entry == ("mine", "mine".to_owned())));
        assert!(!looks.list().any(|(name, _)| name == "notes"));
    }

    #[test]
    fn what_is_looked_at_goes_when_it_was_not_chosen() {
        let mut looks = Looks::new(Depth::Full);
        let before = looks.theme();
        looks.browse("projector-dark");
        assert_ne!(looks.theme(), before);
        looks.cancel();
        assert_eq!((looks.theme(), looks.chosen()), (before, "default"));
    }

    #[test]
    fn a_theme_that_is_not_right_is_told_when_it_is_asked_for() {
        let folder = folder(&[
            ("odd.toml", "good = { fg = 'geen' }"),
            ("worse.toml", "goood = {}"),
            ("lost.toml", "base = 'nothing'"),
            ("round.toml", "base = 'round'"),
        ]);
        let mut looks = Looks::new(Depth::Full);
        looks.add_folder(folder.path());
        for (name, words) in [
            ("odd", "the theme 'odd' is not right: 'geen' of 'good' is not a colour; 'lightcyan', '#66ccff'"),
            ("worse", "unknown field `goood`"),
            ("lost", "the theme 'lost' is not right: its base 'nothing' is none of default, light"),
            ("round", "the theme 'round' is not right: it is its own base; a base is one of default, light"),
            ("solarised", "there is no theme 'solarised'; there are default, light"),
        ] {
            let error = looks.choose(name).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let before = looks.theme();
        looks.browse("odd");
        assert_eq!((looks.theme(), looks.chosen()), (before, "default"));
        let (_, about) = looks.list().find(|(name, _)| *name == "odd").unwrap();
        assert!(about.contains("is not right"));
    }

    #[test]
    fn without_colours_all_themes_are_mono() {
        let mut looks = Looks::new(Depth::None);
        looks.choose("projector-light").unwrap();
        assert_eq!(looks.theme(), Theme::named("mono").unwrap());
    }
}
