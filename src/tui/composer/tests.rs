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

#[test]
fn pastes_with_few_bytes_or_lines_are_text() {
    let mut c = Composer::default();
    assert!(c.paste(&"x".repeat(LONG_PASTE)).is_none());
    c.clear();
    assert!(c.paste(&"x\n".repeat(LONG_PASTE_LINES)).is_none());
    assert!(c.paste(&"x\r".repeat(LONG_PASTE_LINES * 100)).is_some());
    assert!(c.draft().sent().ends_with("x\nx\n"));
}

#[test]
fn another_tokenizer_counts_anew() {
    let mut c = composer("a");
    let id = c.paste(&"x".repeat(2000)).unwrap().id;
    c.counted(id, 123);
    assert_eq!((c.text(), c.uncounted().len()), ("a[pasted 2.0 kB, 123 tokens]", 0));
    c.forget_counts();
    assert_eq!((c.text(), c.uncounted().len()), ("a[pasted 2.0 kB, est. 500 tokens]", 1));
    // What is put back was counted in the meantime.
    c.clear();
    c.counted(id, 99);
    c.undo();
    assert_eq!(c.text(), "a[pasted 2.0 kB, 99 tokens]");
    assert_eq!(c.cursor(), c.text().len());
}

mod always {
    use super::*;
    use proptest::prelude::*;

    /// One of everything that changes the text or the cursor.
    fn act(c: &mut Composer, number: u8) {
        match number {
            0 => c.insert("a"),
            1 => c.insert("日"),
            2 => c.insert("one two\nthree"),
            3 => drop(c.paste(&"long ".repeat(300))),
            4 => c.insert("@f "),
            5 => drop(c.attach("f", "f", "\tfile".into())),
            6 => c.counted(1, 7),
            7 => c.counted(2, 12_345_678),
            8 => c.forget_counts(),
            9 => c.move_cursor(Motion::Left),
            10 => c.move_cursor(Motion::WordLeft),
            11 => c.move_cursor(Motion::WordRight),
            12 => c.delete(Motion::Left, false),
            13 => c.delete(Motion::WordLeft, true),
            14 => c.delete(Motion::LineEnd, true),
            15 => c.yank(),
            16 => c.undo(),
            17 => c.redo(),
            18 => c.up(7),
            19 => c.down(7),
            20 => drop(c.take()),
            21 => c.clear(),
            22 => {
                let edited = Draft::relabelled(&format!("x{}", c.text()), c.draft());
                c.replace(edited);
            }
            23 => c.move_cursor(Motion::Start),
            number => {
                c.use_vi(true);
                c.vi_escape();
                for key in ["x", "dw", "db", "p", "yyP", "dd", "J", "rx", "u", "ciw"][usize::from(number) - 24].chars()
                {
                    c.vi_key(key, 7);
                }
                c.use_vi(false);
            }
        }
    }

    proptest! {
        #[test]
        fn units_stay_whole(numbers in proptest::collection::vec(0u8..34, 0..60)) {
            let mut c = Composer::default();
            for number in numbers {
                act(&mut c, number);
                let text = c.text();
                prop_assert!(text.is_char_boundary(c.cursor()), "{text:?} {}", c.cursor());
                prop_assert_eq!(c.draft().snap(c.cursor(), true), c.cursor());
                let mut at = 0;
                for unit in c.draft().units() {
                    let range = unit.range();
                    prop_assert!(at <= range.start, "{number}: {text:?}");
                    let label = &text[range.clone()];
                    prop_assert!(label.starts_with('[') && label.ends_with(']') && !label[1..].contains('['), "{label}");
                    at = range.end;
                }
                c.cursor_position(7);
            }
        }
    }
}
