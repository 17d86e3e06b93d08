//! `ortalk run`: answers one prompt on standard output, as text while it comes or as one JSON object at the end.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use crossterm::execute;
use crossterm::style::{Attribute, Print, SetAttribute};

use super::answer_json;
use super::fetch::AfterFetch;
use super::session;
use crate::bill::Tab;
use crate::cli::RunArgs;
use crate::engine::{
    AnswerFormat, ChatMessage, ChatRequest, EngineSnapshot, FinishReason, Finished, GenerationEvent, GenerationStream,
    LaneChange, LaneId, LaneState, RemoteUsage, Role, RoutingDecision, Usage,
};

/// For so long at the most the power without an answer is looked at, where there is a sensor.
const IDLE_LOOK: Duration = Duration::from_millis(800);

pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let prompt = prompt(args.prompt.as_deref())?;
    let format = format(args.json_object, args.schema.as_deref())?;
    let lane = args.chat.lane;
    let prepared = session::prepare(&args.chat, AfterFetch::Exit)?;
    let engine = prepared.load(lane)?;
    // What is routed should not hang on which lane opened first.
    engine.wait_for_lanes(lane);
    let npu_was_named = args.chat.emulate_npu || args.chat.npu_model.is_some();
    for lane in engine.snapshot().lanes.iter().filter(|_| lane.is_none()) {
        match &lane.state {
            LaneState::Failed { reason } => eprintln!("ortalk: the {} lane failed: {reason}", lane.id),
            LaneState::Absent { reason } if lane.id == LaneId::Npu && npu_was_named => {
                eprintln!("ortalk: the npu lane is not there: {reason}");
            }
            LaneState::Absent { .. } | LaneState::Loading { .. } | LaneState::Ready => {}
        }
    }
    let objection = prepared.answers.thinking.and_then(|wish| engine.snapshot().thinking.objection(wish));
    if let Some(objection) = objection {
        eprintln!("ortalk: {objection}");
    }
    let turn = ChatMessage::new(Role::User, prompt);
    let request = ChatRequest { stop: args.stop, format, ..prepared.answers.request([turn]) };
    engine.check(&request)?;
    let mut display = Display::new(args.json);
    let books = prepared.books("run");
    books.observe(&engine.snapshot().lanes);
    let mut tab = books.open(&engine.snapshot().model);
    let followed = follow(engine.submit(request), &mut display, &mut tab);
    // Who reads JSON reads it when all is over, and then a moment more tells what the machine uses anyway.
    let bill = tab.close_after(if args.json { IDLE_LOOK } else { Duration::ZERO });
    if let Some(complaint) = &bill.complaint {
        eprintln!("ortalk: {complaint}");
    }
    books.observe(&engine.snapshot().lanes);
    let (answer, finished) = followed?;

    if let FinishReason::Error(reason) = &finished.reason {
        bail!("{reason}");
    }
    if args.json {
        print_now(&format!("{}\n", answer_json::as_json(&answer, &finished, &bill, &engine.snapshot())))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_now("\n")?;
    if let Some(remote) = finished.usage.remote {
        eprintln!("ortalk: {}", server_bill(remote, &engine.snapshot()));
    }
    if let Some(why) = cut(&finished.reason) {
        let Usage { completion_tokens, thinking_tokens, .. } = finished.usage;
        let thinking = if thinking_tokens == completion_tokens { ", while it was still thinking" } else { "" };
        eprintln!("ortalk: the answer was cut after {completion_tokens} tokens ({why}){thinking}");
    }
    Ok(ExitCode::SUCCESS)
}

fn format(json_object: bool, schema: Option<&Path>) -> anyhow::Result<AnswerFormat> {
    let Some(path) = schema else {
        return Ok(if json_object { AnswerFormat::JsonObject } else { AnswerFormat::Text });
    };
    let shown = path.display();
    let text = std::fs::read(path).with_context(|| format!("the JSON Schema '{shown}' cannot be read"))?;
    let schema = serde_json::from_slice(&text).with_context(|| format!("the JSON Schema '{shown}' is no JSON"))?;
    Ok(AnswerFormat::JsonSchema(schema))
}

