use std::path::Path;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::race::{Entrant, Order};
use crate::store::Record;
use crate::telemetry::Reading;
use crate::telemetry::device::DeviceSample;
use crate::telemetry::device::npu::{LoadOf, NpuLoad, NpuSample};
use crate::telemetry::device::power::{Power, PowerSource};
use crate::wire::{Event, Milliseconds, Snapshot, Thinking};

fn sample() -> DeviceSample {
    let power = Power { watts: 12.5, source: PowerSource::CpuPackages };
    DeviceSample {
        cpu_percent: Reading::Measured(80.5),
        cpu_mhz: Reading::Measured(2000),
        cpu_celsius: Reading::Unavailable("no sensor".into()),
        memory_used: Reading::Measured(1),
        memory_total: Reading::Measured(2),
        process_memory: Reading::Measured(1),
        process_cpu_percent: Reading::Measured(150.0),
        power: Reading::Measured(power),
        npu: NpuSample {
            load: Reading::Measured(NpuLoad { percent: 40.0, of: LoadOf::OwnPrograms }),
            mhz: Reading::Measured(1400),
            celsius: Reading::Unavailable("asleep".into()),
            watts: Reading::Measured(1.25),
        },
    }
}

/// One of each kind.
fn lines() -> Vec<Line> {
    let snapshot = Snapshot {
        model: "tiny".into(),
        architecture: "llama".into(),
        weight_bytes: 7,
        thinking: Thinking::Never,
        lanes: Vec::new(),
    };
    let event = || Box::new(Event::PrefillProgress { done: 1, total: 2, reused: 0 });
    let entrant = Entrant {
        lane: LaneId::Npu,
        execution_provider: "QNNExecutionProvider".into(),
        device: None,
        emulated: true,
        absent: None,
    };
    let start = Start {
        prompt: "hi\n\u{1b}[31m".into(),
        model: "tiny".into(),
        entrants: vec![entrant],
        rounds: 2,
        order: Order::InTurn { why: "as asked".into() },
    };
    let entry = json!({"v": 1, "time": "2026-03-04T05:06:07Z", "via": "chat", "model": "tiny", "lane": "cpu",
        "finish": "stop", "tokens_in": 3, "tokens_out": 4, "seconds": 0.5, "energy": {"joules": 1.5}});
    vec![
        Line::Engine { snapshot: Box::new(snapshot) },
        Line::EngineFailed { error: "no library".into() },
        Line::Device { sample: Box::new(sample()) },
        Line::Prompt { text: "What is \"it\"?".into(), questions: 2, continues: true, again: None },
        Line::Answer { event: event() },
        Line::Cancelled,
        Line::Lost,
        Line::Bill { entry: Box::new(serde_json::from_value(entry).unwrap()) },
        Line::Cleared,
        Line::Conversation {
            opened: true,
            records: Records(vec![Record::Title("Rivers".into()), Record::Head(Some(3))]),
        },
        Line::Notice { level: NoticeLevel::Warning, text: "one\ntwo".into() },
        Line::EngineReleased,
        Line::Race { start: Box::new(start), asks: true },
        Line::LaneBegan { lane: LaneId::Cpu, round: 1 },
        Line::Lane { lane: LaneId::Cpu, event: event() },
        Line::LaneEnergy { lane: LaneId::Cpu, energy: Box::default() },
        Line::RaceOver { cancelled: false },
        Line::RaceClosed { lane: Some(LaneId::Cpu) },
    ]
}

fn header() -> String {
    format!("{}\n", json!({"format": FORMAT, "v": 1, "made_by": "ortalk 0.1.0", "time": "2026-03-04T05:06:07Z"}))
}

fn whole(text: &str) -> Result<Recording, RecordingError> {
    parse(text.as_bytes(), Path::new("demo.jsonl"), Completeness::Whole)
}

fn said(text: &str) -> String {
    whole(text).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.jsonl");
    let recorder = Recorder::create(&path, &Header::now(None)).unwrap();
    let began = Instant::now();
    for (index, line) in lines().into_iter().enumerate() {
        recorder.note(began + Duration::from_millis(10 * index as u64 + 100), line);
    }
    assert!(recorder.finish().is_none());
    let recording = read(&path, Completeness::Whole).unwrap();
    assert_eq!(recording.lines.iter().map(|timed| timed.line.clone()).collect::<Vec<_>>(), lines());
    assert!(recording.length() >= Duration::from_millis(230), "{:?}", recording.length());
    assert_eq!(recording.header.v, VERSION);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let error = Recorder::create(&path, &Header::now(None)).err().unwrap().to_string();
    assert!(error.contains("is there already") && error.contains("demo.jsonl"), "{error}");
}

