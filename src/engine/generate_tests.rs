use std::sync::atomic::Ordering;

use pretty_assertions::assert_eq;
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::event::{Finished, Timings, Usage};
use super::super::job::Measure;
use super::super::testing::{END, ScriptedDecoder, byte_model, job};
use super::*;

fn script(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).chain([END]).collect()
}

fn lane(decoder: ScriptedDecoder) -> LaneDecoder {
    LaneDecoder::new(LaneId::Cpu, Box::new(decoder))
}

/// Answers a lane's only job.
fn only(lane: &mut LaneDecoder, folder: &ModelFolder, job: Job, stopping: &dyn Fn() -> bool) -> Ended {
    assert!(lane.admit(job, false).is_ok());
    loop {
        if let Some(ended) = lane.turn(folder, stopping).pop() {
            assert!(lane.is_idle());
            return ended;
        }
    }
}

/// Answers as a lane's only job would be, and returns the outcome, the pieces of text and how it finished.
fn run_job(
    lane: &mut LaneDecoder,
    job: Job,
    received: &mut UnboundedReceiver<GenerationEvent>,
) -> (Outcome, Vec<String>, Option<Finished>) {
    let dir = tempfile::tempdir().unwrap();
    let folder = byte_model(dir.path());
    let Ended { job, outcome, .. } = only(lane, &folder, job, &|| false);
    match &outcome {
        Outcome::Finished(reason) => job.finish(reason.clone(), &folder.tokenizer),
        Outcome::ContextFull => job.finish(FinishReason::ContextFull, &folder.tokenizer),
        Outcome::Refused(_) | Outcome::Broken(_) | Outcome::Displaced => drop(job),
    }
    let (mut pieces, mut finished) = (Vec::new(), None);
    while let Ok(event) = received.try_recv() {
        match event {
            GenerationEvent::Token(token) => pieces.push(token.text),
            GenerationEvent::TrailingText { text, .. } => pieces.push(format!("+{text}")),
            GenerationEvent::Finished(end) => finished = Some(end),
            _ => {}
        }
    }
    (outcome, pieces, finished)
}

/// The pieces of text and how it finished.
fn answer(lane: &mut LaneDecoder, prompt: &str, max_tokens: usize, stop: &[&str]) -> (Vec<String>, Finished) {
    let (job, mut received) = job(prompt, max_tokens, stop);
    let (_, pieces, finished) = run_job(lane, job, &mut received);
    (pieces, finished.unwrap())
}

#[test]
fn an_answer_ends_at_the_end_token() {
    let (pieces, finished) = answer(&mut lane(ScriptedDecoder::new(&script("Hi!"), 64)), "Hello", 10, &[]);
    assert_eq!(pieces, ["H", "i", "!"]);
    assert_eq!(finished.reason, FinishReason::Stop);
    assert_eq!(finished.usage, Usage { prompt_tokens: 5, completion_tokens: 3, reused_tokens: 0, ..Usage::default() });
    assert_eq!(finished.timings.token_latencies.len(), 2);
    assert!(finished.timings.ttft.is_some());
}

#[test]
fn a_character_is_never_cut() {
    let (pieces, _) = answer(&mut lane(ScriptedDecoder::new(&script("é🦀"), 64)), "ab", 10, &[]);
    assert_eq!(pieces, ["", "é", "", "", "", "🦀"]);
}

#[test]
fn a_cut_answer_gives_its_incomplete_character_at_the_end() {
    let (pieces, finished) = answer(&mut lane(ScriptedDecoder::new(&script("a🦀"), 64)), "ab", 3, &[]);
    assert_eq!(pieces, ["a", "", "", "+\u{fffd}"]);
    assert_eq!(finished.reason, FinishReason::Length);
}

#[test]
fn a_stop_text_ends_the_answer_and_stays_out_of_it() {
    let (pieces, finished) = answer(&mut lane(ScriptedDecoder::new(&script("one. two"), 64)), "ab", 20, &[". "]);
    assert_eq!(pieces.concat(), "one");
    assert_eq!(finished.reason, FinishReason::Stop);
    assert_eq!(finished.usage.completion_tokens, 5);
}

