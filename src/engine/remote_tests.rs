//! The lane that is a server, beside a lane of this machine: who answers what, what is sent, and what becomes of an answer
//! when either fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::openai::{Behaviour, PIECES, Server};
use super::testing::{Fault, ScriptedDecoder, SequenceDecoder, byte_model};
use super::*;
use crate::decoder::Decoder;
use crate::remote::{ApiKey, Endpoint, Timeouts};

const KEY: &str = "sk-very-secret";
/// Tokens of `<user>Hello<assistant>`, which are bytes.
const PROMPT: &str = "<user>Hello<assistant>";

fn options(server: &Server, privacy: Privacy) -> RemoteOptions {
    RemoteOptions {
        endpoint: Endpoint::parse(&server.address, Some(ApiKey::parse(KEY, "KEY").unwrap())).unwrap(),
        timeouts: Timeouts { connect: Duration::from_secs(5), silence: Duration::from_millis(500) },
        model: None,
        context: None,
        privacy,
        place: RemotePlace::Outgrown,
        price: Some(Price { per_million: TokenPrice { input: 1.0, output: 2.0 }, currency: Some("EUR".into()) }),
    }
}

fn cpu(context: usize, open: impl Fn() -> Box<dyn Decoder> + Send + 'static) -> LaneSpec {
    LaneSpec {
        id: LaneId::Cpu,
        execution_provider: "cpu provider".into(),
        device: None,
        emulated: false,
        context_limit: context,
        threads: None,
        memory: None,
        measured: MeasuredRates::default(),
        remote: None,
        source: LaneSource::Open(Box::new(move || {
            Ok(OpenLane { decoder: open(), placement: Vec::new(), device: None, emulated: false })
        })),
    }
}

/// Gives tokens that depend on all before.
fn sequence(context: usize) -> LaneSpec {
    cpu(context, move || Box::new(SequenceDecoder::new(context, Fault::Never)))
}

/// Says "local answer" and whatever follows.
fn local(context: usize) -> LaneSpec {
    let script: Vec<u32> = "local answer, long".bytes().map(u32::from).collect();
    cpu(context, move || Box::new(ScriptedDecoder::new(&script, context)))
}

fn engine(lanes: Vec<LaneSpec>) -> Engine {
    let dir = tempfile::tempdir().unwrap();
    let options = EngineOptions { model: Arc::new(byte_model(dir.path())), lanes, emulation: false, listener: None };
    let engine = Engine::load(options).unwrap();
    engine.wait_for_lanes(None);
    engine
}

/// A lane of this machine and the server that may take anything.
fn both(server: &Server) -> Engine {
    engine(vec![local(400), remote_lane(options(server, Privacy::Allow))])
}

fn request(lane: Option<LaneId>) -> ChatRequest {
    ChatRequest { max_tokens: 60, lane, ..ChatRequest::new(vec![ChatMessage::new(Role::User, "Hello")]) }
}

const ON_SERVER: Option<LaneId> = Some(LaneId::Remote);

#[derive(Default)]
struct Answer {
    text: String,
    thinking: String,
    pieces: Vec<(u32, LaneId)>,
    routed: Option<RoutingDecision>,
    changes: Vec<LaneChange>,
    finished: Option<Finished>,
}

impl Answer {
    fn reason(&self) -> &FinishReason {
        &self.finished.as_ref().unwrap().reason
    }

    fn error(&self) -> &str {
        match self.reason() {
            FinishReason::Error(message) => message,
            reason => panic!("{reason:?}"),
        }
    }

    fn usage(&self) -> Usage {
        self.finished.as_ref().unwrap().usage
    }
}

fn ask(engine: &Engine, request: ChatRequest) -> Answer {
    let (mut stream, mut answer) = (engine.submit(request), Answer::default());
    while let Some(event) = stream.blocking_recv() {
        match event {
            GenerationEvent::Routed(decision) => answer.routed = Some(decision),
            GenerationEvent::Token(token) => {
                answer.text += &token.text;
                answer.thinking += &token.thinking;
                answer.pieces.push((token.id, token.lane));
            }
            GenerationEvent::TrailingText { text, thinking, .. } => {
                answer.text += &text;
                answer.thinking += &thinking;
            }
            GenerationEvent::LaneChanged(change) => answer.changes.push(change),
            GenerationEvent::ContextTrimmed(_) | GenerationEvent::PrefillProgress(_) => {}
            GenerationEvent::Finished(finished) => answer.finished = Some(finished),
        }
    }
    answer
}

