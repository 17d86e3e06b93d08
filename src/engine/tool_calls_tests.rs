use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn finder(calls: CallStyle) -> CallFinder {
    let style = ToolStyle { calls, in_template: true, hidden: vec![(7, TOOL_CALLS)] };
    CallFinder::new(&style, vec!["f".into(), "get_weather".into()])
}

/// The text, and each call's name and arguments.
fn find(calls: CallStyle, pieces: &[&str]) -> (String, Vec<(String, String)>) {
    let mut finder = finder(calls);
    let mut pushed: Vec<Found> = pieces.iter().map(|piece| finder.push(piece)).collect();
    pushed.push(finder.finish());
    let (mut text, mut found) = (String::new(), Vec::new());
    for piece in pushed {
        text += &piece.text;
        for delta in piece.calls {
            match delta {
                ToolCallDelta::Start { index, id, name } => {
                    assert_eq!(index, found.len());
                    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
                    found.push((name, String::new()));
                }
                ToolCallDelta::Arguments { index, text } => {
                    assert_eq!(index, found.len() - 1);
                    found[index].1 += &text;
                }
            }
        }
    }
    assert_eq!(finder.found_any(), !found.is_empty());
    (text, found)
}

const STYLES: [CallStyle; 5] =
    [CallStyle::Tagged, CallStyle::Llama, CallStyle::MistralList, CallStyle::MistralArguments, CallStyle::Plain];

