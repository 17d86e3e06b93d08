use super::*;

fn composer(text: &str) -> Composer {
    let mut composer = Composer::default();
    composer.insert(text);
    composer
}

#[test]
fn backspace_removes_a_whole_character() {
    let mut c = composer("ae\u{301}👍🏽");
    c.delete(Motion::Left, false);
    assert_eq!(c.text(), "ae\u{301}");
    c.delete(Motion::Left, false);
    assert_eq!(c.text(), "a");
}

#[test]
fn killed_text_can_be_yanked() {
    let mut c = composer("one two three");
    c.delete(Motion::WordLeft, true);
    assert_eq!(c.text(), "one two ");
    c.move_cursor(Motion::LineStart);
    c.yank();
    assert_eq!(c.text(), "threeone two ");
    c.move_cursor(Motion::LineStart);
    c.delete(Motion::LineEnd, true);
    assert_eq!(c.text(), "");
}

#[test]
fn killing_at_a_line_end_joins_the_lines() {
    let mut c = composer("a\nb");
    c.move_cursor(Motion::Start);
    c.delete(Motion::LineEnd, true);
    c.delete(Motion::LineEnd, true);
    assert_eq!(c.text(), "b");
}

#[test]
fn up_moves_by_screen_lines_before_it_recalls() {
    let mut c = composer("sent");
    c.take();
    c.insert("one two three");
    assert_eq!(c.cursor_position(8), (1, 5));
    c.up(8);
    assert_eq!(c.cursor_position(8), (0, 5));
    assert_eq!(c.text(), "one two three");
    c.up(8);
    assert_eq!(c.text(), "sent");
    c.up(8);
    assert_eq!(c.text(), "sent");
    c.down(8);
    assert_eq!(c.text(), "one two three");
}

#[test]
fn escape_characters_in_a_paste_become_text() {
    assert_eq!(composer("a\x1b[2Jb\r\nc").text(), "a^[[2Jb\nc");
}

#[test]
fn a_paste_of_a_megabyte_is_wrapped_once() {
    let mut c = composer(&"lorem ipsum dolor ".repeat(60_000));
    let start = std::time::Instant::now();
    for _ in 0..100 {
        c.cursor_position(80);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn the_cursor_stays_inside_the_room_and_the_margin_behind_it() {
    let mut c = composer("ab      ");
    assert_eq!(c.cursor_position(4), (0, 4));
    c.insert("x");
    assert_eq!(c.cursor_position(4), (1, 1));
}
