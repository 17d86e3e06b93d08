//! Every screen at three sizes, as text; and all sizes without a panic.

use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::super::attach::FileText;
use super::super::chats::{News, Row};
use super::super::event::Event;
use super::super::fixtures::{
    ANSWER, Desk, lane_change, ms, outgrown_decision, short_decision, snapshot_with, snapshot_with_server,
};
use super::super::glyphs;
use super::super::page::Page;
use super::super::skin::test_skin;
use super::super::theme::Theme;
use super::*;
use crate::engine::{
    FinishReason, Finished, GenerationEvent, LaneId, LaneState, PrefillProgress, RemoteUsage, RoutingDecision, Rule,
    Timings, Usage,
};
use crate::store::keeper::Report;
use crate::store::{Found, Snippet};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub fn render(desk: &mut Desk, columns: u16, rows: u16) -> Buffer {
    render_with(&test_skin(), desk, columns, rows)
}

pub fn render_with(skin: &Skin, desk: &mut Desk, columns: u16, rows: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(&mut desk.state, skin, desk.now, frame)).unwrap();
    terminal.backend().buffer().clone()
}

pub fn text(buffer: &Buffer) -> String {
    let row = |y| {
        let mut skip = 0;
        let mut line = String::new();
        for x in 0..buffer.area.width {
            if skip == 0 {
                let symbol = buffer[(x, y)].symbol();
                skip = super::super::text::width(symbol).saturating_sub(1);
                line.push_str(symbol);
            } else {
                skip -= 1;
            }
        }
        line.trim_end().to_string()
    };
    (0..buffer.area.height).map(row).collect::<Vec<_>>().join("\n")
}

pub fn screens(name: &str, make: impl Fn() -> Desk) {
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let mut desk = make();
        desk.event(Event::Resize { columns, rows });
        assert_snapshot!(format!("{name}_{columns}x{rows}"), text(&render(&mut desk, columns, rows)));
    }
}

/// Questions and answers, the last answer in two versions.
fn conversation() -> Desk {
    let mut desk = Desk::ready();
    desk.stream();
    desk.finish(FinishReason::Stop);
    for (question, words) in
        [("And of Italy?", "Rome. |It |is old."), ("/regenerate", "The capital of Italy |is Rome, |on the Tiber.")]
    {
        desk.send(question);
        desk.route();
        desk.prefill(1000);
        desk.wait(2000);
        for word in words.split('|') {
            desk.token(word);
            desk.wait(10);
        }
        desk.finish(FinishReason::Stop);
    }
    desk
}

#[test]
fn a_message_is_selected() {
    screens("a_message_is_selected", || {
        let mut desk = conversation();
        desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
        desk
    });
    let mut desk = conversation();
    desk.event(Event::Resize { columns: 120, rows: 36 });
    for _ in 0..2 {
        desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
    }
    let skin = Skin { glyphs: glyphs::ASCII, ..test_skin() };
    assert_snapshot!("a_message_is_selected_ascii_120x36", text(&render_with(&skin, &mut desk, 120, 36)));
}