#[test]
fn calls_of_each_style_are_found() {
    use CallStyle::{Llama, MistralArguments, MistralList, Plain, Tagged};
    let f = ("f", r#"{"a": 1}"#);
    let weather = ("get_weather", r#"{"city": "Oslo"}"#);
    for (style, text, rest, calls) in [
        (Tagged, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "", vec![f]),
        (
            Tagged,
            "Let me see. \n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>\n<tool_call>\n\
             {\"arguments\": {\"city\": \"Oslo\"}, \"name\": \"get_weather\"}\n</tool_call>\n\nDone. ",
            "Let me see.Done. ",
            vec![f, weather],
        ),
        // A tag that is not closed.
        (
            Tagged,
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
            "",
            vec![f, f],
        ),
        // No calls: of an unknown tool, of no tool, of none that is whole enough to tell.
        (Tagged, "a <tool_call>{\"name\": \"g\"}</tool_call>", "a <tool_call>{\"name\": \"g\"}</tool_call>", vec![]),
        (Tagged, "<tool_call>{\"a\": 1}", "<tool_call>{\"a\": 1}", vec![]),
        (Tagged, "a  <tool_call>\n{\"name\": \"f", "a  <tool_call>\n{\"name\": \"f", vec![]),
        (Tagged, "if a <tool_call > b {", "if a <tool_call > b {", vec![]),
        (Tagged, "<tool_call>x<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}", "<tool_call>x", vec![f]),
        (Tagged, "{\"name\": \"f\", \"arguments\": {}}", "{\"name\": \"f\", \"arguments\": {}}", vec![]),
        // Cut within the arguments.
        (Tagged, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"", "", vec![("f", "{\"a\"")]),
        (Llama, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", vec![f]),
        (Llama, "\n<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", vec![f]),
        (
            Llama,
            "{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}",
            "",
            vec![f, weather],
        ),
        (Llama, "{\"answer\": 42} ", "{\"answer\": 42} ", vec![]),
        (Llama, "It is {\"name\": \"f\", \"parameters\": {}}", "It is {\"name\": \"f\", \"parameters\": {}}", vec![]),
        (
            MistralList,
            "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"get_weather\", \"arguments\": \
             {\"city\": \"Oslo\"}, \"id\": \"VvvODy9mT\"}]",
            "",
            vec![f, weather],
        ),
        (MistralList, "[TOOL_CALLS] none", "[TOOL_CALLS] none", vec![]),
        (
            MistralArguments,
            "Hm.[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]get_weather[CALL_ID]x1[ARGS]{\"city\": \"Oslo\"}",
            "Hm.",
            vec![f, weather],
        ),
        (MistralArguments, "[TOOL_CALLS]f{\"a\": 1}", "", vec![f]),
        (MistralArguments, "[TOOL_CALLS]g[ARGS]{\"a\": 1}", "[TOOL_CALLS]g[ARGS]{\"a\": 1}", vec![]),
        (Plain, " {\"name\": \"f\", \"arguments\": {\"a\": 1}}\n", "", vec![f]),
        (Plain, "<tool_call>", "<tool_call>", vec![]),
    ] {
        let calls: Vec<_> = calls.into_iter().map(|(name, arguments)| (name.into(), arguments.into())).collect();
        assert_eq!(find(style, &[text]), (rest.to_owned(), calls), "{style:?} {text}");
    }
}

#[test]
fn without_tools_everything_is_text() {
    for calls in STYLES {
        let style = ToolStyle { calls, in_template: true, hidden: vec![(7, TOOL_CALLS)] };
        let mut finder = CallFinder::new(&style, Vec::new());
        let text = " <tool_call>{\"name\": \"f\"}";
        assert_eq!(finder.push(text), Found { text: text.into(), calls: Vec::new() });
        assert_eq!(finder.hidden_marker(7), None);
    }
    assert_eq!(finder(CallStyle::MistralList).hidden_marker(7), Some(TOOL_CALLS));
}

#[test]
fn nothing_is_held_back_longer_than_it_must_be() {
    let mut finder = finder(CallStyle::Tagged);
    let arguments = |text: &str| vec![ToolCallDelta::Arguments { index: 0, text: text.into() }];
    for (piece, text) in [("Oh,", "Oh,"), (" a", " a"), (" ", ""), ("<", ""), ("b", " <b"), (" <tool_call>", "")] {
        assert_eq!(finder.push(piece), Found { text: text.into(), calls: Vec::new() }, "{piece:?}");
    }
    assert_eq!(finder.push("{\"name\": \"f"), Found::default());
    let started = finder.push("\", ").calls;
    assert!(matches!(&started[..], [ToolCallDelta::Start { index: 0, name, .. }] if name == "f"), "{started:?}");
    assert_eq!(finder.push("\"arguments\": {").calls, arguments("{"));
    assert_eq!(finder.push("\"a\": ").calls, arguments("\"a\": "));
    assert_eq!(finder.push("1}}").calls, arguments("1}"));
}

proptest! {
    /// However the text is cut into pieces, text and calls are the same; and nothing of what is no call gets lost.
    #[test]
    fn pieces_make_no_difference(
        words in prop::collection::vec(prop::sample::select(vec![
            "<tool_call>", "</tool_call>", "<tool", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", "{\"name\": \"f\"",
            "{\"name\": \"g\"", ", \"arguments\": {\"a\": \"}é\\\"\"}", ", \"parameters\": ", "{}", "}", "{", "[", "]", ",", ";", "f", " ",
            "\n", "é", "\"", "<", ": 1", "null",
        ]), 0..14),
        cuts in prop::collection::vec(1usize..7, 0..80),
    ) {
        let text = words.concat();
        let chars: Vec<char> = text.chars().collect();
        let (mut pieces, mut at, mut cuts) = (Vec::new(), 0, cuts.into_iter());
        while at < chars.len() {
            let end = (at + cuts.next().unwrap_or(1)).min(chars.len());
            pieces.push(chars[at..end].iter().collect::<String>());
            at = end;
        }
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        for style in STYLES {
            let whole = find(style, &[&text]);
            prop_assert_eq!(&find(style, &pieces), &whole, "{:?}", style);
            if whole.1.is_empty() {
                prop_assert_eq!(&whole.0, &text, "{:?}", style);
            }
        }
    }
}
