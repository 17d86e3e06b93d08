//! What is written down, and what is read of it again.

use pretty_assertions::assert_eq;

use super::*;

/// Each record is there in the moment in which it happened.
#[test]
fn what_is_said_is_kept_piece_by_piece() {
    let mut kept = Kept::new();
    kept.desk.state.settings.system = Some("Be brief.".into());
    kept.send("q");
    let effects = kept.desk.generation(GenerationEvent::Routed(short_decision()));
    kept.done(effects);
    kept.answer("one two", FinishReason::Length);
    let kinds: Vec<String> = kept.file.records.iter().map(|record| record.line()[9..14].to_owned()).collect();
    assert_eq!(kinds, ["syste", "user\"", "assis", "lane\"", "text\"", "text\"", "end\","]);
    let tree = kept.file.tree();
    let answer = tree.path()[1].answer.as_ref().unwrap();
    let end = answer.end.as_ref().unwrap();
    assert_eq!((end.finish.as_str(), end.tokens), ("length", 2));
    assert!(end.note.as_ref().unwrap().starts_with("cut off after"));
    // The instructions are said once.
    kept.ask("again", "yes");
    assert_eq!(kept.file.records.iter().filter(|record| matches!(record, Record::System(_))).count(), 1);
}

#[test]
fn thinking_lanes_and_their_change_are_kept() {
    let mut kept = Kept::new();
    kept.send("q");
    let effects = kept.desk.generation(GenerationEvent::Routed(short_decision()));
    kept.done(effects);
    let effects = kept.desk.thought("Hm.");
    kept.done(effects);
    let effects = kept.desk.token_on(LaneId::Npu, "one ");
    kept.done(effects);
    let effects = kept.desk.generation(GenerationEvent::LaneChanged(lane_change()));
    kept.done(effects);
    kept.answer("two", FinishReason::Stop);
    let tree = kept.file.tree();
    let message = tree.path()[1];
    let answer = message.answer.as_ref().unwrap();
    assert_eq!((message.text.as_str(), answer.thinking.as_str()), ("one two", "Hm."));
    assert_eq!((answer.lane(), answer.is_emulated()), (Some("cpu"), false));
    // Opened again, it looks the same.
    let before: Vec<String> = kept.shown().into_iter().map(str::to_owned).collect();
    let mark = kept.desk.state.conversation.blocks()[1].mark(0).to_owned();
    let mut other = Kept::new();
    other.file.records = kept.file.records.clone();
    other.news(News::Kept(Report::Opened(Box::new(opened("id", tree.clone())))));
    assert_eq!(other.shown(), before);
    let block = &other.desk.state.conversation.blocks()[1];
    assert_eq!((block.mark(0), block.thought()), (mark.as_str(), "Hm."));
}

/// The tokens of the answers on the screen: text, time, lane, the thinking's marked.
fn tokens(kept: &Kept) -> Vec<(&str, u128, LaneId, bool)> {
    let blocks = kept.desk.state.conversation.blocks().iter();
    let all = blocks.flat_map(|block| block.trace().tokens().iter().map(move |token| (block, token)));
    all.map(|(block, token)| {
        let whole = if token.thinks { block.thought() } else { block.shown() };
        (&whole[token.text()], token.took.as_millis(), token.lane, token.thinks)
    })
    .collect()
}

#[test]
fn an_opened_conversation_has_the_times_of_its_tokens() {
    let mut kept = Kept::new();
    kept.send("q");
    let effects = kept.desk.generation(GenerationEvent::Routed(short_decision()));
    kept.done(effects);
    for (wait, thinks, text) in [(100, true, "Hm\x1b."), (20, false, "one "), (8, false, ""), (8, false, "\ttwo")] {
        kept.desk.wait(wait);
        let effects = if thinks { kept.desk.thought(text) } else { kept.desk.token_on(LaneId::Npu, text) };
        kept.done(effects);
    }
    let effects = kept.desk.generation(GenerationEvent::LaneChanged(lane_change()));
    kept.done(effects);
    kept.desk.wait(50);
    kept.answer("three", FinishReason::Length);
    kept.send("/continue");
    kept.desk.wait(30);
    kept.answer("four", FinishReason::Stop);
    let expected = [
        ("Hm^[.", 100, LaneId::Cpu, true),
        ("one ", 20, LaneId::Npu, false),
        ("", 8, LaneId::Npu, false),
        ("    two", 8, LaneId::Npu, false),
        ("three", 50, LaneId::Cpu, false),
        ("four", 30, LaneId::Cpu, false),
    ];
    assert_eq!(tokens(&kept), expected);

    let mut other = Kept::new();
    other.file.records = kept.file.records.clone();
    other.news(News::Kept(Report::Opened(Box::new(opened("id", kept.file.tree())))));
    // The lane of the first one is as the file says: the one that was chosen.
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(text, ms, lane, thinks)| (text, ms, if thinks { LaneId::Npu } else { lane }, thinks))
        .collect();
    assert_eq!(tokens(&other), expected);
    let header = |kept: &Kept| match &kept.desk.state.conversation.blocks()[1].kind {
        Kind::Answer(header) => header.clone(),
        _ => panic!(),
    };
    assert_eq!(header(&other), header(&kept));
    assert_eq!(other.desk.state.panels.trend().len(), 1);
    let (there, here) = (kept.desk.state.answer.as_ref().unwrap(), other.desk.state.answer.as_ref().unwrap());
    assert_eq!((here.latencies(), here.ttft(), here.lane), (there.latencies(), there.ttft(), there.lane));
    assert_eq!((here.tokens_per_second(), here.tokens), (there.tokens_per_second(), there.tokens));
}