#[test]
fn a_question_is_edited() {
    screens("a_question_is_edited", || {
        let mut desk = conversation();
        for _ in 0..2 {
            desk.event(Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
        }
        desk.key(KeyCode::Char('e'));
        desk
    });
}

fn kept_row(id: &str, title: &str, messages: usize, snippet: Option<(&str, std::ops::Range<usize>)>) -> Row {
    let found = Found {
        id: id.into(),
        title: title.into(),
        changed: chrono::DateTime::UNIX_EPOCH,
        messages,
        model: "test-model".into(),
        snippet: snippet.map(|(text, at)| Snippet { text: text.into(), at, is_cut: true }),
    };
    Row { found, when: if messages > 5 { "today 14:05" } else { "2026-03-04 09:30" }.into() }
}

#[test]
fn the_list_of_conversations() {
    let open = |words: &str, rows: Vec<Row>| {
        let mut desk = conversation();
        desk.state.chats.has_store = true;
        desk.state.chats.id = Some("a".into());
        desk.ctrl('o');
        desk.type_text(words);
        desk.event(Event::Chats(News::Found { words: words.into(), rows: Ok(rows) }));
        desk
    };
    screens("the_list_of_conversations", || {
        let rows = vec![
            kept_row("a", "What is the capital of France, and why there?", 12, None),
            kept_row(
                "b",
                "日本の川 and a title that is much too long for any list of conversations, 80 columns",
                4,
                None,
            ),
            kept_row("c", "Hills", 1, None),
        ];
        let mut desk = open("", rows);
        desk.key(KeyCode::Down);
        desk.event(Event::Chats(News::Kept(Report::Deleted { id: "c".into() })));
        desk
    });
    screens("conversations_are_searched", || {
        let snippet =
            "the river crossing at the Île de la Cité, where the road from the south met the boats of the Seine";
        let at = snippet.find("Cité").unwrap();
        open("cité", vec![kept_row("a", "What is the capital of France?", 12, Some((snippet, at..at + 5)))])
    });
    screens("no_conversation_is_found", || open("zebra", Vec::new()));
    screens("a_conversation_is_renamed", || {
        let mut desk = open("", vec![kept_row("a", "Hills", 4, None)]);
        desk.ctrl('r');
        desk.type_text(" of Paris");
        desk
    });
}

#[test]
fn loading() {
    screens("loading", || {
        let mut desk = Desk::loading();
        desk.wait(2500);
        desk
    });
}

#[test]
fn ready() {
    screens("ready", || {
        let mut desk = Desk::ready();
        desk.type_text("What is the capital of France?");
        desk.state.preview.shown = Some(Ok(super::super::fixtures::decision()));
        desk
    });
}

#[test]
fn prefilling() {
    screens("prefilling", || {
        let mut desk = Desk::ready();
        desk.send("What is the capital of France, and why there?");
        desk.route();
        desk.prefill(500);
        desk.send("And of Italy?");
        desk
    });
}

#[test]
fn streaming() {
    screens("streaming", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk
    });
}

#[test]
fn short_question_on_the_npu() {
    screens("short_question_on_the_npu", || {
        let mut desk = Desk::ready();
        desk.send("What is the capital of France?");
        desk.generation(GenerationEvent::Routed(short_decision()));
        desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 40, total: 40, reused: 0 }));
        desk.wait(800);
        for word in "The capital of France is".split_inclusive(' ') {
            desk.token_on(LaneId::Npu, word);
            desk.wait(100);
        }
        desk
    });
}

#[test]
fn a_lane_that_fails_mid_answer() {
    screens("a_lane_that_fails_mid_answer", || {
        let mut desk = Desk::ready();
        desk.send("What is the capital of France, and why there?");
        desk.generation(GenerationEvent::Routed(short_decision()));
        desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 40, total: 40, reused: 0 }));
        desk.wait(800);
        for (index, word) in ANSWER.split_inclusive(' ').enumerate() {
            if index == 12 {
                desk.generation(GenerationEvent::LaneChanged(lane_change()));
                let reason = "QNN error 1100, device lost".to_string();
                desk.event(Event::Snapshot(snapshot_with(LaneState::Failed { reason })));
                desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 52, total: 52, reused: 0 }));
                desk.wait(300);
            }
            let lane = if index < 12 { LaneId::Npu } else { LaneId::Cpu };
            desk.token_on(lane, word);
            desk.wait(20);
        }
        desk
    });
}

/// A long conversation that only a server holds, before a person has said what may become of it.
fn asking() -> Desk {
    let mut desk = Desk::ready();
    desk.event(Event::EngineLoaded(snapshot_with_server()));
    desk.send("What do these three reports have in common?");
    desk.event(Event::Weighed(Ok(outgrown_decision())));
    desk
}

#[test]
fn a_server_is_asked_about() {
    screens("a_server_is_asked_about", asking);
}

#[test]
fn a_server_answers() {
    screens("a_server_answers", || {
        let mut desk = asking();
        desk.key(KeyCode::Char('y'));
        desk.generation(GenerationEvent::Routed(outgrown_decision()));
        desk.generation(GenerationEvent::PrefillProgress(PrefillProgress { done: 20_000, total: 20_000, reused: 0 }));
        desk.wait(800);
        for word in ["All three ", "ask for ", "more time."] {
            desk.token_on(LaneId::Remote, word);
            desk.wait(100);
        }
        let remote = RemoteUsage { prompt_tokens: 20_000, completion_tokens: 9, is_estimate: false };
        let latencies = desk.state.answer.as_ref().unwrap().latencies().to_vec();
        desk.generation(GenerationEvent::Finished(Finished {
            reason: FinishReason::Stop,
            usage: Usage { prompt_tokens: 20_000, completion_tokens: 9, remote: Some(remote), ..Usage::default() },
            timings: Timings { ttft: Some(ms(800)), token_latencies: latencies, ..Timings::default() },
        }));
        desk
    });
}

