//! `ortalk run`: answers one prompt on standard output, as text while it comes or as one JSON object at the end.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::fetch::AfterFetch;
use super::session;
use crate::cli::RunArgs;
use crate::engine::{
    ChatMessage, ChatRequest, FinishReason, Finished, GenerationEvent, GenerationStream, Role, RoutingDecision,
};

pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let prompt = prompt(args.prompt.as_deref())?;
    let prepared = session::prepare(&args.chat, AfterFetch::Exit)?;
    let engine = prepared.load()?;
    let model = engine.snapshot().model;
    let turn = ChatMessage::new(Role::User, prompt);
    let request = ChatRequest { stop: args.stop, ..prepared.answers.request([turn]) };
    let answer = follow(engine.submit(request), |text| if args.json { Ok(()) } else { print_now(text) })?;

    if let FinishReason::Error(reason) = &answer.finished.reason {
        bail!("{reason}");
    }
    if args.json {
        print_now(&format!("{}\n", as_json(&answer, &model)))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_now("\n")?;
    if let Some(why) = cut(&answer.finished.reason) {
        eprintln!("ortalk: the answer was cut after {} tokens ({why})", answer.finished.usage.completion_tokens);
    }
    Ok(ExitCode::SUCCESS)
}

/// What cut the answer before its own end.
fn cut(reason: &FinishReason) -> Option<&'static str> {
    match reason {
        FinishReason::Length => Some("--max-tokens"),
        FinishReason::ContextFull => Some("the context is full"),
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error(_) => None,
    }
}

/// The argument, standard input, or both with standard input after the argument.
fn prompt(argument: Option<&str>) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if matches!(argument, None | Some("-")) && stdin.is_terminal() {
        bail!("a prompt is missing: `ortalk run \"your question\"`, or pipe one in");
    }
    let mut piped = String::new();
    if !stdin.is_terminal() {
        stdin.lock().read_to_string(&mut piped).context("standard input is not readable as UTF-8 text")?;
    }
    let prompt = match (argument, piped.trim_end()) {
        (None | Some("-"), piped) => piped.to_string(),
        (Some(argument), "") => argument.to_string(),
        (Some(argument), piped) => format!("{argument}\n\n{piped}"),
    };
    if prompt.trim().is_empty() {
        bail!("the prompt is empty");
    }
    Ok(prompt)
}

struct CompleteAnswer {
    text: String,
    routing: Option<RoutingDecision>,
    finished: Finished,
}

fn follow(
    mut events: GenerationStream,
    mut show: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<CompleteAnswer> {
    let (mut text, mut routing) = (String::new(), None);
    while let Some(event) = events.blocking_recv() {
        match event {
            GenerationEvent::Routed(decision) => routing = Some(decision),
            GenerationEvent::Token(crate::engine::Token { text: piece, .. }) | GenerationEvent::TrailingText(piece) => {
                show(&piece)?;
                text.push_str(&piece);
            }
            GenerationEvent::ContextTrimmed(trim) => eprintln!(
                "ortalk: {} of {} prompt tokens were kept: the context holds {}",
                trim.tokens_after, trim.tokens_before, trim.context_limit
            ),
            GenerationEvent::LaneChanged { from, to, reason } => {
                eprintln!("ortalk: the answer goes on in the {to} lane, {from} stopped: {reason}");
            }
            GenerationEvent::PrefillProgress(_) => {}
            GenerationEvent::Finished(finished) => return Ok(CompleteAnswer { text, routing, finished }),
        }
    }
    bail!("the engine stopped without finishing the answer")
}

/// Each piece is seen at once; a reader that went away ends the program quietly, as pipes do.
pub fn print_now(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("standard output cannot be written")
}

fn as_json(answer: &CompleteAnswer, model: &str) -> Value {
    let Finished { reason, usage, timings } = &answer.finished;
    let milliseconds = |duration: &Duration| rounded(duration.as_secs_f64() * 1e3);
    json!({
        "text": answer.text,
        "finish_reason": reason.name(),
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "reused_tokens": usage.reused_tokens,
        },
        "timings": {
            "ttft_ms": timings.ttft.as_ref().map(milliseconds),
            "prefill_tokens_per_second": timings.prefill_tokens_per_second().map(rounded),
            "decode_tokens_per_second": timings.decode_tokens_per_second().map(rounded),
            "token_latencies_ms": timings.token_latencies.iter().map(milliseconds).collect::<Vec<_>>(),
        },
        "routing": answer.routing.as_ref().map(|routing| json!({
            "lane": routing.lane.name(),
            "execution_provider": routing.execution_provider,
            "emulated": routing.emulated,
            "rule": routing.rule.name(),
            "rejected": routing.rejected.iter()
                .map(|rejection| json!({"lane": rejection.lane.name(), "reason": rejection.reason}))
                .collect::<Vec<_>>(),
        })),
        "model": model,
    })
}

/// To a thousandth: no more digits than a clock read around a kernel call is good for.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