/// As ortalk wrote them before.
#[test]
fn a_conversation_without_times_opens_too() {
    let mut kept = Kept::new();
    let lines = [
        r#"{"kind":"user","id":0,"time":"2026-03-04T05:06:07Z","text":"q"}"#,
        r#"{"kind":"assistant","id":1,"parent":0,"time":"2026-03-04T05:06:07Z","model":"m"}"#,
        r#"{"kind":"lane","id":1,"lane":"cpu"}"#,
        r#"{"kind":"text","id":1,"thinking":"Hm"}"#,
        r#"{"kind":"text","id":1,"text":"one "}"#,
        r#"{"kind":"text","id":1,"text":"two"}"#,
        r#"{"kind":"end","id":1,"finish":"stop","tokens":2,"thinking_tokens":1,"ttft_ms":40.0,"tokens_per_second":20.0}"#,
    ];
    kept.file.records = lines.iter().map(|line| Record::parse(line.as_bytes()).unwrap()).collect();
    kept.news(News::Kept(Report::Opened(Box::new(opened("id", kept.file.tree())))));
    assert_eq!((kept.shown(), tokens(&kept)), (vec!["q", "one two"], vec![]));
    let answer = kept.desk.state.answer.as_ref().unwrap();
    assert_eq!((answer.tokens, answer.tokens_per_second(), answer.latencies()), (2, Some(20.0), &[][..]));
    kept.ask("more", "yes");
    assert_eq!(tokens(&kept).len(), 1);
}

#[test]
fn nothing_is_kept_where_nobody_wants_it() {
    let mut desk = Desk::ready();
    desk.state.chats.has_store = true;
    let mut effects = desk.send("secret");
    effects.extend(desk.token("word"));
    effects.extend(desk.finish(FinishReason::Stop));
    effects.extend(desk.send("/rename Secret"));
    effects.extend(desk.send("/clear"));
    assert!(effects.iter().all(|effect| !matches!(effect, Effect::Chats(_))), "{effects:?}");
}

#[test]
fn save_keeps_what_was_said_so_far() {
    let mut desk = Desk::ready();
    desk.state.chats.has_store = true;
    desk.send("q");
    desk.token("a");
    desk.finish(FinishReason::Stop);
    let mut kept = Kept { desk, file: File::default() };
    for c in "/save".chars() {
        kept.desk.key(KeyCode::Char(c));
    }
    kept.key(KeyCode::Enter);
    assert!(kept.hint().starts_with("saved from now on"), "{}", kept.hint());
    kept.ask("more", "b");
    assert_eq!(kept.file.tree().path().len(), 4);
}

#[test]
fn exports_are_named_and_told() {
    let mut kept = Kept::new();
    kept.send("/export x.md");
    assert_eq!(kept.hint(), "there is no conversation yet");
    kept.desk.ctrl('u');
    kept.ask("Name a river", "Loire");
    let file_of = |effects: Vec<Effect>| match effects.first() {
        Some(Effect::Chats(Wish::Export { file, text })) => (file.clone(), text.clone()),
        _ => panic!("{effects:?}"),
    };
    let (file, text) = file_of(kept.send("/export"));
    assert_eq!((file.as_str(), text.contains("## You\n\nName a river\n")), ("name-a-river.md", true));
    // What is running is not called cut.
    kept.send("And a lake");
    let (_, text) = file_of(kept.send("/export x.md"));
    assert!(text.ends_with("*unfinished: the answer was still running*\n"), "{text}");
    kept.answer("Annecy", FinishReason::Stop);
    let (file, text) = file_of(kept.send("/export /tmp/a b.json"));
    assert_eq!((file.as_str(), text.contains("\"schema\": 1")), ("/tmp/a b.json", true));
    kept.send("/export notes.txt");
    assert_eq!(kept.hint(), "'notes.txt' says no format; end it in .md or .json");
    kept.news(News::Exported(Ok("/tmp/a b.json".into())));
    assert_eq!(kept.hint(), "written to /tmp/a b.json");
}