#[test]
fn a_lane_that_loads_and_is_waited_for() {
    screens("a_lane_that_loads_and_is_waited_for", || {
        let mut desk = Desk::ready();
        desk.event(Event::Snapshot(snapshot_with(LaneState::Loading { since: desk.now })));
        desk.send("/npu");
        desk.send("What is the capital of France?");
        let asked = RoutingDecision { rule: Rule::Requested, ..short_decision() };
        desk.generation(GenerationEvent::Routed(asked));
        desk.wait(12_300);
        desk.event(Event::Snapshot(snapshot_with(LaneState::Loading { since: desk.now - ms(12_300) })));
        desk
    });
}

#[test]
fn messages_go_to_one_lane() {
    screens("messages_go_to_one_lane", || {
        let mut desk = Desk::ready();
        desk.send("/npu");
        desk.key(KeyCode::Esc);
        desk
    });
}

fn decision_of(prompt_tokens: usize, context_limit: usize) -> RoutingDecision {
    RoutingDecision { prompt_tokens, needed_tokens: prompt_tokens + 100, context_limit, ..short_decision() }
}

#[test]
fn a_paste_and_a_file() {
    screens("a_paste_and_a_file", || {
        let mut desk = Desk::ready();
        desk.type_text("Does ");
        desk.event(Event::Paste("x".repeat(1_000_000)));
        desk.event(Event::Counted { id: 1, tokens: 250_000 });
        desk.type_text(" say the same as @notes/日本.txt ?");
        let text = FileText { path: "notes/日本.txt".into(), content: "word\n".repeat(600) };
        desk.event(Event::FileRead { mentioned: "notes/日本.txt".into(), result: Ok(text) });
        desk.key(KeyCode::Esc);
        desk.state.preview.shown = Some(Ok(decision_of(470, 500)));
        desk
    });
}

#[test]
fn files_are_offered() {
    screens("files_are_offered", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.finish(FinishReason::Stop);
        desk.type_text("Summarize @e");
        let paths = ["benches/", "README.md", "examples/one.rs", "a\x1b[2J.e", ".env"].map(str::to_owned);
        let paths = paths.into_iter().chain((0..20).map(|number| format!("notes/{number:02}-entry.txt"))).collect();
        desk.event(Event::FolderListed { folder: String::new(), paths });
        desk.key(KeyCode::Down);
        desk
    });
}

#[test]
fn the_history_is_searched() {
    screens("the_history_is_searched", || {
        let mut desk = Desk::ready();
        let sent = ["What is the capital of France?", "/npu short", "Read this:\nit has lines", "What of Italy?"];
        desk.event(Event::HistoryLoaded(sent.map(str::to_owned).to_vec()));
        desk.ctrl('r');
        desk.type_text("what");
        desk.key(KeyCode::Down);
        desk
    });
}

#[test]
fn vi_says_its_mode() {
    screens("vi_says_its_mode", || {
        let mut desk = Desk::ready();
        desk.state.composer.use_vi(true);
        desk.type_text("one two three");
        desk.key(KeyCode::Esc);
        desk.type_text("0w2d");
        desk.state.preview.shown = Some(Ok(decision_of(600, 500)));
        desk
    });
}

/// An input method places its window at the cursor's cell.
#[test]
fn the_cursor_stands_behind_wide_characters() {
    for (text, columns, expected) in [
        ("日本", 20, (7, 0)),
        ("ae\u{301}", 20, (5, 0)),
        ("日本語日本語日本", 20, (19, 0)),
        // A wide character that does not fit begins the next line, and the cursor stands behind it there.
        ("日本語日本語日本語", 20, (5, 1)),
    ] {
        let mut desk = Desk::ready();
        for c in text.chars() {
            desk.key(KeyCode::Char(c));
        }
        let mut terminal = Terminal::new(TestBackend::new(columns, 12)).unwrap();
        terminal.draw(|frame| draw(&mut desk.state, &test_skin(), desk.now, frame)).unwrap();
        let top = desk.state.layout().composer.y;
        terminal.backend_mut().assert_cursor_position((expected.0, top + expected.1));
    }
}

