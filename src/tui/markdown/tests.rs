use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::super::text::rows::Role;
use super::super::text::sanitize::sanitize;
use super::super::text::width;
use super::*;

fn rendered(text: &str, columns: usize) -> Markdown {
    let mut markdown = Markdown::default();
    markdown.update(text, columns);
    markdown
}

fn shown(text: &str, columns: usize) -> Vec<String> {
    let markdown = rendered(text, columns);
    (0..markdown.rows().len()).map(|row| markdown.rows().get(row).unwrap().text(text)).collect()
}

#[test]
fn blocks_are_as_far_apart_as_in_the_source() {
    let text = "# One\n\ntwo\n* three\n* four\n\n\n\nfive\n## Six\nseven\n***\nend";
    let expected = ["One", "───", "", "two", " • three", " • four", "", "five", "Six", "seven", "────────", "end"];
    assert_eq!(shown(text, 8), expected);
}

#[test]
fn lists_hang_under_their_first_word_and_keep_their_numbers() {
    let text = "9. the river crossing\n10. the court\n    - of kings\n      and queens\n11) other";
    let expected = [
        " 9. the river",
        "    crossing",
        "10. the court",
        "     • of",
        "       kings",
        "       and",
        "       queens",
        "11) other",
    ];
    assert_eq!(shown(text, 13), expected);
    assert_eq!(shown("- [ ] open\n- [x] done\n-", 20), [" • [ ] open", " • [x] done", " • "]);
}

#[test]
fn lines_of_a_paragraph_stay_lines() {
    assert_eq!(shown("roses\nviolets  \nsugar", 20), ["roses", "violets", "sugar"]);
}

#[test]
fn quotes_have_a_bar_along_them() {
    assert_eq!(shown("> one\n>\n> > two\n\nthree", 20), ["│ one", "│", "│ │ two", "", "three"]);
}

#[test]
fn tables_are_aligned_and_wrap_where_there_is_no_room() {
    let text = "| chip | tok/s |\n|:--|--:|\n| cpu | 128.4 |\n| npu, emulated | 9 |\n\nend";
    assert_eq!(
        shown(text, 40),
        ["chip          │ tok/s", "──────────────┼──────", "cpu           │ 128.4", "npu, emulated │     9", "", "end"]
    );
    assert_eq!(
        shown(text, 17),
        [
            "chip      │ tok/s",
            "──────────┼──────",
            "cpu       │ 128.4",
            "──────────┼──────",
            "npu,      │     9",
            "emulated  │",
            "",
            "end"
        ]
    );
    assert_eq!(
        shown(text, 9),
        ["chip", "cpu", "tok/s", "128.4", "─────────", "chip", "npu,", "emulated", "tok/s", "9", "", "end"]
    );
}

#[test]
fn code_stands_between_rules_and_starts_at_the_edge() {
    let text = "so:\n```rust\nfn main() {\n    let a_long_name = 1;\n}\n```\nend";
    assert_eq!(
        shown(text, 16),
        [
            "so:",
            "── rust ────────",
            "fn main() {",
            "    let",
            "      a_long_nam",
            "      e = 1;",
            "}",
            "────────────────",
            "end"
        ]
    );
    // While it is open, nothing says that it is over.
    assert_eq!(shown("```\nx", 4), ["────", "x"]);
    assert_eq!(
        shown("1. so\n   ```sh\n   ls -l\n   ```", 14),
        [" 1. so", "    ── sh ────", "    ls -l", "    ──────────"]
    );
    let markdown = rendered(text, 16);
    let lines: Vec<&str> = markdown.fences()[0].lines.iter().map(|line| &text[line.clone()]).collect();
    assert_eq!(lines, ["fn main() {", "    let a_long_name = 1;", "}"]);
}

#[test]
fn links_say_where_they_lead() {
    assert_eq!(
        shown("[ortalk](https://a.example) <https://b.example> ![x](y.png)", 80),
        ["ortalk (https://a.example) https://b.example image: x (y.png)"]
    );
    assert_eq!(shown("[a][b] and [B]\n\n[b]: /c", 80), ["a (/c) and B (/c)"]);
}

#[test]
fn what_entities_name_is_made_safe() {
    assert_eq!(shown("a&#27;[31m&amp;&#x202e;b&#10;c `&lt;`", 80), ["a^[[31m&<202e>b c &lt;"]);
    assert_eq!(shown("[a](/&#27;)\n\n```&#27;x\n```", 80)[0], "a (/^[)");
}

#[test]
fn html_is_shown_as_text_and_breaks_lines() {
    assert_eq!(
        shown("<div>\n<b>x</b>\n</div>\n\na<br>\n b <i>c</i><br/><br> d", 80),
        ["<div>", "<b>x</b>", "</div>", "", "a", "b <i>c</i>", "", "d"]
    );
}