#[test]
fn a_full_disk_is_a_notice_and_the_chat_goes_on() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.news(News::Kept(Report::NotKept("'x' cannot be written: No space left".into())));
    let last = kept.desk.state.conversation.blocks().last().unwrap();
    assert!(last.shown().contains("No space left"), "{}", last.shown());
    assert!(submitted(&kept.send("two")).is_some());
}

#[test]
fn a_new_conversation_is_another_file() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.news(News::Kept(Report::Begun("a".into())));
    assert!(kept.send("/clear").contains(&Effect::Chats(Wish::Close)));
    assert_eq!((kept.desk.state.chats.id.as_ref(), kept.shown().len()), (None, 0));
    kept.ask("two", "second");
    assert_eq!(kept.file.tree().path().len(), 2);
    // One that is cancelled by it ends in its own file.
    kept.send("three");
    for c in "/clear".chars() {
        kept.desk.key(KeyCode::Char(c));
    }
    let effects = kept.desk.key(KeyCode::Enter);
    let ends = effects.iter().position(|e| matches!(e, Effect::Chats(Wish::Keep(Record::End { .. }))));
    let closes = effects.iter().position(|e| *e == Effect::Chats(Wish::Close));
    assert!(ends.is_some() && ends < closes, "{effects:?}");
}

fn counts(effects: &[Effect]) -> Option<(u64, &ChatRequest)> {
    effects.iter().find_map(|effect| match effect {
        Effect::CountConversation { number, request } => Some((*number, request)),
        _ => None,
    })
}

#[test]
fn what_an_opened_conversation_takes_is_counted_once_for_each_way_through_it() {
    let mut kept = Kept::new();
    for question in ["one", "two"] {
        kept.send(question);
        let effects = kept.desk.generation(GenerationEvent::Routed(short_decision()));
        assert!(counts(&effects).is_none(), "the answer says it");
        kept.done(effects);
        kept.answer("yes", FinishReason::Stop);
    }
    let mut other = Kept::new();
    other.file.records = kept.file.records.clone();
    let effects = other.news(News::Kept(Report::Opened(Box::new(opened("id", kept.file.tree())))));
    let (first, request) = counts(&effects).unwrap();
    let said: Vec<_> = request.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!((said, request.continue_last), (vec!["one", "yes", "two", "yes"], true));
    assert!(counts(&other.desk.event(Event::Tick)).is_none(), "it is being counted");
    let title = |kept: &Kept| title::line(&kept.desk.state, &test_skin(), 120).to_string();
    assert!(title(&other).ends_with("  —/500 "), "{}", title(&other));
    let mut counted = decision();
    counted.prompt_tokens = 123;
    other.desk.event(Event::ConversationCounted { number: first, result: Ok(counted.clone()) });
    assert!(title(&other).ends_with(" 123/8000 "), "{}", title(&other));
    // A shorter way is counted anew; what was asked before does not count for it.
    other.alt_up();
    let effects = other.press('d');
    let (second, request) = counts(&effects).unwrap();
    assert_eq!((second, request.messages.len()), (first + 1, 2));
    other.desk.event(Event::ConversationCounted { number: first, result: Ok(counted) });
    assert!(title(&other).ends_with("  —/500 "), "{}", title(&other));
}

/// The lane of an earlier session may be none of this one; then another one is ready all the same.
#[test]
fn a_lane_that_is_not_here_any_more_is_not_the_one_that_answers() {
    let mut kept = Kept::new();
    kept.send("q");
    let effects = kept.desk.generation(GenerationEvent::Routed(short_decision()));
    kept.done(effects);
    let effects = kept.desk.token_on(LaneId::Npu, "one");
    kept.done(effects);
    let effects = kept.desk.finish(FinishReason::Stop);
    kept.done(effects);
    let mut other = Kept::new();
    other.desk.event(Event::Snapshot(snapshot_with(LaneState::Absent { reason: "no NPU here".into() })));
    other.file.records = kept.file.records.clone();
    other.news(News::Kept(Report::Opened(Box::new(opened("id", kept.file.tree())))));
    assert_eq!(other.desk.state.answer.as_ref().unwrap().lane, Some(LaneId::Npu));
    assert_eq!(other.desk.state.active_lane().map(|lane| lane.id), Some(LaneId::Cpu));
    // Nor are the numbers of another model those of this one.
    assert!(other.desk.state.own_answer().is_some());
    let model = "another".to_owned();
    other.desk.event(Event::Snapshot(EngineSnapshot { model, ..snapshot() }));
    assert!(other.desk.state.own_answer().is_none());
}
