//! What the words of code are: keywords, strings, comments. `syntect` reads a line at a time, with what the lines above
//! left open; its scopes become roles, so that the theme has the last word on colours.
//!
//! Reading costs up to a tenth of a millisecond a line. So only code that somebody looks at is read, each line once, and
//! a long block over several frames.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::super::text::rows::{Content, Piece, Role};
use super::fence::Fence;

/// Longer lines are data rather than code.
const LONGEST_LINE: usize = 2000;

/// What was found out about the code blocks of one text, by where they begin.
#[derive(Clone, Default)]
pub struct Highlighter {
    blocks: HashMap<usize, Highlighted>,
}

#[derive(Clone)]
struct Highlighted {
    language: String,
    /// Of the lines that are complete.
    lines: Vec<Words>,
    /// Of the one that still grows.
    open: Words,
    /// After the complete lines; `None` where the language is not known.
    parser: Option<Parser>,
}

#[derive(Clone)]
struct Parser {
    state: ParseState,
    scopes: ScopeStack,
}

/// A line, and what in it is more than plain code, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Words {
    line: Range<usize>,
    words: Vec<(Range<usize>, Role)>,
}

/// How many lines may still be read for this frame.
#[derive(Debug)]
pub struct Budget(usize);

impl Budget {
    /// A few milliseconds' worth.
    pub fn of_a_frame() -> Self {
        Self(100)
    }

    pub fn is_used_up(&self) -> bool {
        self.0 == 0
    }

    fn spend(&mut self) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        left
    }
}

impl Highlighter {
    /// Reads a block as far as the line that holds `until`, as far as the budget goes.
    pub fn read(&mut self, text: &str, fence: &Fence, until: usize, budget: &mut Budget) {
        if fence.language.is_empty() || text.len() < fence.source.end {
            return;
        }
        let known = self.blocks.entry(fence.source.start).or_insert_with(|| Highlighted::new(&fence.language));
        if known.language != fence.language {
            *known = Highlighted::new(&fence.language);
        }
        let wanted = fence.lines.partition_point(|line| line.start <= until);
        while known.lines.len() < wanted {
            let Some(line) = fence.lines.get(known.lines.len()) else { return };
            let grows = known.lines.len() + 1 == fence.lines.len();
            if known.parser.is_none() || grows && known.open.line == *line || !budget.spend() {
                return;
            }
            let code = text.get(line.clone()).unwrap_or_default();
            if !grows {
                let words = known.parser.as_mut().map(|parser| parser.line(code, line.start)).unwrap_or_default();
                known.lines.push(Words { line: line.clone(), words });
                continue;
            }
            // It is read again when it has grown.
            let mut parser = known.parser.clone();
            let words = parser.as_mut().map(|parser| parser.line(code, line.start)).unwrap_or_default();
            known.open = Words { line: line.clone(), words };
            return;
        }
    }

    /// The piece, cut where the words on it have roles of their own.
    pub fn cut(&self, fence: &Fence, piece: &Piece, out: &mut Vec<Piece>) {
        let words = self.blocks.get(&fence.source.start).and_then(|known| known.at(piece.source.start));
        let mut at = piece.source.start;
        let part = |source: Range<usize>, role: Role| Piece {
            content: Content::Source,
            style: super::super::text::rows::Style { role, ..piece.style },
            source,
        };
        for (word, role) in words.unwrap_or_default() {
            let (start, end) = (word.start.max(at), word.end.min(piece.source.end));
            if start < end {
                out.extend((at < start).then(|| part(at..start, piece.style.role)));
                out.push(part(start..end, *role));
                at = end;
            }
        }
        out.extend((at < piece.source.end).then(|| part(at..piece.source.end, piece.style.role)));
    }
}

impl Highlighted {
    fn new(language: &str) -> Self {
        let parser =
            syntax(language).map(|syntax| Parser { state: ParseState::new(syntax), scopes: ScopeStack::new() });
        Self { language: language.to_owned(), lines: Vec::new(), open: Words::default(), parser }
    }