#[test]
fn half_a_stop_text_comes_out_when_the_answer_ends() {
    let (pieces, _) = answer(&mut lane(ScriptedDecoder::new(&script("one."), 64)), "ab", 20, &[". "]);
    assert_eq!(pieces, ["o", "n", "e", "", "+."]);
}

#[test]
fn the_end_of_the_context_is_told_from_the_longest_answer() {
    // Five prompt tokens and three answered ones fill eight; the fourth is chosen but has no room to go on from.
    let (pieces, finished) = answer(&mut lane(ScriptedDecoder::new(&script("abcdefgh"), 8)), "Hello", 50, &[]);
    assert_eq!(pieces.concat(), "abcd");
    assert_eq!(finished.reason, FinishReason::ContextFull);
}

#[test]
fn a_second_turn_reuses_the_first() {
    let mut lane = lane(ScriptedDecoder::new(&script("ok"), 400));
    answer(&mut lane, "first question", 10, &[]);
    // "first question" and "ok" are in the cache.
    let (_, finished) = answer(&mut lane, "first questionok, and more", 10, &[]);
    assert_eq!(
        finished.usage,
        Usage { prompt_tokens: 26, completion_tokens: 2, reused_tokens: 16, ..Usage::default() }
    );
    assert_eq!(finished.timings.prefill_tokens, 10);
}

#[test]
fn the_same_prompt_again_still_runs_two_tokens() {
    let mut lane = lane(ScriptedDecoder::new(&script("ok"), 400));
    answer(&mut lane, "question", 10, &[]);
    let (pieces, finished) = answer(&mut lane, "question", 10, &[]);
    assert_eq!(pieces, ["o", "k"]);
    assert_eq!(finished.usage.reused_tokens, 6);
}

#[test]
fn a_lane_without_another_kernel_for_one_row_runs_one_token_of_the_same_prompt() {
    let mut decoder = ScriptedDecoder::new(&script("ok"), 400);
    decoder.shortest = 1;
    let mut lane = lane(decoder);
    answer(&mut lane, "question", 10, &[]);
    assert_eq!(answer(&mut lane, "question", 10, &[]).1.usage.reused_tokens, 7);
}

#[test]
fn no_pass_over_a_prompt_is_too_short_or_too_long() {
    for (chunk, shortest) in [(128, 2), (64, 1), (1, 1), (2, 2)] {
        for total in 1..700 {
            let (mut done, mut lengths) = (0, Vec::new());
            while done < total {
                let end = chunk_end(done, total, chunk, shortest);
                lengths.push(end - done);
                done = end;
            }
            assert_eq!(lengths.iter().sum::<usize>(), total);
            let fits = |n: &usize| (shortest..=chunk).contains(n);
            // With chunks of two, an odd prompt must leave one token over.
            let odd = chunk == shortest && total % chunk != 0;
            assert!(total < shortest || odd || lengths.iter().all(fits), "{chunk} {total}: {lengths:?}");
        }
    }
}

#[test]
fn progress_comes_with_each_chunk() {
    let mut decoder = ScriptedDecoder::new(&script("a"), 400);
    decoder.chunk = 4;
    let (job, mut received) = job("ten tokens", 5, &[]);
    let dir = tempfile::tempdir().unwrap();
    only(&mut lane(decoder), &byte_model(dir.path()), job, &|| false);
    let mut done = Vec::new();
    while let Ok(event) = received.try_recv() {
        if let GenerationEvent::PrefillProgress(progress) = event {
            done.push(progress.done);
        }
    }
    assert_eq!(done, [0, 4, 8, 10]);
}

#[test]
fn a_dropped_receiver_cancels_within_one_token() {
    let dir = tempfile::tempdir().unwrap();
    let folder = byte_model(dir.path());
    let decoder = ScriptedDecoder::new(&vec![u32::from(b'x'); 1000], 2000);
    let passes = decoder.passes.clone();
    let mut lane = lane(decoder);
    let (job, received) = job("ab", 1000, &[]);
    // Stands for a front end that goes away during the fifth pass.
    let reader = std::cell::RefCell::new(Some(received));
    let Ended { outcome, .. } = only(&mut lane, &folder, job, &|| {
        if passes.load(Ordering::Relaxed) >= 5 {
            reader.borrow_mut().take();
        }
        false
    });
    assert_eq!(outcome, Outcome::Finished(FinishReason::Cancelled));
    assert_eq!(passes.load(Ordering::Relaxed), 5);
}

