//! Finds the calls of tools in an answer's text while it comes in pieces, and leaves the rest as the answer.
//!
//! A call is one as soon as its tool's name is known, and known to the request; from then on its arguments are passed on as
//! they come. What only looked like a call is text. White space around calls belongs to neither.

mod object;

use object::CallReader;

use super::thinking::possible_start;
use super::tools::ToolCallDelta;
use crate::model::{ARGS, CALL_ID, CallStyle, PYTHON_TAG, TAG, TOOL_CALLS, ToolStyle};

/// What a piece of the answer's text adds to its text and to its calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub text: String,
    pub calls: Vec<ToolCallDelta>,
}

#[derive(Debug, Clone)]
enum Place {
    /// Nothing has come yet but white space; a call may begin without a marker.
    Start,
    Text,
    /// Behind a marker or a comma: `raw`, which is text if no call follows.
    Before {
        raw: String,
    },
    Call {
        reader: CallReader,
        raw: String,
        started: bool,
    },
    /// Behind a call; only white space so far, which is left out.
    After,
    /// No call can come.
    Rest,
}

pub struct CallFinder {
    style: CallStyle,
    hidden: Vec<(u32, &'static str)>,
    /// The tools' names.
    known: Vec<String>,
    place: Place,
    /// What cannot be told yet.
    held: String,
    calls: usize,
}

impl CallFinder {
    /// Without tools nothing is a call.
    pub fn new(style: &ToolStyle, known: Vec<String>) -> Self {
        let place = match style.calls {
            _ if known.is_empty() => Place::Rest,
            CallStyle::Llama | CallStyle::Plain => Place::Start,
            CallStyle::Tagged | CallStyle::MistralList | CallStyle::MistralArguments => Place::Text,
        };
        let hidden = if known.is_empty() { Vec::new() } else { style.hidden.clone() };
        Self { style: style.calls, hidden, known, place, held: String::new(), calls: 0 }
    }

    pub fn found_any(&self) -> bool {
        self.calls > 0
    }

    /// The marker that a token stands for, where decoding leaves it out with all special tokens.
    pub fn hidden_marker(&self, token: u32) -> Option<&'static str> {
        self.hidden.iter().find(|(id, _)| *id == token).map(|(_, marker)| *marker)
    }

    pub fn push(&mut self, text: &str) -> Found {
        self.held.push_str(text);
        self.go_on(false)
    }

    /// What was held back when the answer ended.
    pub fn finish(&mut self) -> Found {
        let mut found = self.go_on(true);
        match std::mem::replace(&mut self.place, Place::Rest) {
            Place::Before { raw } | Place::Call { raw, started: false, .. } => found.text.push_str(&raw),
            Place::Start | Place::Text | Place::Call { .. } | Place::After | Place::Rest => {}
        }
        found.text.push_str(&std::mem::take(&mut self.held));
        found
    }

    /// `ended`: nothing more will come.
    fn go_on(&mut self, ended: bool) -> Found {
        let mut found = Found::default();
        loop {
            let place = std::mem::replace(&mut self.place, Place::Rest);
            let (place, moved) = match place {
                Place::Start => self.start(ended),
                Place::Text => self.text(&mut found),
                Place::Before { raw } => self.before(raw, &mut found, ended),
                Place::Call { reader, raw, started } => self.call(reader, raw, started, &mut found),
                Place::After => self.after(ended),
                Place::Rest => {
                    found.text.push_str(&std::mem::take(&mut self.held));
                    (Place::Rest, false)
                }
            };
            self.place = place;
            if !moved {
                return found;
            }
        }
    }