    /// The words of the line that holds this place.
    fn at(&self, place: usize) -> Option<&[(Range<usize>, Role)]> {
        let index = self.lines.partition_point(|words| words.line.start <= place).checked_sub(1);
        let complete = index.map(|index| &self.lines[index]).filter(|words| place <= words.line.end);
        let open = Some(&self.open).filter(|words| (words.line.start..=words.line.end).contains(&place));
        complete.or(open).map(|words| words.words.as_slice())
    }
}

impl Parser {
    /// The words of one line, which begins at `start` of the text.
    fn line(&mut self, code: &str, start: usize) -> Vec<(Range<usize>, Role)> {
        if code.len() > LONGEST_LINE {
            return Vec::new();
        }
        let Ok(operations) = self.state.parse_line(&format!("{code}\n"), syntaxes()) else { return Vec::new() };
        let mut words: Vec<(Range<usize>, Role)> = Vec::new();
        let mut at = 0;
        let mut note = |scopes: &ScopeStack, from: usize, to: usize| {
            let to = to.min(code.len());
            let Some(role) = role(scopes).filter(|_| from < to) else { return };
            match words.last_mut() {
                Some((last, same)) if last.end == start + from && *same == role => last.end = start + to,
                _ => words.push((start + from..start + to, role)),
            }
        };
        for (place, operation) in operations {
            note(&self.scopes, at, place);
            at = at.max(place);
            if self.scopes.apply(&operation).is_err() {
                return words;
            }
        }
        note(&self.scopes, at, code.len());
        words
    }
}

fn syntaxes() -> &'static SyntaxSet {
    static SYNTAXES: OnceLock<SyntaxSet> = OnceLock::new();
    SYNTAXES.get_or_init(two_face::syntax::extra_newlines)
}

/// The syntax that a fence names, by a name, by a file's ending, or as people call it.
fn syntax(language: &str) -> Option<&'static SyntaxReference> {
    let token = match language.to_ascii_lowercase().as_str() {
        "shell" | "console" | "terminal" | "shell-session" | "sh-session" => "bash".to_owned(),
        "golang" => "go".to_owned(),
        "csharp" | "c#" => "cs".to_owned(),
        "cpp" | "cxx" => "c++".to_owned(),
        "python3" | "py3" => "python".to_owned(),
        "jsonc" | "json5" => "json".to_owned(),
        "jsx" | "node" => "js".to_owned(),
        "text" | "txt" | "plain" | "plaintext" | "output" => return None,
        other => other.to_owned(),
    };
    syntaxes().find_syntax_by_token(&token)
}

/// By the innermost scope that says anything. These are TextMate's names, which all syntaxes share.
fn role(scopes: &ScopeStack) -> Option<Role> {
    static ROLES: OnceLock<Vec<(Scope, Option<Role>)>> = OnceLock::new();
    let roles = ROLES.get_or_init(|| {
        let names = [
            ("comment", Some(Role::Comment)),
            ("meta.interpolation", None),
            ("meta.template.expression", None),
            ("string", Some(Role::String)),
            ("constant.character", Some(Role::String)),
            ("markup.inserted", Some(Role::String)),
            ("constant.numeric", Some(Role::Number)),
            ("constant.language", Some(Role::Number)),
            ("markup.deleted", Some(Role::Number)),
            // Signs are told apart without colour.
            ("keyword.operator.word", Some(Role::Keyword)),
            ("keyword.operator.logical.python", Some(Role::Keyword)),
            ("keyword.operator", None),
            ("keyword", Some(Role::Keyword)),
            ("storage", Some(Role::Keyword)),
            ("support.type", Some(Role::Keyword)),
            ("entity.name.tag", Some(Role::Keyword)),
            ("entity", Some(Role::Function)),
            ("markup.heading", Some(Role::Function)),
        ];
        names.into_iter().filter_map(|(name, role)| Some((Scope::new(name).ok()?, role))).collect()
    });
    let said = |scope: &Scope| roles.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)).map(|(_, role)| *role);
    scopes.as_slice().iter().rev().find_map(said).flatten()
}