fn state(engine: &Engine) -> LaneState {
    engine.snapshot().lanes.into_iter().find(|lane| lane.id == LaneId::Remote).unwrap().state
}

#[test]
fn a_server_answers_and_its_bill_comes_with_the_answer() {
    let server = Server::start(Behaviour::good());
    let engine = both(&server);
    let lane = engine.snapshot().lanes.remove(1);
    assert_eq!((lane.context_limit, &lane.state), (4096, &LaneState::Ready));
    let status = lane.remote.unwrap();
    assert_eq!((status.model.as_deref(), status.url.ends_with("/v1")), (Some("far-model"), true));

    server.asked();
    let sampling = Sampling { temperature: 0.7, top_p: 0.9, seed: Some(3), frequency_penalty: 0.5, ..Sampling::GREEDY };
    let system = ChatMessage::new(Role::System, "Be brief.");
    let asked = ChatRequest { sampling, stop: vec!["!".into(), String::new()], ..request(ON_SERVER) };
    let answer = ask(&engine, ChatRequest { messages: [vec![system], asked.messages.clone()].concat(), ..asked });
    assert_eq!((answer.text.as_str(), answer.reason()), ("The capital is Paris.", &FinishReason::Stop));
    assert!(answer.pieces.iter().all(|piece| *piece == (Token::NO_ID, LaneId::Remote)));
    let usage = answer.usage();
    let remote = RemoteUsage { prompt_tokens: 20, completion_tokens: 7, is_estimate: false };
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.remote), (20, 7, Some(remote)));
    // 20 at 1 and 7 at 2 for a million.
    assert_eq!(status.price.unwrap().show(remote), "0.000034 EUR");
    let timings = answer.finished.unwrap().timings;
    assert!(timings.ttft.is_some() && timings.token_latencies.len() == PIECES.len() - 1);

    let sent = server.chats().remove(0);
    assert_eq!(sent.key.as_deref(), Some("Bearer sk-very-secret"));
    let expected = json!({
        "model": "far-model",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 60, "temperature": 0.7, "top_p": 0.9,
        "seed": 3, "frequency_penalty": 0.5, "stop": ["!"],
    });
    assert_eq!(sent.body, expected);
}

#[test]
fn nothing_is_sent_without_leave() {
    let server = Server::start(Behaviour::good());
    let never = engine(vec![local(400), remote_lane(options(&server, Privacy::Never))]);
    let refused = ask(&never, ChatRequest { allow_remote: true, ..request(ON_SERVER) });
    assert!(refused.error().contains("privacy is 'never'"), "{}", refused.error());
    let asks = engine(vec![local(400), remote_lane(options(&server, Privacy::Ask))]);
    let refused = ask(&asks, request(ON_SERVER));
    assert!(refused.error().contains("--allow-remote"), "{}", refused.error());
    let long = ChatMessage::new(Role::User, "x".repeat(500));
    // It does not fit here, and stays here.
    let refused = ask(&asks, ChatRequest { messages: vec![long.clone()], ..request(None) });
    assert!(refused.error().contains("leaves room for"), "{}", refused.error());
    assert_eq!(server.connections(), 0, "not even to ask for its models");

    let answer = ask(&asks, ChatRequest { messages: vec![long], allow_remote: true, ..request(None) });
    assert_eq!(answer.text, "The capital is Paris.");
    assert_eq!(answer.routed.unwrap().rule, Rule::Outgrown);
    // The next conversation was not allowed.
    assert!(ask(&asks, request(ON_SERVER)).error().contains("not allowed"));
    assert_eq!(server.chats().len(), 1);
}

#[test]
fn what_is_checked_or_called_here_stays_here() {
    let server = Server::start(Behaviour::good());
    let engine = both(&server);
    let tool = Tool { name: "f".into(), description: None, parameters: None };
    for asked in [
        ChatRequest { tools: vec![tool], ..request(ON_SERVER) },
        ChatRequest { format: AnswerFormat::JsonObject, ..request(ON_SERVER) },
        ChatRequest { logprobs: Some(1), ..request(ON_SERVER) },
    ] {
        let answer = ask(&engine, asked);
        assert!(answer.error().starts_with("the remote lane was asked for, but "), "{}", answer.error());
    }
    assert_eq!(server.chats().len(), 0);
}

/// What a lane of this machine says behind a text, which are its tokens, too.
fn continued(text: &str, count: usize) -> Vec<u32> {
    let mut decoder = SequenceDecoder::new(400, Fault::Never);
    let mut next: Vec<u32> = text.bytes().map(u32::from).collect();
    (0..count)
        .map(|_| {
            decoder.forward(&next).unwrap();
            let logits = decoder.logits();
            let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u32;
            next = vec![best];
            best
        })
        .collect()
}

