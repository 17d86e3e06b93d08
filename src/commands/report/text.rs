//! The report as text: short lines under headings, as they are pasted into an issue.

use std::fmt::Write;

use serde_json::Value;

use super::super::sys;
use super::Report;

/// Columns of a name before its value.
const NAME: usize = 18;

pub fn text(report: &Report) -> String {
    let mut text = sys::text(&report.system);
    section(&mut text, "environment");
    match report.environment.is_empty() {
        true => text += "  nothing that ortalk looks at is set\n",
        false => report.environment.iter().for_each(|(name, value)| line(&mut text, name, value)),
    }
    section(&mut text, "settings");
    match &report.settings {
        Err(error) => indented(&mut text, error),
        Ok(settings) if settings.is_empty() => text += "  the defaults\n",
        Ok(settings) => settings.iter().for_each(|(name, value)| line(&mut text, name, value)),
    }
    section(&mut text, "lanes");
    match &report.opened {
        Err(reason) => indented(&mut text, &format!("not opened: {reason}")),
        Ok(opened) => write_opened(&mut text, opened),
    }
    section(&mut text, "last error");
    match &report.last_error {
        None => text += "  none is known\n",
        Some(fault) => {
            let _ = writeln!(text, "  {}, ortalk {}, in {}", fault.time, fault.version, fault.within);
            indented(&mut text, &fault.message);
        }
    }
    section(&mut text, "latest benchmark");
    match &report.bench {
        None => text += "  none; `ortalk bench` makes one\n",
        Some(bench) => {
            let _ = writeln!(text, "  {}\n", bench.time);
            text += bench.markdown.trim_end();
            text += "\n";
        }
    }
    text
}

fn section(text: &mut String, name: &str) {
    let _ = writeln!(text, "\n{name}");
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:NAME$}{value}");
}

fn indented(text: &mut String, lines: &str) {
    for line in lines.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

fn write_opened(text: &mut String, opened: &Value) {
    let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mebibytes = |value: &Value| value.as_u64().map(|bytes| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)));
    let (model, architecture) = (of(&opened["model"]), of(&opened["architecture"]));
    let weights = mebibytes(&opened["weight_bytes"]).unwrap_or_default();
    line(
        text,
        "model",
        &format!("{model}, {architecture}, {weights} of weights, opened in {} ms", opened["load_duration_ms"]),
    );
    for lane in opened["lanes"].as_array().into_iter().flatten() {
        let mut facts = vec![format!("{}, {}", of(&lane["state"]), of(&lane["execution_provider"]))];
        facts.extend(lane["device"].as_str().map(str::to_owned));
        facts.extend(lane["emulated"].as_bool().filter(|emulated| *emulated).map(|_| "emulated".into()));
        facts.extend(lane["threads"].as_u64().map(|threads| format!("{threads} threads")));
        facts.extend(lane["context_limit"].as_u64().map(|tokens| format!("context {tokens}")));
        facts.extend(mebibytes(&lane["memory_bytes"]));
        line(text, &of(&lane["lane"]), &facts.join(", "));
        for reason in lane["reason"].as_str().unwrap_or_default().lines() {
            line(text, "", reason);
        }
        for graph in lane["placement"].as_array().into_iter().flatten() {
            let nodes = graph["nodes"].as_object().map(|nodes| {
                nodes
                    .iter()
                    .map(|(provider, count)| format!("{count} nodes on {provider}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            });
            let compiled = graph["compiled_nodes"].as_u64().map(|nodes| format!(", compiled from {nodes}"));
            let nodes = nodes.unwrap_or_else(|| "nodes not reported".into());
            line(text, "", &format!("{}: {nodes}{}", of(&graph["graph"]), compiled.unwrap_or_default()));
        }
    }
    let log: Vec<&str> = opened["log"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if log.is_empty() {
        line(text, "log", "nothing was logged while they were opened");
    }
    for (index, entry) in log.iter().flat_map(|entry| entry.lines()).enumerate() {
        line(text, if index == 0 { "log" } else { "" }, entry);
    }
}