#[test]
fn styles_add_up() {
    let text = "**bold *both*** ~~gone~~ `code` # no";
    let markdown = rendered(text, 80);
    let row = markdown.rows().get(0).unwrap();
    let styles: Vec<_> = row
        .pieces
        .iter()
        .map(|piece| {
            (&text[piece.source.clone()], piece.style.role, piece.style.bold, piece.style.italic, piece.style.struck)
        })
        .collect();
    assert_eq!(
        styles,
        [
            ("bold ", Role::Text, true, false, false),
            ("both", Role::Text, true, true, false),
            (" ", Role::Text, false, false, false),
            ("gone", Role::Text, false, false, true),
            (" ", Role::Text, false, false, false),
            ("code", Role::Code, false, false, false),
            (" # no", Role::Text, false, false, false),
        ]
    );
}

#[test]
fn deep_nesting_leaves_room_for_words() {
    let text = format!("{}word", "- ".repeat(40));
    assert!(shown(&text, 12).iter().all(|row| width(row) <= 12));
    assert!(shown(&text, 12).last().unwrap().ends_with("word"));
}

/// Pieces from which whole documents come about, their seams in every place.
fn fragments() -> impl Strategy<Value = Vec<&'static str>> {
    let fragment = prop::sample::select(vec![
        "a",
        "word ",
        "日本",
        "**",
        "*",
        "_",
        "`",
        "```",
        "```rust\n",
        "let a = [x];\n",
        "~~~\n",
        "\n",
        "\n\n",
        "  ",
        "    ",
        "- ",
        "* ",
        "+ ",
        "1. ",
        "2) ",
        "> ",
        ">\n",
        "# ",
        "## ",
        "#",
        "===\n",
        "---\n",
        "--",
        "-",
        "=",
        "***\n",
        "| a | b |\n",
        "|---|:-:|\n",
        "|",
        "| c ",
        "\\|",
        "[x]",
        "[x]: /u\n",
        "[x]: ",
        "/v",
        "[y](z)",
        "![",
        "](",
        ")",
        "[",
        "]",
        "<div>\n",
        "</div>",
        "<b>",
        "<!--",
        "-->",
        "<br>",
        "&amp;",
        "&#27;",
        "\\",
        "~~",
        "[ ] ",
        "\"t\"",
        "'",
        "(",
        ":",
        "é\u{301}",
    ]);
    prop::collection::vec(fragment, 0..28)
}

proptest! {
    /// However a text arrives, its rows are those of a reading of the whole.
    #[test]
    fn growing_is_reading_the_whole(fragments in fragments(), columns in 1usize..40) {
        let mut text = String::new();
        let mut grown = Markdown::default();
        for fragment in fragments {
            text.push_str(fragment);
            grown.update(&text, columns);
            let whole = rendered(&text, columns);
            prop_assert_eq!(&grown.rows, &whole.rows, "{:?}", text);
            prop_assert_eq!(&grown.fences, &whole.fences, "{:?}", text);
        }
    }

    #[test]
    fn no_row_is_wider_than_the_room(fragments in fragments(), columns in 2usize..40) {
        let text = fragments.concat();
        let markdown = rendered(&text, columns);
        for index in 0..markdown.rows().len() {
            let row = markdown.rows().get(index).unwrap();
            let line = row.text(&text);
            // Space hangs over the edge.
            prop_assert!(width(line.trim_end()) <= columns.max(4), "{:?} in {:?}", line, text);
            prop_assert!(row.end() <= text.len());
            prop_assert_eq!(sanitize(&line), line, "{:?}", text);
        }
    }

    /// Nothing that was written is lost, but for the marks of markdown.
    #[test]
    fn every_word_is_shown(lines in prop::collection::vec((0usize..8, "[a-z]{1,6}"), 1..30), columns in 12usize..40) {
        let marks = ["", "- ", "> ", "# ", "1. ", "| a | ", "    ", "**"];
        let text: String = lines.iter().map(|(mark, word)| format!("{}{word}\n", marks[*mark])).collect();
        let all = shown(&text, columns).concat();
        for (_, word) in &lines {
            prop_assert!(all.contains(word.as_str()), "{word} of {text:?} in {all:?}");
        }
    }
}

#[test]
fn code_is_what_stands_in_the_blocks() {
    for (text, expected) in [
        ("no `code`", &[][..]),
        (
            "```rs\nlet x;\n\n\tlet y;\n```\nand\n\n    indented\n\n    more\n",
            &["let x;\n\n\tlet y;\n", "indented\n\nmore\n"],
        ),
        ("> ~~~\n> quoted\n> ~~~", &["quoted\n"]),
        ("- a\n\n  ```\n  in a list\n  ```", &["in a list\n"]),
        ("-\t\tcode", &["  code\n"]),
        ("```\r\none\r\ntwo\r\n```\r\n", &["one\ntwo\n"]),
        ("```\n```", &[""]),
        ("```\nopen", &["open\n"]),
    ] {
        assert_eq!(code_blocks(text), expected, "{text:?}");
    }
}