#[test]
fn a_failed_pass_breaks_the_lane_and_keeps_the_answer() {
    for panics in [false, true] {
        let mut faulty = ScriptedDecoder::new(&script("abc"), 64);
        let fault = Some(2);
        if panics {
            faulty.panic_at = fault
        } else {
            faulty.fault_at = fault
        }
        let (job, mut received) = job("Hello", 10, &[]);
        let (outcome, pieces, finished) = run_job(&mut lane(faulty), job, &mut received);
        assert_eq!((pieces.concat().as_str(), finished), ("ab", None));
        let reason = if panics { "injected panic" } else { "the forward pass failed: injected fault" };
        assert_eq!(outcome, Outcome::Broken(reason.into()));
    }
}

#[test]
fn a_lane_that_computes_no_number_is_broken() {
    let mut decoder = ScriptedDecoder::new(&script("abc"), 64);
    decoder.nan_at = Some(2);
    let (job, mut received) = job("Hello", 10, &[]);
    let (outcome, pieces, _) = run_job(&mut lane(decoder), job, &mut received);
    assert_eq!(pieces.concat(), "ab");
    assert!(matches!(&outcome, Outcome::Broken(reason) if reason.contains("no finite logit")), "{outcome:?}");
}

/// What the request is at fault for is no reason to give up a lane, and its cache begins afresh.
#[test]
fn a_request_s_own_fault_ends_the_request_alone() {
    let mut decoder = ScriptedDecoder::new(&script("abc"), 64);
    decoder.unknown_at = Some(2);
    let mut lane = lane(decoder);
    let (pieces, finished) = answer(&mut lane, "Hello", 10, &[]);
    assert_eq!(pieces, ["a", "b"]);
    assert!(matches!(&finished.reason, FinishReason::Error(reason) if reason.contains("outside of the vocabulary")));
    let (pieces, finished) = answer(&mut lane, "Hello", 10, &[]);
    assert_eq!((pieces.concat().as_str(), finished.usage.reused_tokens), ("abc", 0));
}

/// What is measured is the same work every time: all of the prompt, and all of the tokens that were asked for.
#[test]
fn measured_work_reuses_nothing_and_ends_at_its_length() {
    // Passes over the prompt, and one for each token after the first.
    for (one_pass, passes) in [(false, 3 + 4), (true, 1 + 4)] {
        let mut decoder = ScriptedDecoder::new(&script("Hi"), 64);
        decoder.chunk = 4;
        let counted = decoder.passes.clone();
        let mut lane = lane(decoder);
        for _ in 0..2 {
            let (mut job, mut received) = job("Hello, you", 5, &[]);
            (job.measure, job.fresh) = (Some(Measure { one_pass }), true);
            let (_, _, finished) = run_job(&mut lane, job, &mut received);
            let finished = finished.unwrap();
            assert_eq!(finished.reason, FinishReason::Length);
            assert_eq!(
                finished.usage,
                Usage { prompt_tokens: 10, completion_tokens: 5, reused_tokens: 0, ..Usage::default() }
            );
            assert_eq!(counted.swap(0, Ordering::Relaxed), passes);
            let Timings { ttft, model_ttft, prefill, .. } = finished.timings;
            assert!(prefill <= model_ttft.unwrap() && model_ttft <= ttft);
        }
    }
}

/// An answer that is compared with another lane's: the model's end ends it, and its prompt is new each time.
#[test]
fn a_fresh_answer_reuses_nothing() {
    let mut lane = lane(ScriptedDecoder::new(&script("Hi"), 64));
    for (fresh, reused) in [(false, 0), (true, 0), (false, 8)] {
        let (mut job, mut received) = job("Hello, you", 5, &[]);
        job.fresh = fresh;
        let (_, _, finished) = run_job(&mut lane, job, &mut received);
        let finished = finished.unwrap();
        assert_eq!((finished.reason, finished.usage.reused_tokens), (FinishReason::Stop, reused), "{fresh}");
    }
}