/// What a server did of the answer, and what it takes for that.
fn server_bill(usage: RemoteUsage, engine: &EngineSnapshot) -> String {
    let RemoteUsage { prompt_tokens, completion_tokens, is_estimate } = usage;
    let server = engine.lanes.iter().find_map(|lane| lane.remote.as_ref());
    let host = server.map_or("a server", |server| server.host.as_str());
    let price = server.and_then(|server| server.price.as_ref());
    let cost = price.map_or_else(String::new, |price| format!(": {}", price.show(usage)));
    let estimate = if is_estimate { "est. " } else { "" };
    format!("{estimate}{prompt_tokens} tokens to {host} and {completion_tokens} from it{cost}")
}

/// What cut the answer before its own end.
fn cut(reason: &FinishReason) -> Option<&'static str> {
    match reason {
        FinishReason::Length => Some("--max-tokens"),
        FinishReason::ContextFull => Some("the context is full"),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Cancelled | FinishReason::Error(_) => None,
    }
}

/// The argument, standard input, or both with standard input after the argument.
pub fn prompt(argument: Option<&str>) -> anyhow::Result<String> {
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

/// Everything that an answer's events said.
#[derive(Default)]
pub struct CompleteAnswer {
    pub text: String,
    pub thinking: String,
    pub routing: Option<RoutingDecision>,
    pub changes: Vec<LaneChange>,
    /// In the order in which they answered.
    pub tokens_by_lane: Vec<(LaneId, usize)>,
}

impl CompleteAnswer {
    fn take(&mut self, thinking: &str, text: &str, display: &mut Display) -> anyhow::Result<()> {
        display.show(thinking, text)?;
        self.thinking.push_str(thinking);
        self.text.push_str(text);
        Ok(())
    }

    fn count(&mut self, lane: LaneId) {
        match self.tokens_by_lane.iter_mut().find(|(id, _)| *id == lane) {
            Some((_, tokens)) => *tokens += 1,
            None => self.tokens_by_lane.push((lane, 1)),
        }
    }
}

/// Where text goes while it comes: the answer to standard output, and thinking to standard error, for people only.
struct Display {
    answer: bool,
    thinking: bool,
    /// Something of the thinking was shown, and nothing yet of the answer.
    within_thinking: bool,
}

impl Display {
    fn new(json: bool) -> Self {
        Self { answer: !json, thinking: !json && std::io::stderr().is_terminal(), within_thinking: false }
    }

    fn show(&mut self, thinking: &str, text: &str) -> anyhow::Result<()> {
        if self.thinking && !thinking.is_empty() {
            self.within_thinking = true;
            // A model's text may hold commands for the terminal.
            let shown: String = thinking.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
            // Where it cannot be shown, the answer can still be.
            let _ =
                execute!(std::io::stderr(), SetAttribute(Attribute::Dim), Print(shown), SetAttribute(Attribute::Reset));
        }
        if self.answer && !text.is_empty() {
            self.end_thinking();
            print_now(text)?;
        }
        Ok(())
    }

    fn end_thinking(&mut self) {
        if std::mem::take(&mut self.within_thinking) {
            eprint!("\n\n");
        }
    }
}

fn follow(
    mut events: GenerationStream,
    display: &mut Display,
    tab: &mut Tab,
) -> anyhow::Result<(CompleteAnswer, Finished)> {
    let mut answer = CompleteAnswer::default();
    while let Some(event) = events.blocking_recv() {
        tab.note(&event);
        match event {
            GenerationEvent::Routed(decision) => answer.routing = Some(decision),
            GenerationEvent::Token(token) => {
                answer.take(&token.thinking, &token.text, display)?;
                answer.count(token.lane);
            }
            GenerationEvent::TrailingText { thinking, text, .. } => answer.take(&thinking, &text, display)?,
            GenerationEvent::ContextTrimmed(trim) => eprintln!(
                "ortalk: {} of {} prompt tokens were kept: the context holds {}",
                trim.tokens_after, trim.tokens_before, trim.context_limit
            ),
            GenerationEvent::LaneChanged(change) => {
                let LaneChange { from, to, reason, .. } = &change;
                eprintln!("ortalk: the answer goes on in the {to} lane, not {from}: {reason}");
                answer.changes.push(change);
            }
            GenerationEvent::PrefillProgress(_) => {}
            GenerationEvent::Finished(finished) => {
                display.end_thinking();
                return Ok((answer, finished));
            }
        }
    }
    bail!("the engine stopped without finishing the answer")
}

/// Each piece is seen at once; a reader that went away ends the program quietly, as pipes do.
pub fn print_now(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("standard output cannot be written")
}