#[test]
fn an_answer_whose_server_breaks_off_goes_on_here_from_its_last_word() {
    for behaviour in [Behaviour::Cut(2), Behaviour::Silent(2), Behaviour::Reported(2)] {
        let server = Server::start(behaviour.clone());
        let options = RemoteOptions { place: RemotePlace::First, ..options(&server, Privacy::Allow) };
        let engine = engine(vec![remote_lane(options), sequence(400)]);
        let answer = ask(&engine, ChatRequest { max_tokens: 12, ..request(None) });
        assert_eq!(answer.routed.as_ref().unwrap().rule, Rule::FirstThatFits, "{behaviour:?}");
        assert!(answer.text.starts_with("The capital "), "{behaviour:?}: {}", answer.text);
        let [change] = &answer.changes[..] else { panic!("{behaviour:?}: {:?}", answer.changes) };
        assert_eq!((change.from, change.to), (LaneId::Remote, LaneId::Cpu));
        assert!(change.reason.starts_with("remote failed: 127.0.0.1:"), "{}", change.reason);
        let here: Vec<u32> = answer.pieces.iter().filter(|piece| piece.1 == LaneId::Cpu).map(|piece| piece.0).collect();
        assert_eq!(here, continued(&format!("{PROMPT}The capital "), here.len()), "{behaviour:?}");
        // The server had not counted: twelve bytes are twelve of this model's tokens, and end the answer of as many.
        let remote = answer.usage().remote.unwrap();
        assert_eq!((remote.prompt_tokens, remote.completion_tokens, remote.is_estimate), (PROMPT.len(), 12, true));
        assert!(matches!(state(&engine), LaneState::Failed { reason } if reason.contains("127.0.0.1")));
    }
}

#[test]
fn an_answer_that_outgrows_this_machine_goes_on_at_the_server() {
    let server = Server::start(Behaviour::pieces(&[" and", " on."]));
    for (owner, expected) in [
        ("vllm", json!({"continue_final_message": true, "add_generation_prompt": false})),
        ("ortalk", json!({"continue_final_message": true})),
        ("llamacpp", json!({})),
        ("openai", json!({})),
    ] {
        let models = json!({"data": [{"id": "m", "owned_by": owner}]});
        server.models(&models.to_string());
        // Room for eight tokens behind the prompt.
        let engine = engine(vec![local(30), remote_lane(options(&server, Privacy::Allow))]);
        assert_eq!(engine.snapshot().lanes[1].context_limit, 32_768);
        server.asked();
        let answer = ask(&engine, ChatRequest { policy: Policy::Cpu, ..request(None) });
        assert_eq!(answer.text, "local ans and on.");
        assert_eq!(answer.changes[0].reason, "the context of 30 is full");
        let body = &server.chats()[0].body;
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages[1], json!({"role": "assistant", "content": "local ans"}));
        assert_eq!(messages.len(), if owner == "openai" { 3 } else { 2 }, "{owner}");
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&body[field], value, "{owner}");
        }
        assert_eq!(body["max_tokens"], 60 - 9);
        let usage = answer.usage();
        assert_eq!((usage.completion_tokens, usage.remote.unwrap().completion_tokens), (9 + 4, 4));
    }
    // Without leave it is cut where it would be without a server.
    let engine = engine(vec![local(30), remote_lane(options(&server, Privacy::Ask))]);
    let answer = ask(&engine, ChatRequest { policy: Policy::Cpu, ..request(None) });
    assert_eq!((answer.text.as_str(), answer.reason()), ("local ans", &FinishReason::ContextFull));
}

