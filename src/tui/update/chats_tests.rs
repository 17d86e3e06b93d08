use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pretty_assertions::assert_eq;

use super::super::chats::{Given, News, Redo, Row, Wish};
use super::super::conversation::{Block, Kind};
use super::super::event::{Effect, Event, Exit};
use super::super::fixtures::{Desk, lane_change, short_decision, snapshot, snapshot_with_server};
use super::super::keys::Context;
use super::super::state::Overlay;
use crate::engine::{
    AnswerSettings, ChatRequest, EngineSnapshot, FinishReason, GenerationEvent, LaneId, Parameter, Role,
};
use crate::store::keeper::{Opened, Report};
use crate::store::{Found, LeftOut, Record, Stored, Tree};

/// What would be in the file: the records that were kept, one after the other.
#[derive(Default)]
struct File {
    records: Vec<Record>,
}

impl File {
    fn take(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Chats(Wish::Keep(record)) => self.records.push(record.clone()),
                Effect::Chats(Wish::Close) => self.records.clear(),
                _ => {}
            }
        }
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        self.records.iter().for_each(|record| tree.apply(record));
        tree
    }
}

/// A chat that is kept.
struct Kept {
    desk: Desk,
    file: File,
}

impl Kept {
    fn new() -> Self {
        let mut desk = Desk::ready();
        (desk.state.chats.has_store, desk.state.chats.saves) = (true, true);
        Self { desk, file: File::default() }
    }

    fn done(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        self.file.take(&effects);
        assert_eq!(self.file.tree(), self.desk.state.chats.tree, "the file is behind");
        effects
    }

    fn send(&mut self, text: &str) -> Vec<Effect> {
        for c in text.chars() {
            let effects = self.desk.key(KeyCode::Char(c));
            self.done(effects);
        }
        self.key(KeyCode::Enter)
    }

    fn key(&mut self, code: KeyCode) -> Vec<Effect> {
        let effects = self.desk.key(code);
        self.done(effects)
    }

    fn press(&mut self, c: char) -> Vec<Effect> {
        self.key(KeyCode::Char(c))
    }

    fn alt_up(&mut self) {
        let effects = self.desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
        self.done(effects);
    }

    fn answer(&mut self, text: &str, reason: FinishReason) -> Vec<Effect> {
        let mut effects = Vec::new();
        for piece in text.split_inclusive(' ') {
            let token = self.desk.token(piece);
            effects = self.done(token);
        }
        let finished = self.desk.finish(reason);
        effects.extend(self.done(finished));
        effects
    }

    fn ask(&mut self, question: &str, answer: &str) {
        self.send(question);
        self.answer(answer, FinishReason::Stop);
    }

    fn news(&mut self, news: News) -> Vec<Effect> {
        let effects = self.desk.event(Event::Chats(news));
        self.done(effects)
    }

    /// The conversation on the screen, without ortalk's own lines.
    fn shown(&self) -> Vec<&str> {
        let blocks = self.desk.state.conversation.blocks().iter();
        blocks.filter(|block| !matches!(block.kind, Kind::Notice(_))).map(Block::shown).collect()
    }

    fn hint(&self) -> &str {
        self.desk.state.hint.as_deref().unwrap_or_default()
    }
}

fn submitted(effects: &[Effect]) -> Option<&ChatRequest> {
    effects.iter().find_map(|effect| match effect {
        Effect::Submit(request) => Some(request),
        _ => None,
    })
}

fn said(effects: &[Effect]) -> Vec<(Role, &str)> {
    let request = submitted(effects).expect("nothing was submitted");
    request.messages.iter().map(|message| (message.role, message.content.as_str())).collect()
}

const USER: Role = Role::User;
const ASSISTANT: Role = Role::Assistant;

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
    assert!(end.note.as_ref().unwrap().starts_with("length: cut off after"));
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
fn an_edited_question_stands_beside_the_first_one() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    kept.alt_up();
    kept.press('k');
    assert_eq!(kept.desk.state.context(), Context::Message);
    kept.press('e');
    assert_eq!((kept.desk.state.composer.text(), kept.desk.state.context()), ("two", Context::Compose));
    // The router is asked about what will be sent.
    kept.desk.wait(150);
    let effects = kept.desk.event(Event::Tick);
    let Some(Effect::Preview { request, .. }) = effects.first() else { panic!("{effects:?}") };
    assert_eq!(request.messages.len(), 3);
    let effects = kept.send("!");
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "first"), (USER, "two!")]);
    kept.answer("third", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "first", "two!", "third"]);
    // The other one is still there, and goes on from where it was.
    kept.alt_up();
    kept.press('k');
    kept.key(KeyCode::Left);
    assert_eq!(kept.shown(), ["one", "first", "two", "second"]);
    kept.key(KeyCode::Left);
    assert_eq!(kept.hint(), "there is no other version that way");
    let effects = {
        kept.key(KeyCode::Esc);
        kept.send("three")
    };
    assert_eq!(said(&effects)[3..], [(ASSISTANT, "second"), (USER, "three")]);
}

