use proptest::prelude::*;

use super::*;

/// Types `keys` in the normal mode at the `|` in `text`; `\x1b` leaves the insert mode.
fn vi(text: &str, keys: &str) -> Composer {
    let mut composer = Composer::default();
    composer.use_vi(true);
    composer.insert(&text.replace('|', ""));
    composer.vi_escape();
    composer.cursor = text.find('|').unwrap_or(0);
    for key in keys.chars() {
        match key {
            '\x1b' => {
                composer.vi_escape();
            }
            key if composer.is_normal() => composer.vi_key(key, 40),
            key => composer.insert(key.encode_utf8(&mut [0; 4])),
        }
    }
    composer
}

/// The text with a `|` where the cursor stands.
fn after(text: &str, keys: &str) -> String {
    let composer = vi(text, keys);
    let mut text = composer.text().to_owned();
    text.insert(composer.cursor, '|');
    text
}

/// Worked out by hand from vi's definition.
#[test]
fn commands() {
    for (text, keys, expected) in [
        ("|one two", "w", "one |two"),
        ("|one two", "2l", "on|e two"),
        ("|one two", "9l", "one tw|o"),
        ("one |two", "9h", "|one two"),
        ("|one two", "e", "on|e two"),
        ("|one two", "2e", "one tw|o"),
        ("one tw|o", "b", "one |two"),
        ("one |two", "0", "|one two"),
        ("  one |two", "^", "  |one two"),
        ("|one two", "$", "one tw|o"),
        ("one\ntwo\nthr|ee", "gg", "|one\ntwo\nthree"),
        ("|one\ntwo\nthree", "2G", "one\n|two\nthree"),
        ("|one\ntwo\nthree", "G", "one\ntwo\nthre|e"),
        ("o|ne\ntwo", "j", "one\nt|wo"),
        ("one\nt|wo", "k", "o|ne\ntwo"),
        ("|one, two", "f,", "one|, two"),
        ("|one, two", "t,", "on|e, two"),
        ("|one two three", "dw", "|two three"),
        ("|one two three", "2dw", "|three"),
        ("|one two three", "d2w", "|three"),
        ("one |two\nthree", "dw", "one| \nthree"),
        ("|one two", "cwsix\x1b", "si|x two"),
        ("|one  two", "c2wsix\x1b", "si|x"),
        ("one |two", "d0", "|two"),
        ("|one two", "de", "| two"),
        ("|one, two", "df,", "| two"),
        ("|one, two", "dt,", "|, two"),
        ("|one", "dfx", "|one"),
        ("one t|wo", "d$", "one |t"),
        ("one t|wo", "D", "one |t"),
        ("one t|wo", "Cen\x1b", "one te|n"),
        ("one|", "x", "on|e"),
        ("|one", "2x", "|e"),
        ("on|e", "X", "o|e"),
        ("|one", "xp", "n|oe"),
        ("one t|wo three", "diw", "one | three"),
        ("one t|wo three", "daw", "one |three"),
        ("one t|wo three", "ciwx\x1b", "one |x three"),
        ("one\nt|wo\nthree", "dd", "one\n|three"),
        ("one\ntwo\nthr|ee", "dd", "one\n|two"),
        ("o|ne\ntwo\nthree", "2dd", "|three"),
        ("o|ne\ntwo\nthree", "dj", "|three"),
        ("one\nt|wo\nthree", "dgg", "|three"),
        ("one\nt|wo\nthree", "dG", "|one"),
        ("o|ne\ntwo", "ddp", "two\n|one"),
        ("one\nt|wo", "yyP", "one\n|two\ntwo"),
        ("o|ne", "yy2p", "one\n|one\none"),
        ("one\n|two", "ccsix\x1b", "one\nsi|x"),
        ("|one two", "yiwP", "on|eone two"),
        ("|one two", "ywwP", "one one| two"),
        ("|one", "rx", "|xne"),
        ("|one", "3rx", "xx|x"),
        ("|one", "ix\x1b", "|xone"),
        ("|one", "ax\x1b", "o|xne"),
        ("  o|ne", "Ix\x1b", "  |xone"),
        ("|one", "Ax\x1b", "one|x"),
        ("|one", "ox\x1b", "one\n|x"),
        ("|one", "Ox\x1b", "|x\none"),
        ("|one\n  two", "J", "one| two"),
        ("|one two", "dwu", "|one two"),
        ("|one two", "dwdwuu", "|one two"),
        ("|one", "zx", "|ne"),
        ("|日本語", "lx", "日|語"),
    ] {
        assert_eq!(after(text, keys), expected, "{keys} on {text}");
    }
}

#[test]
fn counts_and_operators_wait_for_the_rest() {
    for keys in ["2", "d", "2d", "d2", "g", "f", "r", "ci"] {
        assert_eq!(parse(keys), Parsed::More, "{keys}");
        assert_eq!(vi("|one", keys).vi().map(Vi::keys), Some(keys));
    }
    for keys in ["z", "dz", "gz", "cix"] {
        assert_eq!(parse(keys), Parsed::Unknown, "{keys}");
    }
    // Escape drops what was begun.
    assert_eq!(after("|one two", "2d\x1bx"), "|ne two");
    assert_eq!(
        parse("99999999999999999999w"),
        Parsed::Command { count: Some(MOST), verb: Verb::Move(Motion::NextWord) }
    );
}

#[test]
fn units_are_one_character() {
    let mut composer = Composer::default();
    composer.use_vi(true);
    composer.insert("a");
    composer.paste(&"long ".repeat(1000)).unwrap();
    composer.insert("b");
    composer.vi_escape();
    composer.vi_key('h', 80);
    assert_eq!(composer.cursor, 1);
    composer.vi_key('x', 80);
    assert_eq!(composer.text(), "ab");
    composer.vi_key('P', 80);
    assert_eq!(composer.draft().sent(), format!("a{}b", "long ".repeat(1000)));
}

proptest! {
    #[test]
    fn no_keys_break_anything(text in "[ab ,\n日é🇫🇷]{0,30}", keys in "[hjklwbe0$gGdcypPxXDCusSaiAIoOrJftFT^2-9a \x1b]{0,30}") {
        let composer = vi(&text, &keys);
        prop_assert!(composer.text().is_char_boundary(composer.cursor));
    }
}