#[test]
fn a_line_reads_as_the_format_says() {
    let line = |line: Line| serde_json::to_value(Timed { at_ms: Milliseconds(12.5), line }).unwrap();
    assert_eq!(
        line(Line::Prompt { text: "hi".into(), questions: 0, continues: false, again: None }),
        json!({"at_ms": 12.5, "type": "prompt", "text": "hi", "questions": 0})
    );
    assert_eq!(
        line(Line::Conversation { opened: false, records: Records(vec![Record::Head(Some(3)), Record::Delete(4)]) }),
        json!({"at_ms": 12.5, "type": "conversation", "records": [{"kind": "head", "id": 3}, {"kind": "delete", "id": 4}]})
    );
    assert_eq!(line(Line::End), json!({"at_ms": 12.5, "type": "end"}));
    assert_eq!(
        line(Line::LaneBegan { lane: LaneId::Npu, round: 0 }),
        json!({"at_ms": 12.5, "type": "lane_began", "lane": "npu", "round": 0})
    );
    let device = line(Line::Device { sample: Box::new(sample()) });
    assert_eq!(device["sample"]["cpu_percent"], json!({"measured": 80.5}));
    assert_eq!(device["sample"]["cpu_celsius"], json!({"unavailable": "no sensor"}));
    assert_eq!(device["sample"]["power"], json!({"measured": {"watts": 12.5, "source": "cpu_packages"}}));
    assert_eq!(device["sample"]["npu"]["load"]["measured"]["of"], "own_programs");
}

#[test]
fn what_is_no_recording_says_so() {
    for text in ["", "\n\n", "hello\n", "{}\n", "{\"format\": \"other\", \"v\": 1}\n", "[1]", "\u{0}\u{1}"] {
        assert!(said(text).contains("'demo.jsonl' is no recording of ortalk"), "{text:?}");
    }
    let newer = said(&header().replace("\"v\":1", "\"v\":2"));
    assert!(newer.contains("has version 2; this ortalk knows 1"), "{newer}");
    assert!(said(&header()).contains("has nothing to play"));
}

#[test]
fn a_wrong_line_is_named() {
    let cancelled = |at: &str| format!("{{\"at_ms\": {at}, \"type\": \"cancelled\"}}\n");
    let with = |rest: &str| said(&format!("{}{}{rest}", header(), cancelled("5")));
    assert!(with("nonsense\n").starts_with("line 3 of the recording 'demo.jsonl' is wrong: "));
    let back = with(&cancelled("4"));
    assert!(back.contains("line 3") && back.contains("at_ms is '4', and the line before it came at 5"), "{back}");
    assert!(with(&cancelled("1e300")).contains("line 3"));
    assert!(said(&format!("{}{}", header(), cancelled("-1"))).contains("line 2"));
    assert!(with("{\"at_ms\": 6, \"type\": \"prompt\"}\n").contains("missing field `text`"));
}

#[test]
fn a_file_that_was_cut_off_is_told_and_can_be_played_as_far_as_it_goes() {
    let two = format!("{}{{\"at_ms\":5,\"type\":\"cancelled\"}}\n{{\"at_ms\":1500,\"type\":\"lost\"}}\n", header());
    for text in [two.clone(), format!("{two}{{\"at_ms\": 2000, \"ty")] {
        let error = said(&text);
        assert!(
            error.contains("is cut off after line") && error.contains("at 1.5 s, or still being written; --partial"),
            "{error}"
        );
        let partial = parse(text.as_bytes(), Path::new("x"), Completeness::Partial).unwrap();
        assert_eq!((partial.lines.len(), partial.length()), (2, Duration::from_millis(1500)));
    }
    let ended = format!("{two}{{\"at_ms\":1600,\"type\":\"end\"}}\n");
    assert_eq!(whole(&ended).unwrap().lines.len(), 2);
}

#[test]
fn what_a_later_version_added_is_passed_over() {
    let text = format!(
        "{}{{\"at_ms\":5,\"type\":\"tea_is_ready\",\"cups\":2}}\n{{\"at_ms\":6,\"type\":\"lost\",\"why\":1}}\n\
         {{\"at_ms\":7,\"type\":\"end\"}}\n",
        header()
    );
    assert_eq!(whole(&text).unwrap().lines, [Timed { at_ms: Milliseconds(6.0), line: Line::Lost }]);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), with_header in any::<bool>()) {
        let mut text = if with_header { header().into_bytes() } else { Vec::new() };
        text.extend(bytes);
        for completeness in [Completeness::Whole, Completeness::Partial] {
            let _ = parse(&text, Path::new("x"), completeness);
        }
    }

    /// Cut anywhere, a recording is one of a shorter time or an error, never another one.
    #[test]
    fn a_cut_is_never_taken_for_whole(cut in 0_usize..3000) {
        let mut text = header();
        for (index, line) in lines().into_iter().chain([Line::End]).enumerate() {
            let timed = Timed { at_ms: Milliseconds(index as f64), line };
            text.push_str(&serde_json::to_string(&timed).unwrap());
            text.push('\n');
        }
        let full = whole(&text).unwrap();
        let cut = cut.min(text.len());
        let kept = &text.as_bytes()[..cut];
        if let Ok(recording) = parse(kept, Path::new("x"), Completeness::Whole) {
            prop_assert!(recording == full && cut + 1 >= text.len());
        }
        if let Ok(recording) = parse(kept, Path::new("x"), Completeness::Partial) {
            prop_assert_eq!(&recording.lines[..], &full.lines[..recording.lines.len()]);
        }
    }
}

#[test]
fn what_is_too_large_for_a_recording_is_not_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(LARGEST + 1).unwrap();
    let error = read(file.path(), Completeness::Partial).unwrap_err().to_string();
    assert!(error.ends_with("has more than 1 GiB; no recording is so large"), "{error}");
}
