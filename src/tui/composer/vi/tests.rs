use proptest::prelude::*;

use super::command::{MOST, Target};
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

/// Likewise.
#[test]
fn finding_again_brackets_and_case() {
    for (text, keys, expected) in [
        ("|a,b,c,d", "f,;", "a,b|,c,d"),
        ("|a,b,c,d", "f,2;", "a,b,c|,d"),
        ("|a,b,c,d", "2f,,", "a|,b,c,d"),
        ("|a,b,c,d", "t,;", "a,|b,c,d"),
        ("|a,b,c,d", "t,;;;", "a,b,|c,d"),
        ("a,b,c|,d", "T,;", "a,|b,c,d"),
        ("|a,b,c,d", "f,;;;;", "a,b,c|,d"),
        ("|a,b,c,d", "f,d;", "a|c,d"),
        ("|a,b,c,d", "dt,;", ",|b,c,d"),
        ("|one", ";", "|one"),
        ("f|(a[0], (b))", "%", "f(a[0], (b)|)"),
        ("|f(a[0], (b))", "%", "f(a[0], (b)|)"),
        ("f(a[0], (b)|)", "%", "f|(a[0], (b))"),
        ("f(a|[0])", "%", "f(a[0|])"),
        ("|f(a) x", "d%", "| x"),
        ("f(a|) x", "d%", "f| x"),
        ("f|(a", "%", "f|(a"),
        ("{|{\n}\n}", "%", "{{\n|}\n}"),
        ("|one", "~", "O|ne"),
        ("|oNe", "3~", "On|E"),
        ("|straße", "gUiw", "|STRASSE"),
        ("ONE |TWO", "gue", "ONE |two"),
        ("o|ne\ntwo\nthree", "gUj", "|ONE\nTWO\nthree"),
        ("o|ne\ntwo", "gUU", "|ONE\ntwo"),
    ] {
        assert_eq!(after(text, keys), expected, "{keys} on {text}");
    }
}

#[test]
fn what_is_selected_is_operated_on() {
    for (text, keys, expected) in [
        ("|one two", "vd", "|ne two"),
        ("|one two", "ved", "| two"),
        ("|one two", "vwx", "|wo"),
        ("one t|wo", "vbd", "one |o"),
        ("one t|wo three", "viwd", "one | three"),
        ("one t|wo three", "vawd", "one |three"),
        ("|one two", "vecsix\x1b", "si|x two"),
        ("|one two", "vey$p", "one twoon|e"),
        ("|one two", "yiwwvep", "one on|e"),
        ("|one two", "yiwwvepp", "one onetw|o"),
        ("|one two", "ve~", "|ONE two"),
        ("|One TWO", "v$u", "|one two"),
        ("|one two", "veU", "|ONE two"),
        ("|one two", "vell\x1bx", "one |wo"),
        ("one t|wo", "vlohrx", "one |xxx"),
        ("on|e\ntwo", "vjrx", "on|x\nxxx"),
        ("o|ne\ntwo\nthree", "vjd", "o|o\nthree"),
        ("o|ne\ntwo\nthree", "Vd", "|two\nthree"),
        ("o|ne\ntwo\nthree", "Vjd", "|three"),
        ("one\nt|wo\nthree", "Vkd", "|three"),
        ("o|ne\ntwo\nthree", "vjD", "|three"),
        ("o|ne\ntwo\nthree", "vVjd", "|three"),
        ("o|ne\ntwo", "Vyp", "one\n|one\ntwo"),
        ("o|ne\ntwo\nthree", "ddVp", "|one\nthree"),
        ("o|ne\ntwo\nthree", "Vjcx\x1b", "|x\nthree"),
        ("o|ne\ntwo\nthree", "VjJ", "one| two\nthree"),
        ("o|ne\ntwo\nthree", "VGJ", "one two| three"),
        ("o|ne", "Vv\x1bx", "o|e"),
        ("o|ne", "vvx", "o|e"),
        // Nothing older comes in the place of what is selected.
        ("on|e", "vjjkkd", "o|n"),
    ] {
        assert_eq!(after(text, keys), expected, "{keys} on {text}");
    }
    let composer = vi("one |two", "vh");
    assert_eq!(
        (composer.selection(), composer.vi().map(Vi::mode)),
        (Some(3..5), Some(Mode::Select { from: 4, lines: false }))
    );
    assert_eq!(vi("one\nt|wo\nthree", "V").selection(), Some(4..7));
}