#[test]
fn a_question_comes_back_as_it_was_typed() {
    let mut kept = Kept::new();
    let long = "line\n".repeat(20);
    kept.press('>');
    let effects = kept.desk.event(Event::Paste(long.clone()));
    kept.done(effects);
    let effects = kept.send("?");
    assert_eq!(said(&effects), [(USER, format!(">{long}?").as_str())]);
    kept.answer("first", FinishReason::Stop);
    // In this session and in a later one.
    let mut later = Kept::new();
    later.file.records = kept.file.records.clone();
    later.news(News::Kept(Report::Opened(Box::new(opened("id", kept.file.tree())))));
    for kept in [&mut kept, &mut later] {
        kept.alt_up();
        kept.press('k');
        let effects = kept.press('e');
        let [Effect::CountTokens(inset)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!((inset.content.as_str(), inset.file.as_deref()), (long.as_str(), None));
        assert!(
            kept.desk.state.composer.text().starts_with(">[pasted 100 B, est."),
            "{}",
            kept.desk.state.composer.text()
        );
        let effects = kept.send("!");
        assert_eq!(said(&effects), [(USER, format!(">{long}?!").as_str())]);
    }
}

/// One that ortalk kept before it kept the pieces.
#[test]
fn a_question_whose_pieces_are_not_known_comes_back_as_it_was_sent() {
    let mut kept = Kept::new();
    let text = "a.txt:\n```\nx\n```\n\na.txt";
    let line =
        serde_json::json!({"kind": "user", "id": 0, "time": "2026-03-04T05:06:07Z", "text": text, "shown": "[a.txt]"});
    kept.file.records = vec![Record::parse(line.to_string().as_bytes()).unwrap()];
    kept.news(News::Kept(Report::Opened(Box::new(opened("id", kept.file.tree())))));
    assert_eq!(kept.shown(), ["[a.txt]"]);
    kept.alt_up();
    kept.press('e');
    assert_eq!(kept.desk.state.composer.text(), text);
    // A command is none where it was a message.
    let mut kept = Kept::new();
    kept.ask("/cpu /clear", "yes");
    kept.alt_up();
    kept.press('k');
    kept.press('e');
    assert_eq!(kept.desk.state.composer.text(), " /clear");
}

#[test]
fn editing_can_be_given_up() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    for key in ['j', 'k'] {
        kept.alt_up();
        kept.press(key);
        kept.press('e');
        assert!(!kept.desk.state.composer.is_empty());
        kept.key(KeyCode::Esc);
        assert!(kept.desk.state.composer.is_empty() && kept.desk.state.chats.redo.is_none());
    }
    let effects = kept.send("two");
    assert_eq!(said(&effects).len(), 3);
}

/// What a person writes in its place is another version: the model goes on from it, and believes that it has said so.
#[test]
fn an_edited_answer_stands_beside_the_first_one() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    kept.alt_up();
    kept.press('e');
    assert_eq!(kept.desk.state.composer.text(), "second");
    // Letters are letters; nobody is asked what it would cost, and nothing is attached.
    assert_eq!(kept.send(""), []);
    assert_eq!(kept.hint(), "nothing of the answer was changed; Esc leaves it as it is");
    for c in " d@x ".chars() {
        assert_eq!(kept.press(c), [], "{c}");
    }
    kept.desk.wait(1000);
    assert_eq!(kept.desk.event(Event::Tick), []);
    let effects = kept.key(KeyCode::Enter);
    assert_eq!(submitted(&effects), None);
    assert_eq!(kept.shown(), ["one", "first", "two", "second d@x "]);
    assert_eq!(kept.hint(), "kept as another version; m goes on from it, Left shows the old");
    // It is no message that was sent.
    assert_eq!(kept.desk.remembered, ["one", "two"]);
    let effects = kept.press('m');
    let request = submitted(&effects).unwrap();
    assert!(request.continue_last);
    assert_eq!(said(&effects)[2..], [(USER, "two"), (ASSISTANT, "second d@x ")]);
    kept.answer("and more", FinishReason::Stop);
    assert_eq!(kept.shown()[3], "second d@x and more");
    kept.alt_up();
    kept.press('h');
    assert_eq!(kept.shown()[3], "second");
    // Nothing is no answer.
    kept.press('e');
    for _ in 0.."second".len() {
        kept.key(KeyCode::Backspace);
    }
    assert_eq!(kept.key(KeyCode::Enter), []);
    assert_eq!(kept.shown()[3], "second");
}

