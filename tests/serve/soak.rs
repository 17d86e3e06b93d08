//! Many clients at once, some of whom leave: every answer that is complete is the one that a single client gets, no place
//! is lost, and memory does not grow.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::client::{Events, content};
use super::server::Server;

const CHAT: &str = "/v1/chat/completions";
const CLIENTS: usize = 32;

const QUESTIONS: [&str; 12] = [
    "What is the capital of France?",
    "Name three rivers.",
    "What is two plus two?",
    "Write a sentence about the sea.",
    "Who wrote Hamlet?",
    "What do bees make?",
    "Say hello in Spanish.",
    "What colour is the sky?",
    "Name a planet with rings.",
    "What is ice made of?",
    "Explain in one sentence why leaves are green, how they drink and what happens to them in autumn.",
    "Give me a recipe for bread with flour, water, salt and yeast, and say how long it takes in the oven.",
];

/// Conversations of one and of several turns.
fn requests() -> Vec<Value> {
    let turn = |role: &str, text: &str| json!({"role": role, "content": text});
    let short = QUESTIONS.iter().map(|question| vec![turn("user", question)]);
    let long = QUESTIONS
        .windows(2)
        .map(|pair| vec![turn("user", pair[0]), turn("assistant", "I will think about it."), turn("user", pair[1])]);
    let of = |messages| json!({"messages": messages, "temperature": 0, "max_tokens": 24, "stream": true});
    short.chain(long).map(of).collect()
}

fn resident(server: &Server) -> f64 {
    server.metric("process_resident_memory_bytes", &[]) / f64::from(1 << 20)
}

fn soak(time: Duration) {
    let server = Server::start(&["--quiet"]);
    let requests = requests();
    // Alone, one after the other.
    let began = Instant::now();
    let single: Vec<String> =
        requests.iter().map(|request| content(&Events::open(server.address, CHAT, request).chunks(), 0)).collect();
    let tokens = server.metric("ortalk_tokens_total", &["completion"]);
    let alone = tokens / began.elapsed().as_secs_f64();

    let (complete, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let different = Mutex::new(BTreeMap::new());
    let memory = Mutex::new(Vec::new());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (requests, single, server) = (&requests, &single, &server);
            let (complete, left, different) = (&complete, &left, &different);
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64(client as u64);
                while began.elapsed() < time {
                    let index = rng.random_range(0..requests.len());
                    let mut events = Events::open(server.address, CHAT, &requests[index]);
                    // One in four leaves somewhere.
                    if rng.random_range(0..4) == 0 {
                        for _ in 0..rng.random_range(0..20) {
                            if events.next().unwrap().is_none() {
                                break;
                            }
                        }
                        left.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let text = content(&events.chunks(), 0);
                    complete.fetch_add(1, Ordering::Relaxed);
                    if text != single[index] {
                        different.lock().unwrap().insert(index, text);
                    }
                }
            });
        }
        scope.spawn(|| {
            while began.elapsed() < time {
                std::thread::sleep(time / 20);
                memory.lock().unwrap().push(resident(&server));
            }
        });
    });
    let together = (server.metric("ortalk_tokens_total", &["completion"]) - tokens) / began.elapsed().as_secs_f64();
    assert!(server.becomes_idle(Duration::from_secs(60)), "a place was lost");
    let (complete, left) = (complete.into_inner(), left.into_inner());
    let memory = memory.into_inner().unwrap();
    println!(
        "{complete} complete answers, {left} left; {together:.1} tokens per second for {CLIENTS} clients, {alone:.1} for \
         one, ratio {:.2}; resident MiB {memory:.0?}",
        together / alone
    );
    if let Some((index, text)) = different.into_inner().unwrap().pop_first() {
        panic!("{}\nalone:    {:?}\ntogether: {text:?}", requests[index]["messages"], single[index]);
    }
    assert!(complete >= 8, "{complete}");
    // The first half fills caches and the allocator's reserves.
    let half = memory.len() / 2;
    let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let (before, after) = (most(&memory[..half]), most(&memory[half..]));
    assert!(after < before * 1.05 + 24.0, "memory grew: {memory:?}");
    assert!(server.closes_connections(Duration::from_secs(20)));
    let ended = server.metric("ortalk_answers_total", &[]);
    assert_eq!(ended as usize, complete + left + requests.len());
}

#[test]
fn many_clients_for_ten_seconds() {
    soak(Duration::from_secs(10));
}

/// `cargo test --release --test serve -- --ignored --nocapture` prints the throughput, too.
#[test]
#[ignore = "takes a minute, and all of the machine"]
fn many_clients_for_a_minute() {
    soak(Duration::from_secs(60));
}