#[test]
fn a_server_that_fails_is_told_of_and_another_lane_answers() {
    let error = |status, message: &str| {
        Behaviour::Status(status, String::new(), json!({"error": {"message": message}}).to_string())
    };
    for (behaviour, words, breaks) in [
        (error(401, "bad key sk-very-secret"), "saying \"bad key (the key)\"", true),
        (error(403, "not here"), "saying \"not here\"", false),
        (error(400, "too long for me"), "saying \"too long for me\"", false),
        (error(429, "slow down"), "saying \"slow down\"", true),
        (error(500, "oops"), "saying \"oops\"", true),
        (Behaviour::Cut(0), "broke off", true),
        (Behaviour::Silent(0), "said nothing", true),
        (Behaviour::Json("{}".into()), "not with a stream of events", true),
        (Behaviour::Text("data: nonsense\n\n".into()), "makes no sense", true),
    ] {
        let server = Server::start(behaviour.clone());
        let options = RemoteOptions { place: RemotePlace::First, ..options(&server, Privacy::Allow) };
        let engine = engine(vec![remote_lane(options), local(400)]);
        let pinned = ask(&engine, request(ON_SERVER));
        assert!(pinned.error().contains(words) && !pinned.error().contains(KEY), "{behaviour:?}: {}", pinned.error());
        assert_eq!(matches!(state(&engine), LaneState::Failed { .. }), breaks, "{behaviour:?}");
        let free = ask(&engine, request(None));
        assert_eq!((free.text.as_str(), free.pieces[0].1), ("local answer, long", LaneId::Cpu), "{behaviour:?}");
        let told = free.changes.first().map(|change| change.reason.clone()).or(match state(&engine) {
            LaneState::Failed { reason } => Some(reason),
            _ => None,
        });
        assert!(told.unwrap().contains(words), "{behaviour:?}");
        // Whoever names it tries it again.
        server.become_(Behaviour::good());
        assert_eq!(ask(&engine, request(ON_SERVER)).text, "The capital is Paris.", "{behaviour:?}");
        assert_eq!(state(&engine), LaneState::Ready);
    }
}

#[test]
fn a_server_is_asked_again_after_the_rest_that_it_wanted() {
    let busy = Behaviour::Status(503, "Retry-After: 1\r\n".into(), String::new());
    let server = Server::start(busy);
    let engine = both(&server);
    ask(&engine, request(ON_SERVER));
    assert!(matches!(state(&engine), LaneState::Failed { .. }));
    let until = Instant::now() + Duration::from_secs(5);
    while state(&engine) != LaneState::Ready && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(state(&engine), LaneState::Ready);
}

#[test]
fn fields_that_a_server_does_not_know_are_left_out_from_then_on() {
    let server = Server::start(Behaviour::Refuses(vec!["max_tokens".into(), "seed".into()]));
    let engine = both(&server);
    let seeded = || ChatRequest { sampling: Sampling { seed: Some(1), ..Sampling::GREEDY }, ..request(ON_SERVER) };
    assert_eq!(ask(&engine, seeded()).text, "The capital is Paris.");
    assert_eq!(server.chats().len(), 3);
    assert_eq!(ask(&engine, seeded()).text, "The capital is Paris.");
    let [sent] = &server.chats()[..] else { panic!("refused again") };
    assert_eq!((&sent.body["max_completion_tokens"], sent.body.get("seed")), (&json!(60), None));
}

#[test]
fn stop_texts_and_thinking_are_as_on_other_lanes() {
    let server =
        Server::start(Behaviour::pieces(&["<th", "ink>Hm", ".</think>", "\n\nIt is Pa", "ris. And", " so on"]));
    let engine = both(&server);
    let answer = ask(&engine, ChatRequest { stop: vec![" And".into()], ..request(ON_SERVER) });
    assert_eq!((answer.thinking.as_str(), answer.text.as_str()), ("Hm.", "It is Paris."));
    assert_eq!(answer.reason(), &FinishReason::Stop);
    assert!(answer.usage().thinking_tokens > 0 && answer.usage().remote.is_some());
}

#[test]
fn who_goes_away_is_heard_by_the_server() {
    let server = Server::start(Behaviour::Silent(2));
    let options = RemoteOptions { timeouts: Timeouts::default(), ..options(&server, Privacy::Allow) };
    let engine = engine(vec![local(400), remote_lane(options)]);
    let mut stream = engine.submit(request(ON_SERVER));
    while !matches!(stream.blocking_recv(), Some(GenerationEvent::Token(_))) {}
    let gone = Instant::now();
    drop(stream);
    while server.left().is_none() && gone.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let heard = server.left().expect("the server hears of it") - gone;
    assert!(heard < Duration::from_secs(1), "{heard:?}");
    server.become_(Behaviour::good());
    assert_eq!(ask(&engine, request(ON_SERVER)).text, "The capital is Paris.");
}

#[test]
fn what_fits_here_is_never_sent() {
    let server = Server::start(Behaviour::good());
    let engine = both(&server);
    for policy in [Policy::Auto, Policy::Npu, Policy::Cpu, Policy::Fastest, Policy::Efficient] {
        let answer = ask(&engine, ChatRequest { policy, ..request(None) });
        assert_eq!((answer.text.as_str(), answer.changes.len()), ("local answer, long", 0), "{policy:?}");
        assert_eq!(answer.usage().remote, None);
    }
    assert_eq!(server.chats().len(), 0);
}