    /// What stands before a call.
    fn marker(&self) -> Option<&'static str> {
        match self.style {
            CallStyle::Tagged => Some(TAG.0),
            CallStyle::Llama => Some(PYTHON_TAG),
            CallStyle::MistralList | CallStyle::MistralArguments => Some(TOOL_CALLS),
            CallStyle::Plain => None,
        }
    }

    fn start(&mut self, ended: bool) -> (Place, bool) {
        match self.held.trim_start().chars().next() {
            None if !ended => (Place::Start, false),
            Some('{') => (Place::Before { raw: String::new() }, true),
            _ => (Place::Text, true),
        }
    }

    fn text(&mut self, found: &mut Found) -> (Place, bool) {
        let Some(marker) = self.marker() else { return (Place::Rest, true) };
        let (end, next) = match self.held.find(marker) {
            Some(at) => (at, at + marker.len()),
            None => {
                let end = self.held.len() - possible_start(&self.held, marker);
                (end, self.held[..end].trim_end().len())
            }
        };
        let text = self.held[..end].trim_end().len();
        found.text.push_str(&self.held[..text]);
        let raw = self.held[text..next].to_owned();
        self.held.drain(..next);
        if raw.is_empty() { (Place::Text, false) } else { (Place::Before { raw }, true) }
    }

    fn before(&mut self, mut raw: String, found: &mut Found, ended: bool) -> (Place, bool) {
        let blank = self.held.len() - self.held.trim_start().len();
        raw.extend(self.held.drain(..blank));
        let mistral = matches!(self.style, CallStyle::MistralList | CallStyle::MistralArguments);
        match self.held.chars().next() {
            None => return (Place::Before { raw }, false),
            Some('{') => return (Place::Call { reader: CallReader::call(), raw, started: false }, true),
            // A list's begin.
            Some('[') if mistral && !raw.trim_end().ends_with('[') => {
                raw.extend(self.held.drain(..1));
                return (Place::Before { raw }, true);
            }
            Some(_) if mistral => match name_before_arguments(&self.held) {
                Named::Maybe if !ended => return (Place::Before { raw }, false),
                Named::Yes { name, end } if self.known.contains(&name) => {
                    self.held.drain(..end);
                    self.begin(name, found);
                    return (Place::Call { reader: CallReader::arguments(), raw: String::new(), started: true }, true);
                }
                Named::Maybe | Named::Yes { .. } | Named::No => {}
            },
            Some(_) => {}
        }
        found.text.push_str(&raw);
        (Place::Text, true)
    }

    fn call(&mut self, mut reader: CallReader, mut raw: String, mut started: bool, found: &mut Found) -> (Place, bool) {
        let held = std::mem::take(&mut self.held);
        for (at, c) in held.char_indices() {
            if reader.is_done() || reader.push(c).is_err() {
                self.held = held[at..].to_owned();
                return self.end_of_call(reader.is_done(), raw, started, found);
            }
            if !started {
                raw.push(c);
                if let Some(name) = reader.name() {
                    if !self.known.iter().any(|known| known == name) {
                        self.held = held[at + c.len_utf8()..].to_owned();
                        return self.end_of_call(false, raw, started, found);
                    }
                    self.begin(name.to_owned(), found);
                    started = true;
                }
            }
            if started {
                self.arguments(&reader.take_arguments(), found);
            }
        }
        match reader.is_done() {
            true => self.end_of_call(true, raw, started, found),
            false => (Place::Call { reader, raw, started }, false),
        }
    }

    fn end_of_call(&mut self, whole: bool, raw: String, started: bool, found: &mut Found) -> (Place, bool) {
        if started {
            // What is wrong in its arguments is for the tool to say; what comes behind them is not.
            return (if whole { Place::After } else { Place::Text }, true);
        }
        found.text.push_str(&raw);
        (Place::Text, true)
    }

    fn after(&mut self, ended: bool) -> (Place, bool) {
        let blank = self.held.len() - self.held.trim_start().len();
        self.held.drain(..blank);
        let end = match self.style {
            CallStyle::Tagged => Some(TAG.1),
            CallStyle::MistralList | CallStyle::MistralArguments => Some("]"),
            CallStyle::Llama | CallStyle::Plain => None,
        };
        if let Some(end) = end.filter(|end| self.held.starts_with(end)) {
            self.held.drain(..end.len());
            return (Place::After, true);
        }
        let separators = [",", ";"].into_iter().filter(|_| self.style != CallStyle::Tagged);
        for next in self.marker().into_iter().chain(separators) {
            if self.held.starts_with(next) {
                let raw = self.held.drain(..next.len()).collect();
                return (Place::Before { raw }, true);
            }
        }
        let unmarked = matches!(self.style, CallStyle::Llama | CallStyle::Plain);
        if unmarked && self.held.starts_with('{') {
            return (Place::Before { raw: String::new() }, true);
        }
        let maybe = end.into_iter().chain(self.marker()).any(|marker| marker.starts_with(self.held.as_str()));
        if !ended && (self.held.is_empty() || maybe) { (Place::After, false) } else { (Place::Text, true) }
    }

    fn begin(&mut self, name: String, found: &mut Found) {
        found.calls.push(ToolCallDelta::Start { index: self.calls, id: new_id(), name });
        self.calls += 1;
    }

    /// More arguments of the call that began last.
    fn arguments(&self, more: &str, found: &mut Found) {
        match found.calls.last_mut() {
            _ if more.is_empty() => {}
            Some(ToolCallDelta::Arguments { text, .. }) => text.push_str(more),
            _ => found.calls.push(ToolCallDelta::Arguments { index: self.calls - 1, text: more.to_owned() }),
        }
    }
}

enum Named {
    Yes {
        name: String,
        /// Where the arguments begin.
        end: usize,
    },
    /// More of the text is needed.
    Maybe,
    No,
}

/// `name[ARGS]{`, `name[CALL_ID]id[ARGS]{` or `name{`, the last brace not included.
fn name_before_arguments(text: &str) -> Named {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '\n');
    let length = text.find(|c| !part(c)).unwrap_or(text.len());
    let name = text[..length].trim_end().to_owned();
    let mut rest = &text[length..];
    if let Some(id) = rest.strip_prefix(CALL_ID) {
        rest = id.trim_start_matches(part);
    }
    rest = rest.strip_prefix(ARGS).unwrap_or(rest).trim_start();
    match rest.chars().next() {
        Some('{') if !name.is_empty() => Named::Yes { name, end: text.len() - rest.len() },
        Some('[') if [ARGS, CALL_ID].iter().any(|marker| marker.starts_with(rest)) => Named::Maybe,
        None => Named::Maybe,
        Some(_) => Named::No,
    }
}

/// Nine letters and digits, the only form that every chat template takes.
fn new_id() -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    // The hasher's keys come from the operating system's random numbers.
    let mut number = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    (0..9)
        .map(|_| {
            let letter = LETTERS[(number % 36) as usize];
            number /= 36;
            char::from(letter)
        })
        .collect()
}

#[cfg(test)]
#[path = "tool_calls_tests.rs"]
mod tests;
