//! A conversation of 2,000 messages, markdown and code among them: opened, drawn while its last answer grows, scrolled
//! through and given a new width. Each as a share of what it may take.

use std::time::{Duration, Instant};

use ortalk::engine::{AnswerSettings, Policy, Sampling};
use ortalk::tui::rehearsal::Rehearsal;

const MESSAGES: usize = 2_000;
/// Tokens of the answer that streams, one a frame.
const TOKENS: usize = 1_000;
const QUESTION: &str = "How do I add two numbers, and which of the lanes is faster at it? Say it with a table.";
const ANSWER: &str = "## Adding\n\nThere are **two ways**, and `a + b` is the *shorter* one; see [the \
    book](https://example.com/book) for why:\n\n1. **Call** the function, which checks that the sum fits\n2. Add them \
    yourself\n   - which is faster\n   - and may overflow\n\n```rust\n/// Adds two numbers.\nfn add(a: u32, b: u32) -> \
    Option<u32> {\n    // None where the sum does not fit.\n    a.checked_add(b)\n}\n```\n\n| lane | first word | tok/s \
    |\n|:--|--:|--:|\n| npu | 96 ms | 21.4 |\n| cpu | 41 ms | 128.4 |\n\n> Numbers are measured, or say why not.\n\nIn \
    Japanese that is 足し算, and it reads well in a terminal of any width because words are wrapped where they end.\n\n";
/// Lines of the block that is open already when more of it comes.
const LINES: usize = 3_000;
const CODE: &str = "let total = values.iter().map(|value| value * 2).sum::<u64>(); // doubled\n";

pub fn run() {
    let messages = || (0..MESSAGES).map(|index| if index % 2 == 0 { QUESTION } else { ANSWER });
    let mut screen = start(messages());
    let opening = time(|| screen.draw());
    say("opens", opening, Duration::from_secs(1));
    let second = Duration::from_secs(1);
    for (name, text, lines) in [
        ("prose and tables".to_owned(), ANSWER, None),
        ("code".to_owned(), CODE, Some(0)),
        (format!("code below {LINES} lines of it"), CODE, Some(LINES)),
    ] {
        let mut screen = start(messages());
        if let Some(lines) = lines {
            screen.token(&format!("```rust\n{}", CODE.repeat(lines)));
        }
        screen.draw();
        // Words stand for tokens.
        let words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
        let spent = time(|| {
            for index in 0..TOKENS {
                screen.token(words[index % words.len()]);
                screen.draw();
            }
        });
        // At 20 tokens/s, so many frames take a second.
        say(&format!("draws 20 tokens of {name}"), spent * 20 / TOKENS as u32, second / 10);
    }
    screen.resize(80, 24);
    say("takes a new width", time(|| screen.draw()), second);
    screen.scroll_to_top();
    say("shows the first message", time(|| screen.draw()), second / 10);
}

fn start<'t>(messages: impl IntoIterator<Item = &'t str>) -> Rehearsal {
    let settings = AnswerSettings {
        system: None,
        sampling: Sampling::GREEDY,
        max_tokens: 1000,
        thinking: None,
        policy: Policy::Auto,
        lane: None,
        allow_remote: false,
    };
    Rehearsal::new(settings, messages, 120, 36).unwrap()
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn say(what: &str, spent: Duration, allowed: Duration) {
    let ratio = spent.as_secs_f64() / allowed.as_secs_f64();
    println!("{MESSAGES} messages, 120x36: {what} in {spent:.1?}, ratio {ratio:.3} of {allowed:?} (at most 1)");
}