impl std::fmt::Debug for Highlighter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Highlighter").field("blocks", &self.blocks.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::markdown::Markdown;

    fn words<'t>(highlighter: &Highlighter, text: &'t str, fence: &Fence) -> Vec<(&'t str, Role)> {
        let mut pieces = Vec::new();
        for line in &fence.lines {
            highlighter.cut(fence, &Piece::source(line.clone(), Role::CodeBlock), &mut pieces);
        }
        let marked = pieces.into_iter().filter(|piece| piece.style.role != Role::CodeBlock);
        marked.map(|piece| (&text[piece.source], piece.style.role)).collect()
    }

    fn read(text: &str) -> Vec<(&str, Role)> {
        let mut markdown = Markdown::default();
        markdown.update(text, 80);
        let mut highlighter = Highlighter::default();
        let fence = &markdown.fences()[0];
        highlighter.read(text, fence, text.len(), &mut Budget(1000));
        words(&highlighter, text, fence)
    }

    #[test]
    fn words_of_code_have_roles() {
        use Role::{Comment, Function, Keyword, Number, String};
        assert_eq!(
            read("```rust\nfn main() { let x = 12; } // end\n```"),
            [("fn", Keyword), ("main", Function), ("let", Keyword), ("12", Number), ("// end", Comment)]
        );
        assert_eq!(
            read("```py\ndef f(x):\n    return \"a\" if x else None\n```"),
            [
                ("def", Keyword),
                ("f", Function),
                ("return", Keyword),
                ("\"a\"", String),
                ("if", Keyword),
                ("else", Keyword),
                ("None", Number)
            ]
        );
        assert_eq!(read("```nonsense\nlet x\n```"), []);
        assert_eq!(read("```\nlet x\n```"), []);
    }

    #[test]
    fn what_is_open_goes_on_in_the_next_line() {
        assert_eq!(read("```c\n/* one\ntwo */\n```"), [("/* one", Role::Comment), ("two */", Role::Comment)]);
        // In a list, where the code is indented.
        assert_eq!(read("1. so\n   ```c\n   /* a\n   b */"), [("/* a", Role::Comment), ("b */", Role::Comment)]);
    }

    #[test]
    fn growing_code_has_the_same_roles() {
        let text = "```js\nconst a = `x ${1 + b}`; // one\n/* two\n*/ let c = 'three';\n```\n";
        let (mut markdown, mut highlighter) = (Markdown::default(), Highlighter::default());
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let grown = &text[..end];
            markdown.update(grown, 80);
            if let [fence] = markdown.fences() {
                highlighter.read(grown, fence, end, &mut Budget(1000));
                let mut fresh = Highlighter::default();
                fresh.read(grown, fence, end, &mut Budget(1000));
                assert_eq!(words(&highlighter, grown, fence), words(&fresh, grown, fence), "{grown:?}");
            }
        }
    }

    #[test]
    fn only_what_is_looked_at_is_read_and_no_more_than_the_budget_allows() {
        let text = format!("```rust\n{}", "let a = 1;\n".repeat(500));
        let mut markdown = Markdown::default();
        markdown.update(&text, 80);
        let fence = &markdown.fences()[0];
        let mut highlighter = Highlighter::default();
        highlighter.read(&text, fence, fence.lines[9].start, &mut Budget(1000));
        assert_eq!(highlighter.blocks[&0].lines.len(), 10);
        let mut budget = Budget(100);
        highlighter.read(&text, fence, text.len(), &mut budget);
        assert_eq!((highlighter.blocks[&0].lines.len(), budget.is_used_up()), (110, true));
    }
}