#[test]
fn a_question_is_answered_again_and_both_answers_stay() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    let effects = kept.send("/regenerate");
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "first"), (USER, "two")]);
    kept.answer("other", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "first", "two", "other"]);
    kept.alt_up();
    for (key, shown) in [(KeyCode::Char('h'), "second"), (KeyCode::Char('l'), "other")] {
        kept.key(key);
        assert_eq!(kept.shown()[3], shown);
    }
    // From a question, too; what followed its other answers is left.
    for _ in 0..3 {
        kept.key(KeyCode::Up);
    }
    let effects = kept.press('r');
    assert_eq!(said(&effects), [(USER, "one")]);
    kept.answer("new", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "new"]);
}

#[test]
fn a_cut_answer_goes_on() {
    let mut kept = Kept::new();
    kept.send("one");
    kept.answer("begin", FinishReason::Length);
    let effects = kept.send("/continue");
    let request = submitted(&effects).unwrap();
    assert!(request.continue_last);
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "begin")]);
    kept.answer("ning", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "beginning"]);
    let Kind::Answer(header) = &kept.desk.state.conversation.blocks()[1].kind else { panic!() };
    assert_eq!(header.ending, None);
    // It may be cut again, by something else.
    super::super::view::tests::render(&mut kept.desk, 80, 24);
    kept.send("/continue");
    kept.key(KeyCode::Esc);
    super::super::view::tests::render(&mut kept.desk, 80, 24);
    kept.send("more");
    kept.answer("x", FinishReason::Length);
    super::super::view::tests::render(&mut kept.desk, 80, 24);
    kept.send("/continue");
    kept.key(KeyCode::Esc);
    super::super::view::tests::render(&mut kept.desk, 80, 24);
    let ended = |block: &Block| matches!(&block.kind, Kind::Answer(header) if header.ending.is_some());
    assert_eq!(kept.desk.state.conversation.blocks().iter().filter(|block| ended(block)).count(), 2);
    // An answer without a word is asked for again.
    kept.send("two");
    kept.key(KeyCode::Esc);
    let effects = kept.send("/continue");
    assert!(!submitted(&effects).unwrap().continue_last);
    assert_eq!(said(&effects).last(), Some(&(USER, "two")));
}

#[test]
fn a_branch_begins_at_any_message() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    kept.alt_up();
    for _ in 0..2 {
        kept.press('k');
    }
    kept.press('b');
    assert_eq!(kept.shown(), ["one", "first"]);
    let effects = kept.send("other");
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "first"), (USER, "other")]);
    kept.answer("x", FinishReason::Stop);
    // In the place of a question.
    kept.alt_up();
    for _ in 0..3 {
        kept.press('k');
    }
    kept.press('b');
    assert_eq!(kept.shown(), [""; 0]);
    let effects = kept.send("anew");
    assert_eq!(said(&effects), [(USER, "anew")]);
    assert_eq!(kept.desk.state.chats.tree.siblings(0).len(), 2);
}

#[test]
fn a_deleted_message_comes_back() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.ask("two", "second");
    kept.alt_up();
    kept.press('k');
    kept.press('d');
    let expected = "'two' and the one below are deleted; u takes it back";
    assert_eq!((kept.shown(), kept.hint()), (vec!["one", "first"], expected));
    let effects = {
        kept.key(KeyCode::Esc);
        kept.send("three")
    };
    assert_eq!(said(&effects), [(USER, "one"), (ASSISTANT, "first"), (USER, "three")]);
    kept.answer("third", FinishReason::Stop);
    kept.send("/undo");
    assert_eq!(kept.shown(), ["one", "first", "two", "second"]);
    kept.key(KeyCode::Esc);
    kept.send("/undo");
    assert_eq!(kept.hint(), "nothing was deleted");
}

#[test]
fn nothing_is_changed_below_a_running_answer() {
    let mut kept = Kept::new();
    kept.send("one");
    kept.alt_up();
    for key in ['e', 'r', 'm', 'b', 'd', 'u', 'h', 'l'] {
        kept.press(key);
        assert_eq!(kept.hint(), "an answer is running; Ctrl-C cancels it", "{key}");
    }
    let effects = kept.press('c');
    assert_eq!(effects, [Effect::Copy(String::new())]);
    kept.press('k');
    assert_eq!(kept.press('c'), [Effect::Copy("one".into())]);
    kept.answer("first", FinishReason::Stop);
    assert_eq!(kept.shown(), ["one", "first"]);
}

