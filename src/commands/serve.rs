//! `ortalk serve`: the engine behind OpenAI's API, until it is told to stop.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::http::HeaderValue;
use tokio::net::TcpListener;

use super::fetch::{AfterFetch, StopSignals, end_now};
use super::session;
use crate::cli::ServeArgs;
use crate::hub;
use crate::server::{self, Key, Limits, Log, ServerOptions};

pub fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    // What is wrong with the arguments is said before anything is fetched.
    let address = SocketAddr::new(host(&args.host)?, args.port);
    let key = key(args.api_key.as_deref())?;
    if !address.ip().is_loopback() && key.is_none() {
        bail!(
            "'--host {}' lets other machines in, and there is no key: whoever reaches this port could use it. Give one \
             with --api-key or ORTALK_API_KEY, or leave --host out",
            args.host
        );
    }
    let cors = args.cors.as_deref().map(origin).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listener = runtime
        .block_on(TcpListener::bind(address))
        .with_context(|| format!("{address} cannot be listened on; --port names another port"))?;

    let prepared = session::prepare(&args.chat, AfterFetch::LeaveSignals)?;
    let engine = prepared.load(args.chat.lane)?;
    // A conversation is its client's alone: what the settings say to a chat is not put into it.
    let defaults = crate::engine::AnswerSettings { system: args.chat.system.clone(), ..prepared.answers.clone() };
    let named = args.chat.model.as_deref().or(prepared.settings.model.as_deref());
    let options = ServerOptions {
        defaults,
        names: names(named),
        limits: limits(&args),
        key,
        cors,
        books: Some(prepared.books("serve")),
        log: if args.quiet { Log::default() } else { Log::to_stderr()? },
    };
    runtime.block_on(async {
        let mut signals = StopSignals::register()?;
        eprintln!("ortalk: {} answers at http://{}", engine.snapshot().model, listener.local_addr()?);
        let (stop, stopped) = tokio::sync::mpsc::unbounded_channel();
        let listening = tokio::spawn(async move {
            for _ in 0..2 {
                signals.next().await;
                let _ = stop.send(());
            }
            signals.next().await;
            end_now();
        });
        server::serve(listener, engine.clone(), options, stopped).await;
        listening.abort();
        anyhow::Ok(())
    })?;
    // Answers that were cut are given the time of a token to notice.
    drop(engine);
    Ok(ExitCode::SUCCESS)
}

fn host(text: &str) -> anyhow::Result<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    text.trim_matches(['[', ']']).parse().ok().with_context(|| {
        format!("'--host {text}' is no address; expected one as 127.0.0.1 or ::1, or 0.0.0.0 for all that there are")
    })
}

fn key(text: Option<&str>) -> anyhow::Result<Option<Key>> {
    match text {
        Some(key) if key.trim() != key || key.is_empty() => {
            bail!("the key is empty or has spaces around it, which no request could carry")
        }
        key => Ok(key.map(Key::new)),
    }
}

fn origin(text: &str) -> anyhow::Result<HeaderValue> {
    let is_origin =
        text == "*" || text.split_once("://").is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'));
    match HeaderValue::from_str(text) {
        Ok(value) if is_origin => Ok(value),
        _ => bail!("'--cors {text}' is no origin; expected one as https://chat.example, without a path, or '*'"),
    }
}

fn limits(args: &ServeArgs) -> Limits {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let client = seconds(args.client_timeout);
    Limits {
        answers: args.queue as usize,
        connections: args.connections as usize,
        body_bytes: (args.max_body as usize) << 20,
        answer_time: seconds(args.answer_timeout),
        head_time: client,
        body_time: client,
        write_time: client,
        grace: seconds(args.grace),
        ..Limits::default()
    }
}

/// What requests may call the model besides its own name: what it was called here, unless that is a path.
fn names(named: Option<&Path>) -> Vec<String> {
    match named {
        Some(named) if named.exists() => Vec::new(),
        Some(named) => vec![named.to_string_lossy().into_owned()],
        None => hub::catalogue().iter().filter(|entry| entry.is_default).map(|entry| entry.name.clone()).collect(),
    }
}