#[test]
fn a_panel_on_the_lowest_screen_has_a_line() {
    let mut desk = Desk::ready();
    desk.stream();
    for rows in 3..12 {
        desk.event(Event::Resize { columns: 20, rows });
        desk.state.overlay = Some(Overlay::Panel(Panel::Lane));
        let shown = text(&render(&mut desk, 20, rows));
        assert!(shown.contains("cpu  CPUExec"), "{rows}:\n{shown}");
    }
}

fn thoughtful() -> Desk {
    let mut desk = Desk::ready();
    desk.send("What is the capital of France?");
    desk.route();
    desk.prefill(1000);
    desk.wait(2000);
    for word in "The user asks for a capital, and France has one only: Paris.".split_inclusive(' ') {
        desk.thought(word);
        desk.wait(10);
    }
    desk
}

#[test]
fn thinking() {
    screens("thinking", thoughtful);
}

#[test]
fn thinking_unfolded() {
    screens("thinking_unfolded", || {
        let mut desk = thoughtful();
        desk.token("The capital of France is ");
        desk.token("Paris.");
        desk.finish(FinishReason::Stop);
        desk.ctrl('t');
        desk
    });
}

#[test]
fn finished() {
    screens("finished", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.finish(FinishReason::Length);
        desk
    });
}

#[test]
fn failed() {
    screens("failed", || {
        let mut desk = Desk::loading();
        desk.event(Event::EngineFailed(
            "ONNX Runtime could not be loaded from '/example/libonnxruntime.so': wrong ELF class.\nSet ORT_DYLIB_PATH \
             to a 64-bit library, or run 'ortalk setup' to fetch the one that this program was tested with."
                .into(),
        ));
        desk
    });
}

#[test]
fn scrolled_up() {
    screens("scrolled_up", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.finish(FinishReason::Stop);
        desk.stream();
        desk.finish(FinishReason::Cancelled);
        desk.stream();
        desk.key(KeyCode::PageUp);
        for _ in 0..3 {
            desk.token("\nmore");
        }
        desk
    });
}

#[test]
fn help() {
    screens("help", || {
        let mut desk = Desk::ready();
        desk.key(KeyCode::F(1));
        desk
    });
}

#[test]
fn palette() {
    screens("palette", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.type_text("/");
        desk.key(KeyCode::Down);
        desk
    });
}

#[test]
fn palette_arguments() {
    screens("palette_arguments", || {
        let mut desk = Desk::ready();
        desk.type_text("/set te");
        desk
    });
}

#[test]
fn list_of_commands() {
    screens("list_of_commands", || {
        let mut desk = Desk::ready();
        desk.stream();
        desk.key(KeyCode::F(2));
        desk.type_text("an");
        desk
    });
}

#[test]
fn help_searched() {
    screens("help_searched", || {
        let mut desk = Desk::ready();
        desk.key(KeyCode::F(1));
        desk.type_text("line");
        desk
    });
}

#[test]
fn log() {
    screens("log", || {
        let mut desk = Desk::ready();
        let line = |at| {
            format!("2026-03-04T05:06:{at:02}Z [W:onnxruntime:, session.cc:12] a node of type Reshape has a warning\n")
        };
        desk.event(Event::LogRead(Ok((0..60).map(line).collect())));
        desk
    });
}

#[test]
fn a_panel_over_the_conversation() {
    let mut desk = Desk::ready();
    desk.stream();
    for _ in 0..3 {
        desk.key(KeyCode::Tab);
    }
    assert_snapshot!("panel_80x24", text(&render(&mut desk, 80, 24)));
}

#[test]
fn ascii_has_no_character_of_its_own_beyond_ascii() {
    let skin = Skin { glyphs: glyphs::ASCII, ..test_skin() };
    for (columns, rows) in [(120, 36), (80, 24), (50, 15)] {
        let mut desk = Desk::ready();
        desk.send("question");
        desk.route();
        desk.prefill(1000);
        for index in 0..40 {
            desk.token("word ");
            desk.wait(if index == 20 { 100 } else { 10 });
        }
        let shown = text(&render_with(&skin, &mut desk, columns, rows));
        assert!(shown.is_ascii(), "{shown}");
        if columns == 120 {
            assert_snapshot!("ascii_120x36", shown);
        }
        let shown = text(&render_with(&skin, &mut reading(MARKDOWN), columns, rows));
        assert!(shown.is_ascii(), "{shown}");
    }
}