#[test]
fn a_dot_does_the_last_change_again() {
    for (text, keys, expected) in [
        ("|one two three", "dw.", "|three"),
        ("|one two three four", "dw2.", "|four"),
        ("|abcdef", "2x.", "|ef"),
        ("|abcdef", "2x3.", "|f"),
        ("|one two three", "cwsix\x1bw.", "six si|x three"),
        ("|one two", "A!\x1b.", "one two!|!"),
        ("|one\ntwo", "I- \x1bj.", "- one\n-| two"),
        ("|one", "onew\x1b.", "one\nnew\nne|w"),
        ("|one two", "~w.", "One T|wo"),
        ("|aaa", "rbl.", "b|ba"),
        ("|one\ntwo\nthree", "J.", "one two| three"),
        ("|a b", "ylp.", "aa|a b"),
        ("|one two three", "df .", "|three"),
        ("|one two three four", "vwd.", "|ree four"),
        ("|a\nb\nc\nd\ne", "Vjd.", "|e"),
        ("|one two", "yw.", "|one two"),
        ("|one two", ".", "|one two"),
        // A motion or taking back is no change.
        ("|one two three", "dwwu.", "|two three"),
        // What is changed and typed is taken back as one.
        ("|one two", "cwsix\x1bu", "|one two"),
        ("|one two", "cwsix\x1bw.u", "six |two"),
    ] {
        assert_eq!(after(text, keys), expected, "{keys} on {text}");
    }
}

#[test]
fn counts_and_operators_wait_for_the_rest() {
    for keys in ["2", "d", "2d", "d2", "g", "f", "r", "ci"] {
        assert_eq!(parse(keys, false), Parsed::More, "{keys}");
        assert_eq!(vi("|one", keys).vi().map(Vi::keys), Some(keys));
    }
    for keys in ["z", "dz", "gz", "cix"] {
        assert_eq!(parse(keys, false), Parsed::Unknown, "{keys}");
    }
    // Escape drops what was begun.
    assert_eq!(after("|one two", "2d\x1bx"), "|ne two");
    assert_eq!(
        parse("99999999999999999999w", false),
        Parsed::Command { count: Some(MOST), verb: Verb::Move(Target::To(Motion::NextWord)) }
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

/// A paste is a word.
#[test]
fn words_go_around_units() {
    let paste = "long ".repeat(1000);
    let composer = |keys: &str| {
        let mut composer = Composer::default();
        composer.use_vi(true);
        composer.insert("a ");
        composer.paste(&paste).unwrap();
        composer.insert(" two three");
        composer.vi_escape();
        composer.cursor = 2;
        keys.chars().for_each(|key| composer.vi_key(key, 80));
        composer
    };
    let label = composer("").draft().units()[0].range();
    for (keys, cursor) in
        [("w", label.end + 1), ("wb", 2), ("e", label.end + 3), ("wge", label.end + 1), ("b", 0), ("be", 2)]
    {
        assert_eq!(composer(keys).cursor, cursor, "{keys}");
    }
    for (keys, sent) in [
        ("dw", "a two three".to_owned()),
        ("d2w", "a three".to_owned()),
        ("dwwP", format!("a two {paste} three")),
        ("diw", "a  two three".to_owned()),
        ("daw", "a two three".to_owned()),
        ("wdb", "a two three".to_owned()),
        ("rx", "a x two three".to_owned()),
        ("vd", "a  two three".to_owned()),
        ("vU", format!("a {paste} two three")),
        ("gU2w", format!("a {paste} TWO three")),
        ("wywbvp", "a two  two three".to_owned()),
        ("v", format!("a {paste} two three")),
    ] {
        assert_eq!(composer(keys).draft().sent(), sent, "{keys}");
    }
    assert_eq!(composer("v").selection(), Some(label));
}

proptest! {
    #[test]
    fn no_keys_break_anything(text in "[ab ,\n日é🇫🇷]{0,30}", keys in "[hjklwbe0$gGdcypPxXDCusSaiAIoOrJftFTvVU~%;,.^2-9a \x1b]{0,30}") {
        let composer = vi(&text, &keys);
        prop_assert!(composer.text().is_char_boundary(composer.cursor));
        prop_assert!(composer.selection().is_none_or(|range| composer.text().get(range).is_some()));
    }
}