/// A server that must be asked about: the question stands for an answer again, too, and "no" leaves all as it was.
#[test]
fn an_answer_again_may_need_a_person_s_leave() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.desk.event(Event::Snapshot(snapshot_with_server()));
    kept.desk.state.settings.lane = Some(LaneId::Remote);
    assert_eq!(submitted(&kept.send("/regenerate")), None);
    assert_eq!(kept.desk.state.chats.redo, Some(Redo::Again(0)));
    kept.press('n');
    assert_eq!((kept.desk.state.chats.redo, kept.desk.state.composer.text()), (None, ""));
    kept.send("/regenerate");
    let effects = kept.press('y');
    assert_eq!(said(&effects), [(USER, "one")]);
    kept.answer("second", FinishReason::Stop);
    assert_eq!((kept.shown(), kept.desk.state.chats.tree.siblings(1).len()), (vec!["one", "second"], 2));
}

fn opened(id: &str, tree: Tree) -> Opened {
    Opened { stored: Stored { id: id.into(), tree, left_out: LeftOut::default() }, is_copy: false }
}

fn row(id: &str, title: &str) -> Row {
    let found = Found {
        id: id.into(),
        title: title.into(),
        changed: chrono::DateTime::UNIX_EPOCH,
        messages: 4,
        model: "test-model".into(),
        snippet: None,
    };
    Row { found, when: "yesterday 12:00".into() }
}

fn with_list(kept: &mut Kept) {
    let effects = kept.desk.ctrl('o');
    assert_eq!(effects, [Effect::Chats(Wish::Find(String::new()))]);
    let rows = Ok(vec![row("a", "Rivers"), row("b", "Hills"), row("c", "Lakes")]);
    kept.news(News::Found { words: String::new(), rows });
}

#[test]
fn another_conversation_is_opened_from_the_list() {
    let mut kept = Kept::new();
    kept.ask("mine", "yes");
    with_list(&mut kept);
    kept.key(KeyCode::Down);
    let effects = kept.key(KeyCode::Enter);
    assert_eq!(effects, [Effect::Chats(Wish::Open { id: "b".into(), writes: true })]);
    // Until it is here, nothing is said.
    assert_eq!(kept.send("early"), []);
    assert_eq!(kept.hint(), "the other conversation is being opened");
    let mut other = Kept::new();
    other.desk.state.settings.system = Some("Be loud.".into());
    other.ask("theirs", "no");
    kept.file.records = other.file.records.clone();
    kept.news(News::Kept(Report::Opened(Box::new(opened("b", other.file.tree())))));
    assert_eq!(kept.shown(), ["theirs", "no"]);
    assert_eq!(kept.desk.state.settings.system.as_deref(), Some("Be loud."));
    assert_eq!(kept.desk.state.composer.text(), "early");
    let effects = kept.key(KeyCode::Enter);
    assert_eq!(said(&effects)[1..], [(USER, "theirs"), (ASSISTANT, "no"), (USER, "early")]);
    // Its instructions are left with it.
    kept.answer("x", FinishReason::Stop);
    kept.send("/clear");
    assert_eq!(kept.desk.state.settings.system, None);
}

/// The last line of ortalk's own.
fn notice(kept: &Kept) -> &str {
    let mut blocks = kept.desk.state.conversation.blocks().iter().rev();
    blocks.find(|block| matches!(block.kind, Kind::Notice(_))).map_or("", Block::shown)
}

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

#[test]
fn one_search_at_a_time_and_the_latest_words_last() {
    let mut kept = Kept::new();
    with_list(&mut kept);
    assert_eq!(kept.press('r'), [Effect::Chats(Wish::Find("r".into()))]);
    assert_eq!(kept.press('i'), []);
    let effects = kept.news(News::Found { words: "r".into(), rows: Ok(vec![row("a", "Rivers")]) });
    assert_eq!(effects, [Effect::Chats(Wish::Find("ri".into()))]);
    assert_eq!(kept.news(News::Found { words: "ri".into(), rows: Err("no\nluck".into()) }), []);
    kept.key(KeyCode::Esc);
    assert!(kept.desk.state.overlay.is_none());
    // What comes late finds nobody.
    assert_eq!(kept.news(News::Found { words: "ri".into(), rows: Ok(Vec::new()) }), []);
}

