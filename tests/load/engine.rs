//! Several answers at once in one engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ortalk::engine::*;
use ortalk::model::ModelFolder;

use crate::support::{model, runtime};

const QUESTIONS: [&str; 8] = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain in two sentences why the sky is blue.",
    "List three fruits.",
    "Who wrote Hamlet?",
    "Tell me a short story about a lighthouse keeper who counts ships and one day counts one too many.",
    "What is 7 times 8?",
    "Give me a recipe for pancakes.",
];
const TOKENS: usize = 40;

/// With room for so many tokens in all conversations.
fn engine(kept_tokens: usize) -> Engine {
    let model = Arc::new(ModelFolder::open(model()).unwrap());
    let setting = (CpuSetting::with_threads(2), ChosenBy::Default);
    let lane = cpu_lane(runtime(), model.clone(), setting, Some(2048), kept_tokens);
    Engine::load(EngineOptions { model, lanes: vec![lane], emulation: false, listener: None }).unwrap()
}

type Turns = Vec<ChatMessage>;

fn submit(engine: &Engine, turns: Turns) -> GenerationStream {
    engine.submit(ChatRequest { max_tokens: TOKENS, ..ChatRequest::new(turns) })
}

fn follow(mut stream: GenerationStream) -> (String, Finished) {
    let mut text = String::new();
    loop {
        match stream.blocking_recv().unwrap() {
            GenerationEvent::Token(token) => text.push_str(&token.text),
            GenerationEvent::TrailingText { text: piece, .. } => text.push_str(&piece),
            GenerationEvent::Finished(finished) => return (text, finished),
            _ => {}
        }
    }
}

/// The conversations with their answers, and how many tokens of each prompt were reused.
fn answered(conversations: Vec<Turns>, answers: Vec<(String, Finished)>) -> (Vec<Turns>, Vec<usize>) {
    let reused = answers.iter().map(|(_, finished)| finished.usage.reused_tokens).collect();
    let conversations = conversations.into_iter().zip(answers).map(|(mut turns, (text, finished))| {
        assert!(matches!(finished.reason, FinishReason::Stop | FinishReason::Length), "{finished:?}");
        turns.push(ChatMessage::new(Role::Assistant, text));
        turns
    });
    (conversations.collect(), reused)
}

fn one_after_the_other(engine: &Engine, conversations: Vec<Turns>) -> (Vec<Turns>, Vec<usize>) {
    let answers = conversations.iter().map(|turns| follow(submit(engine, turns.clone()))).collect();
    answered(conversations, answers)
}

fn at_once(engine: &Engine, conversations: Vec<Turns>) -> (Vec<Turns>, Vec<usize>) {
    let streams: Vec<_> = conversations.iter().map(|turns| submit(engine, turns.clone())).collect();
    answered(conversations, streams.into_iter().map(follow).collect())
}

fn asked(conversations: Vec<Turns>, question: impl Fn(usize) -> String) -> Vec<Turns> {
    let ask = |(index, mut turns): (usize, Turns)| {
        turns.push(ChatMessage::new(Role::User, question(index)));
        turns
    };
    conversations.into_iter().enumerate().map(ask).collect()
}

fn reaches_idle(engine: &Engine) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let lane = &engine.snapshot().lanes[0];
        if (lane.running, lane.waiting) == (0, 0) {
            return;
        }
        assert!(Instant::now() < until, "{} run and {} wait", lane.running, lane.waiting);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn eight_conversations_at_once_are_those_of_one_client() {
    let _alone = crate::alone();
    let first = || asked(vec![Vec::new(); QUESTIONS.len()], |index| QUESTIONS[index].to_owned());
    let second = |turns| asked(turns, |_| "Say that once more, in other words.".to_owned());

    let engine = self::engine(8 * 2048);
    let (single, _) = one_after_the_other(&engine, first());
    let (single, _) = one_after_the_other(&engine, second(single));
    drop(engine);
    let engine = self::engine(8 * 2048);
    let (shared, _) = at_once(&engine, first());
    let answers: Vec<String> = shared.iter().map(|turns| turns[1].content.clone()).collect();
    let (shared, reused) = at_once(&engine, second(shared));
    assert_eq!(shared, single);
    // Each found its own conversation: question and answer, of which the last token was never run.
    for (answer, reused) in answers.iter().zip(reused) {
        let tokens = engine.tokenize(&[ChatMessage::new(Role::User, answer.as_str())]).unwrap().len();
        assert!(reused + 2 >= tokens, "{reused} of more than {tokens}");
    }

    // With room for two of them, they take turns, and say the same.
    drop(engine);
    let (few, _) = at_once(&self::engine(2 * 2048), first());
    assert_eq!(few.iter().map(|turns| &turns[1].content).collect::<Vec<_>>(), answers.iter().collect::<Vec<_>>());
}

#[test]
fn clients_that_go_away_leave_nothing_behind() {
    let _alone = crate::alone();
    let engine = engine(8 * 2048);
    let conversations = || asked(vec![Vec::new(); QUESTIONS.len()], |index| QUESTIONS[index].to_owned());
    let expected = at_once(&engine, conversations()).0;
    let mut memory = Vec::new();
    for round in 0..6_usize {
        let mut streams: Vec<_> =
            conversations().into_iter().map(|turns| Some((submit(&engine, turns), String::new()))).collect();
        for step in 0..4 * streams.len() {
            // Half of them leave, at other moments in each round.
            let index = (step * 5 + round) % streams.len();
            if step % 2 == 0 && (step + round) % 3 == 0 {
                streams[index] = None;
            }
            if let Some((stream, text)) = &mut streams[index] {
                while let Ok(event) = stream.try_recv() {
                    match event {
                        GenerationEvent::Token(token) => text.push_str(&token.text),
                        GenerationEvent::TrailingText { text: piece, .. } => text.push_str(&piece),
                        // A short answer may be over already; then it is the whole one.
                        GenerationEvent::Finished(finished) => {
                            assert_eq!(finished.reason, FinishReason::Stop);
                            assert_eq!(*text, expected[index][1].content);
                        }
                        _ => {}
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(7));
        }
        drop(streams);
        reaches_idle(&engine);
        memory.extend(resident());
    }
    assert_eq!(at_once(&engine, conversations()).0, expected);
    if let (Some(first), Some(last)) = (memory.first(), memory.last()) {
        assert!(*last < first + 20_000_000, "resident memory after each round: {memory:?}");
    }
}

/// Memory that the process has of its own, in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
