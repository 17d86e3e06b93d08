//! What belongs to a conversation and comes back with it.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn numbers_and_thinking_come_back_with_the_conversation_and_are_left_with_it() {
    let mut theirs = Kept::new();
    for command in ["/set temperature 0.5", "/set top-k 7", "/think off", "/system Be brief."] {
        theirs.send(command);
    }
    theirs.ask("theirs", "no");
    theirs.send("/set top-k default");
    theirs.ask("more", "no");
    theirs.ask("still", "no");
    let sets = |record: &&Record| matches!(record, Record::Set(_));
    assert_eq!(theirs.file.records.iter().filter(sets).count(), 2);

    let mut kept = Kept::new();
    kept.send("/set max-tokens 9");
    let own = (kept.desk.state.settings.clone(), kept.desk.state.changed.clone());
    let open = |kept: &mut Kept| {
        kept.file.records = theirs.file.records.clone();
        kept.news(News::Kept(Report::Opened(Box::new(opened("b", theirs.file.tree())))));
    };
    open(&mut kept);
    let settings = &kept.desk.state.settings;
    assert_eq!((settings.sampling.temperature, settings.sampling.top_k), (0.5, 0));
    assert_eq!((settings.thinking, settings.system.as_deref()), (Some(false), Some("Be brief.")));
    let expected = "With this conversation come back: temperature 0.5, thinking off, the system prompt 'Be brief.'.";
    assert_eq!(notice(&kept), expected);
    // What a person changes meanwhile is theirs.
    kept.send("/think on");
    kept.send("/clear");
    assert_eq!(kept.desk.state.settings, AnswerSettings { thinking: Some(true), ..own.0 });
    assert_eq!(kept.desk.state.changed, own.1);

    // The command line has the last word.
    let mut kept = Kept::new();
    kept.desk.state.chats.given =
        Given { system: true, thinking: true, parameters: vec![Parameter::Temperature, Parameter::TopK] };
    let own = kept.desk.state.settings.clone();
    open(&mut kept);
    assert_eq!((&kept.desk.state.settings, notice(&kept)), (&own, ""));
    // A server decides for itself what is not OpenAI's.
    let mut kept = Kept::new();
    kept.desk.state.server = Some("example.com".into());
    kept.file.records = vec![Record::Set(
        [("top-k".into(), "3".into()), ("colour".into(), "red".into()), ("seed".into(), "x".into())].into(),
    )];
    kept.news(News::Kept(Report::Opened(Box::new(opened("b", kept.file.tree())))));
    assert_eq!((kept.desk.state.settings.sampling.top_k, kept.desk.state.changed.len()), (0, 0));
}

#[test]
fn another_model_than_the_one_that_answered_says_so() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    let mut later = Desk::loading();
    later.state.models.are_there = true;
    (later.state.chats.has_store, later.state.chats.saves) = (true, true);
    later.event(Event::Chats(News::Kept(Report::Opened(Box::new(opened("a", kept.file.tree()))))));
    let other = EngineSnapshot { model: "other-model".into(), ..snapshot() };
    later.event(Event::EngineLoaded(other));
    let mut later = Kept { desk: later, file: kept.file };
    let expected = "test-model answered here last; other-model answers from now on; /model loads another one.";
    assert_eq!(notice(&later), expected);
    later.ask("two", "second");
    later.news(News::Kept(Report::Opened(Box::new(opened("b", later.file.tree())))));
    assert_eq!(notice(&later), "");
}