#[test]
fn conversations_are_renamed_and_deleted_in_the_list() {
    let mut kept = Kept::new();
    kept.news(News::Kept(Report::Begun("c".into())));
    with_list(&mut kept);
    let effects = kept.desk.ctrl('r');
    assert_eq!(effects, []);
    kept.press('!');
    let effects = kept.key(KeyCode::Enter);
    assert_eq!(effects, [Effect::Chats(Wish::Rename { id: "a".into(), title: "Rivers!".into() })]);
    let effects = kept.news(News::Kept(Report::Renamed { id: "a".into() }));
    assert_eq!(effects, [Effect::Chats(Wish::Find(String::new()))]);

    assert_eq!(kept.desk.ctrl('d'), [Effect::Chats(Wish::Delete("a".into()))]);
    kept.news(News::Kept(Report::Deleted { id: "a".into() }));
    let Some(Overlay::Chats(list)) = &kept.desk.state.overlay else { panic!() };
    assert!(list.gone.contains("a"));
    assert_eq!(kept.desk.ctrl('d'), [Effect::Chats(Wish::Undelete("a".into()))]);
    kept.news(News::Kept(Report::Undeleted { id: "a".into() }));
    // The one that is open is not deleted by a slip.
    for _ in 0..2 {
        kept.key(KeyCode::Down);
    }
    assert_eq!(kept.desk.ctrl('d'), []);
    assert_eq!(kept.hint(), "this conversation is open; /delete deletes it");
}

#[test]
fn the_open_conversation_is_deleted_and_comes_back() {
    let mut kept = Kept::new();
    kept.send("/delete");
    assert!(kept.hint().contains("not saved"), "{}", kept.hint());
    kept.desk.ctrl('u');
    kept.ask("one", "first");
    kept.news(News::Kept(Report::Begun("c".into())));
    for c in "/delete".chars() {
        kept.press(c);
    }
    let effects = kept.desk.key(KeyCode::Enter);
    assert_eq!(effects, [Effect::Chats(Wish::Delete("c".into()))]);
    kept.file.records.clear();
    assert!(kept.shown().is_empty() && kept.desk.state.chats.id.is_none());
    kept.news(News::Kept(Report::Deleted { id: "c".into() }));
    assert_eq!(kept.send("/undo"), [Effect::Chats(Wish::Undelete("c".into()))]);
    let effects = kept.news(News::Kept(Report::Undeleted { id: "c".into() }));
    assert_eq!(effects, [Effect::Chats(Wish::Open { id: "c".into(), writes: true })]);
}

#[test]
fn a_conversation_without_a_message_is_put_away_when_it_is_left() {
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.news(News::Kept(Report::Begun("c".into())));
    kept.alt_up();
    kept.press('k');
    kept.press('d');
    assert!(kept.shown().is_empty(), "{:?}", kept.shown());
    // As long as it is here, the message can be had back.
    kept.send("/undo");
    assert_eq!(kept.shown(), ["one", "first"]);
    kept.press('k');
    kept.press('d');
    let gone = Effect::Chats(Wish::Delete("c".into()));
    let effects = kept.desk.ctrl('d');
    assert_eq!(effects, [gone.clone(), Effect::Quit(Exit::Quit)]);
    let effects = kept.send("/clear");
    assert!(effects.ends_with(&[gone]), "{effects:?}");
    kept.news(News::Kept(Report::Deleted { id: "c".into() }));
    assert_eq!(kept.hint(), "the conversation is deleted; /undo takes it back");
    assert_eq!(kept.send("/undo"), [Effect::Chats(Wish::Undelete("c".into()))]);
    // One with messages is left where it is.
    let mut kept = Kept::new();
    kept.ask("one", "first");
    kept.news(News::Kept(Report::Begun("c".into())));
    assert_eq!(kept.desk.ctrl('d'), [Effect::Quit(Exit::Quit)]);
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

#[test]
fn keys_of_a_message_are_no_letters_and_typing_goes_on_after_it() {
    let mut kept = Kept::new();
    kept.alt_up();
    assert_eq!((kept.hint(), kept.desk.state.context()), ("nothing was said yet", Context::Compose));
    kept.ask("one", "first");
    kept.alt_up();
    kept.press('x');
    assert!(kept.desk.state.composer.is_empty());
    assert_eq!(kept.hint(), "'x' does nothing to a message; Esc goes back to typing");
    kept.press('q');
    kept.press('x');
    assert_eq!(kept.desk.state.composer.text(), "x");
    // A paste goes where it always goes.
    kept.alt_up();
    let effects = kept.desk.event(Event::Paste("yz".into()));
    kept.done(effects);
    assert_eq!((kept.desk.state.composer.text(), kept.desk.state.chats.selected), ("xyz", None));
}
