//! Several sequences in one decoder.

use ortalk::decoder::{Decoder, DecoderOptions, PlainDecoder};
use ortalk::model::ModelFolder;
use ortalk::onnx_runtime::CpuSessionOptions;

use crate::alone as one_at_a_time;
use crate::support::{model, runtime};

fn decoder(context: usize, room: usize) -> PlainDecoder {
    let session = CpuSessionOptions { threads: 2, spinning: false };
    let folder = ModelFolder::open(model()).unwrap();
    PlainDecoder::new(&runtime(), &folder, DecoderOptions { session, context }).unwrap().with_room_for(room)
}

fn greedy(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u32
}

/// Tokens of no meaning, other ones for each slot.
fn prompt(slot: usize, length: usize) -> Vec<u32> {
    (0..length).map(|at| 1000 + (at as u32 * 37 + slot as u32 * 101) % 40_000).collect()
}

/// The logits behind a prompt and behind each of so many tokens, in a decoder that nobody shares.
fn alone(decoder: &mut PlainDecoder, prompt: &[u32], tokens: usize) -> Vec<Vec<f32>> {
    decoder.rewind(0);
    decoder.forward(prompt).unwrap();
    let mut all = vec![decoder.logits().to_vec()];
    for _ in 0..tokens {
        decoder.forward(&[greedy(&all[all.len() - 1])]).unwrap();
        all.push(decoder.logits().to_vec());
    }
    all
}

/// Sequences come, go, move and outgrow their rows between steps of any size, and no bit of a logit changes.
#[test]
fn sequences_in_one_pass_get_the_logits_that_each_gets_alone() {
    const TOKENS: usize = 12;
    let _alone = one_at_a_time();
    let lengths = [40, 3, 130, 1020, 64, 2, 300];
    let mut single = decoder(2048, 0);
    let expected: Vec<_> =
        lengths.iter().enumerate().map(|(slot, n)| alone(&mut single, &prompt(slot, *n), TOKENS)).collect();
    drop(single);

    let mut shared = decoder(2048, 7 * 2048);
    assert_eq!((shared.slots(2048), shared.slots(1024)), (7, 14));
    let mut done = [0; 7];
    let mut logits = Vec::new();
    // Each comes at another step, those with the higher numbers first.
    for step in 0..lengths.len() + TOKENS {
        if let Some(slot) = lengths.len().checked_sub(step + 1) {
            shared.select(slot);
            shared.forward(&prompt(slot, lengths[slot])).unwrap();
            assert_eq!(shared.logits(), expected[slot][0]);
        }
        let next: Vec<(usize, u32)> = (0..lengths.len())
            .filter(|slot| slot + step + 1 >= lengths.len() && done[*slot] < TOKENS)
            // One of them rests at each step.
            .filter(|slot| (slot + step) % lengths.len() != 0)
            .map(|slot| (slot, greedy(&expected[slot][done[slot]])))
            .collect();
        shared.step(&next, &mut logits).unwrap();
        for ((slot, _), row) in next.iter().zip(logits.chunks_exact(logits.len() / next.len().max(1))) {
            done[*slot] += 1;
            assert!(row == expected[*slot][done[*slot]], "slot {slot}, token {}", done[*slot]);
        }
    }
    assert_eq!(shared.shares_passes(), Some(true));
}

#[test]
fn a_copied_prefix_goes_on_as_the_one_that_it_was_copied_from() {
    let _alone = one_at_a_time();
    let mut decoder = decoder(1024, 4096);
    let expected = alone(&mut decoder, &prompt(0, 200), 3);
    decoder.select(3);
    decoder.copy(0, 150).unwrap();
    assert_eq!(decoder.position(), 150);
    decoder.forward(&prompt(0, 200)[150..]).unwrap();
    assert_eq!(decoder.logits(), expected[0]);
    decoder.forward(&[greedy(&expected[0])]).unwrap();
    assert_eq!(decoder.logits(), expected[1]);
    decoder.select(0);
    assert_eq!(decoder.position(), 203);
}
