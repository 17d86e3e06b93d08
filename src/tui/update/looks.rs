//! The choice of a theme: the list shows each theme while the reader goes through it.

use super::super::picker::{Item, Picker, Purpose};
use super::super::state::{Overlay, State};
use super::super::text::sanitize::one_line;

/// `/theme`: the theme of this name, or a list of all.
pub fn theme(state: &mut State, name: &str) {
    if name.is_empty() {
        open(state);
    } else {
        choose(state, name);
    }
}

fn open(state: &mut State) {
    let item =
        |(name, about): (&str, String)| Item { id: name.to_owned(), label: one_line(name), detail: one_line(&about) };
    let mut picker = Picker::new(Purpose::Theme, "theme", state.looks.list().map(item).collect());
    picker.choose(state.looks.chosen());
    state.overlay = Some(Overlay::List(picker));
    if state.looks.is_without_colour() {
        state.hint = Some("this terminal shows no colours, so all themes look alike".to_owned());
    }
}

pub fn choose(state: &mut State, name: &str) {
    state.hint = Some(match state.looks.choose(name) {
        Ok(()) => format!("theme = \"{}\" in the settings keeps it", one_line(name)),
        Err(error) => one_line(&error.to_string()),
    });
}

/// Shows the theme that is chosen in the open list, and the one in force when the list is closed, however that came.
pub fn follow(state: &mut State) {
    match &state.overlay {
        Some(Overlay::List(picker)) if picker.purpose == Purpose::Theme => {
            if let Some(item) = picker.chosen() {
                state.looks.browse(&item.id);
            }
        }
        _ => state.looks.cancel(),
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;

    use super::super::super::fixtures::Desk;
    use super::super::super::theme::Theme;

    fn named(name: &str) -> Theme {
        Theme::named(name).unwrap()
    }

    #[test]
    fn the_list_shows_each_theme_and_escape_leaves_all_as_it_was() {
        let mut desk = Desk::ready();
        desk.send("/theme");
        assert_eq!(desk.state.looks.theme(), named("default"));
        desk.key(KeyCode::Down);
        assert_eq!(desk.state.looks.theme(), named("light"));
        desk.type_text("mono");
        assert_eq!(desk.state.looks.theme(), named("mono"));
        desk.key(KeyCode::Esc);
        assert_eq!((desk.state.looks.theme(), desk.state.looks.chosen()), (named("default"), "default"));
        assert!(desk.state.overlay.is_none());
    }

    #[test]
    fn enter_takes_the_theme_and_the_next_list_begins_there() {
        let mut desk = Desk::ready();
        desk.send("/theme");
        desk.type_text("projectorlight");
        desk.key(KeyCode::Enter);
        assert_eq!(
            (desk.state.looks.theme(), desk.state.looks.chosen()),
            (named("projector-light"), "projector-light")
        );
        assert_eq!(desk.state.hint.as_deref(), Some("theme = \"projector-light\" in the settings keeps it"));
        desk.send("/theme");
        assert_eq!(desk.state.looks.theme(), named("projector-light"));
        desk.key(KeyCode::Up);
        assert_eq!(desk.state.looks.theme(), named("projector-dark"));
        // However the list is closed.
        desk.ctrl('c');
        assert_eq!(desk.state.looks.theme(), named("projector-light"));
    }

    #[test]
    fn a_theme_can_be_named() {
        let mut desk = Desk::ready();
        desk.send("/theme high-contrast");
        assert_eq!(desk.state.looks.theme(), named("high-contrast"));
        desk.send("/theme solar\u{1b}[31mised");
        let hint = desk.state.hint.as_deref().unwrap();
        assert!(hint.starts_with("there is no theme 'solar") && !hint.contains('\u{1b}'), "{hint}");
        assert_eq!(desk.state.looks.theme(), named("high-contrast"));
    }
}