#[test]
fn high_contrast_leaves_no_cell_to_the_terminal() {
    let skin = Skin { theme: Theme::named("high-contrast").unwrap(), ..test_skin() };
    let mut desk = Desk::ready();
    desk.stream();
    let buffer = render_with(&skin, &mut desk, 120, 36);
    let hidden = |at: usize| at > 0 && super::super::text::width(buffer.content[at - 1].symbol()) > 1;
    for (at, cell) in buffer.content.iter().enumerate() {
        assert!(hidden(at) || cell.bg != ratatui::style::Color::Reset, "{:?}", buffer.pos_of(at));
    }
}

#[test]
fn no_size_panics() {
    let mut desk = Desk::ready();
    desk.stream();
    desk.finish(FinishReason::Error("a long reason ".repeat(30)));
    desk.stream();
    desk.event(Event::Paste("x".repeat(5000)));
    desk.type_text(" @f");
    let paths = (0..20).map(|number| format!("日本/f{number}")).collect();
    desk.event(Event::FolderListed { folder: String::new(), paths });
    for columns in (0..12).chain([20, 44, 59, 60, 80, 99, 100, 120, 250]) {
        for rows in (0..12).chain([15, 16, 17, 18, 20, 24, 30, 36, 80]) {
            for overlay in [None, Some(Overlay::Page(Page::help())), Some(Overlay::Panel(Panel::Latency))] {
                desk.state.overlay = overlay;
                render(&mut desk, columns, rows);
            }
            desk.event(Event::Resize { columns, rows });
            desk.key(KeyCode::F(4));
            for panel in panels::ALL {
                desk.state.overlay = Some(Overlay::Panel(panel));
                for zoomed in [false, true] {
                    desk.state.panels.zoomed = zoomed;
                    render(&mut desk, columns, rows);
                }
            }
            desk.key(KeyCode::Left);
            desk.key(KeyCode::F(4));
        }
    }
}
/// An answer with a bit of everything.
const MARKDOWN: &str = "# Lanes\n\nA **lane** is *one way* to run the model, `cpu` or `npu`:\n\n1. **NPU**: built for it, \
    [faster to the first word](https://example.com/npu) where a prompt is short enough to fit its context\n2. CPU\n   - \
    takes any length\n   - needs more power\n- [x] measured\n- [ ] ~~guessed~~\n\n| lane | first word | tok/s | \
    where |\n|:--|--:|--:|:--|\n| npu | 96 ms | 21.4 | QNN execution provider, emulated |\n| cpu | 41 ms | 128.4 | two \
    threads |\n\n> Numbers are measured\n> or say *why not*.\n\n## Code\n\n```rust\n/// Adds.\nfn add(a: u32, b: u32) -> u32 \
    {\n    let text = \"sum\"; // not used\n    a + b + 0\n}\n```\n\n---\n";

fn reading(text: &str) -> Desk {
    let mut desk = Desk::ready();
    desk.send("What is a lane?");
    desk.route();
    desk.prefill(1000);
    for word in text.split_inclusive(' ') {
        desk.wait(10);
        desk.token(word);
    }
    desk
}

#[test]
fn markdown() {
    let finished = || {
        let mut desk = reading(MARKDOWN);
        desk.finish(FinishReason::Stop);
        desk
    };
    screens("markdown", finished);
    screens("markdown_from_the_top", || {
        let mut desk = finished();
        desk.state.lay_out();
        desk.event(Event::Key(crossterm::event::KeyEvent::new(KeyCode::Home, crossterm::event::KeyModifiers::CONTROL)));
        desk
    });
    screens("markdown_as_written", || {
        let mut desk = finished();
        desk.key(KeyCode::F(5));
        desk
    });
}

#[test]
fn code_is_coloured_by_the_theme_where_it_is_seen() {
    let skin = test_skin();
    let buffer = render(&mut reading(MARKDOWN), 80, 24);
    let shown = text(&buffer);
    let style_of = |word: &str| {
        let (y, line) = shown.lines().enumerate().find(|(_, line)| line.contains(word)).unwrap();
        let x = super::super::text::width(&line[..line.find(word).unwrap()]);
        buffer[(x as u16, y as u16)].style().fg
    };
    for (word, style) in [
        ("/// Adds", skin.theme.code_comment),
        ("fn add", skin.theme.code_keyword),
        ("\"sum\"", skin.theme.code_string),
        ("or say", skin.theme.quote),
    ] {
        assert_eq!(style_of(word), style.fg, "{word}");
    }
}
