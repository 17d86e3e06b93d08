//! `ortalk chats`: the kept conversations without a screen. And what the chat's options mean for them.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use chrono::Local;
use serde::Serialize;

use super::run::print_now;
use crate::cli::{ChatArgs, ChatsArgs, ChatsCommand, FormatName, KeepArgs};
use crate::config::Settings;
use crate::engine::Parameter;
use crate::paths::Paths;
use crate::store::export::{self, Format};
use crate::store::{Found, Library, Store, timestamp};
use crate::tui::text::sanitize::{one_line, sanitize};
use crate::tui::{ChatOptions, Given};

/// The version of the JSON; it grows when a field changes its meaning.
const SCHEMA: u32 = 1;

/// Where the chat keeps what is said, and what it begins with.
pub fn options(keep: &KeepArgs, args: &ChatArgs, settings: &Settings, paths: &Paths) -> anyhow::Result<ChatOptions> {
    let store = Store::new(paths.chats());
    let resume = match keep.resume.as_deref() {
        None => None,
        Some("") => Some(store.find(None)?),
        Some(id) => Some(store.find(Some(id))?),
    };
    let saves = !keep.no_save && settings.save.unwrap_or(true);
    Ok(ChatOptions { store, saves, resume, given: given(args) })
}

/// What the command line says of the answers.
fn given(args: &ChatArgs) -> Given {
    let parameters = Parameter::ALL.into_iter().filter(|parameter| match parameter {
        Parameter::Temperature => args.temperature.is_some(),
        Parameter::TopK => args.top_k.is_some(),
        Parameter::TopP => args.top_p.is_some(),
        Parameter::MinP => args.min_p.is_some(),
        Parameter::RepetitionPenalty => args.repetition_penalty.is_some(),
        Parameter::MaxTokens => args.max_tokens.is_some(),
        Parameter::Seed => args.seed.is_some(),
    });
    Given { system: args.system.is_some(), thinking: args.think.is_some(), parameters: parameters.collect() }
}

pub fn run(args: &ChatsArgs) -> anyhow::Result<ExitCode> {
    let store = Store::new(Paths::discover()?.chats());
    match &args.command {
        None => list(&store, args.deleted, args.json)?,
        Some(_) if args.deleted || args.json => bail!("--deleted and --json stand behind the command that takes them"),
        Some(ChatsCommand::Show { id, json }) => show(&store, id.as_deref(), *json)?,
        Some(ChatsCommand::Search { words, json }) => {
            let found = Library::new(store).find(&words.join(" "))?;
            let is_empty = found.is_empty();
            print_all(&found, *json)?;
            // As grep: a script hears whether there was something.
            return Ok(if is_empty { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        Some(ChatsCommand::Rename { id, title }) => {
            if title.trim().is_empty() {
                bail!("the title is empty");
            }
            store.rename(&store.find(Some(id))?, title)?;
        }
        Some(ChatsCommand::Delete { ids, forever }) => delete(&store, ids, *forever)?,
        Some(ChatsCommand::Undelete { ids }) => {
            for id in ids {
                store.undelete(&store.find_deleted(id)?)?;
            }
        }
        Some(ChatsCommand::Export { id, file, format }) => export(&store, id, file.as_deref(), *format)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(store: &Store, deleted: bool, json: bool) -> anyhow::Result<()> {
    let mut library = Library::new(store.clone());
    let found = if deleted { library.deleted()? } else { library.find("")? };
    if found.is_empty() && !json {
        let what = if deleted { "deleted conversation" } else { "conversation" };
        eprintln!("ortalk: no {what} in '{}'", store.folder().display());
    }
    print_all(&found, json)
}

fn print_all(found: &[Found], json: bool) -> anyhow::Result<()> {
    if json {
        #[derive(Serialize)]
        struct Report<'a> {
            schema: u32,
            conversations: Vec<Row<'a>>,
        }
        #[derive(Serialize)]
        struct Row<'a> {
            id: &'a str,
            title: &'a str,
            /// When it was written to; of a deleted one, when it was deleted.
            changed: String,
            messages: usize,
            model: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            snippet: Option<&'a str>,
        }
        let rows = found.iter().map(|found| Row {
            id: &found.id,
            title: &found.title,
            changed: timestamp(found.changed),
            messages: found.messages,
            model: &found.model,
            snippet: found.snippet.as_ref().map(|snippet| snippet.text.as_str()),
        });
        let report = Report { schema: SCHEMA, conversations: rows.collect() };
        return print_now(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    }
    let mut text = String::new();
    for Found { id, title, changed, messages, snippet, .. } in found {
        let when = changed.with_timezone(&Local).format("%Y-%m-%d %H:%M");
        text.push_str(&format!("{id}  {when}  {messages:>4}  {}\n", one_line(title)));
        if let Some(snippet) = snippet {
            let cut = if snippet.is_cut { "..." } else { "" };
            text.push_str(&format!("{:24}{cut}{}\n", "", one_line(&snippet.text)));
        }
    }
    print_now(&text)
}

fn show(store: &Store, id: Option<&str>, json: bool) -> anyhow::Result<()> {
    let id = store.find(id)?;
    let stored = store.look(&id)?;
    if json {
        return print_now(&Format::Json.write(&stored.tree, Some(&id)));
    }
    print_text(&export::markdown(&stored.tree))
}

/// A terminal gets nothing that it would obey; a pipe gets the text as it is.
fn print_text(text: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() { print_now(&sanitize(text)) } else { print_now(text) }
}

fn delete(store: &Store, ids: &[String], forever: bool) -> anyhow::Result<()> {
    // All of them are found before the first is deleted.
    let here: Vec<_> = ids.iter().map(|id| store.find(Some(id))).collect();
    for (name, found) in ids.iter().zip(here) {
        let id = match found {
            Ok(id) => {
                store.delete(&id)?;
                id
            }
            Err(error) if forever => store.find_deleted(name).map_err(|_| error)?,
            Err(error) => return Err(error.into()),
        };
        if forever {
            store.forget(&id)?;
        }
    }
    Ok(())
}

fn export(store: &Store, id: &str, file: Option<&str>, format: Option<FormatName>) -> anyhow::Result<()> {
    let id = store.find(Some(id))?;
    let format = match (format, file) {
        (Some(FormatName::Markdown), _) | (None, None) => Format::Markdown,
        (Some(FormatName::Json), _) => Format::Json,
        (None, Some(file)) => Format::of(file)
            .with_context(|| format!("'{file}' says no format; end it in .md or .json, or name it by --format"))?,
    };
    let text = format.write(&store.look(&id)?.tree, Some(&id));
    let Some(file) = file else { return print_text(&text) };
    let mut options = std::fs::File::options();
    let made = options.write(true).create_new(true).open(Path::new(file));
    let mut made =
        made.with_context(|| format!("'{file}' cannot be made; a file that is there is not written over"))?;
    made.write_all(text.as_bytes()).with_context(|| format!("'{file}' cannot be written"))
}
