use pretty_assertions::assert_eq;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::builder::blocks::TensorType;
use crate::builder::testing::random_blocks;

fn tensor(kind: TensorType, shape: &[usize], bytes: &[u8]) -> Tensor<'static> {
    // The tests leak a few kilobytes and in turn need no owners.
    Tensor { name: "t".into(), kind, shape: shape.to_vec(), bytes: bytes.to_vec().leak() }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn interleaved_rows_go_back_to_halves() {
    // Two heads of four. The converter moved row j of half s to 2 j + s: rows 0 1 2 3 lie as 0 2 1 3.
    let stored = [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0];
    let vector = tensor(TensorType::F32, &[8], &floats(&stored));
    let rows = Rows { tensor: &vector, interleaved_head: Some(4) };
    assert_eq!(rows.vector(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(Rows { interleaved_head: None, ..rows }.vector(), stored);

    let matrix = tensor(TensorType::F32, &[1, 8], &floats(&stored));
    let rows = Rows { tensor: &matrix, interleaved_head: Some(4) };
    let order: Vec<f32> =
        (0..rows.count()).map(|index| f32::from_le_bytes(rows.row(index).try_into().unwrap())).collect();
    assert_eq!(order, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn rotating_halves_of_put_back_rows_is_rotating_neighbours_of_stored_ones() {
    // The definition, rather than the index formula: after un-permuting, pair (j, j + d/2) must hold what was stored as
    // the neighbours (2 j, 2 j + 1).
    let head_size = 16;
    for j in 0..head_size / 2 {
        assert_eq!(stored_row(j, head_size), 2 * j);
        assert_eq!(stored_row(j + head_size / 2, head_size), 2 * j + 1);
        assert_eq!(stored_row(head_size + j, head_size), head_size + 2 * j);
    }
}

fn layout(kinds: &[TensorType], purpose: Purpose) -> Layout {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let tensors: Vec<_> =
        kinds.iter().map(|kind| tensor(*kind, &[256, 2], &random_blocks(*kind, 512, &mut rng))).collect();
    let parts: Vec<_> = tensors.iter().map(|tensor| Rows { tensor, interleaved_head: None }).collect();
    choose_layout(&parts, purpose)
}

#[test]
fn every_type_gets_the_most_exact_layout() {
    use TensorType::*;
    for (kinds, purpose, expected) in [
        (&[Q4_0, Q4_0][..], Purpose::Projection, Layout::Symmetric4),
        (&[Q4_0], Purpose::Vocabulary, Layout::Symmetric8),
        (&[Q4_1], Purpose::Projection, Layout::Asymmetric8),
        (&[Q4_1, Q4_0], Purpose::Projection, Layout::Asymmetric8),
        (&[Q8_0, Q8_0, Q4_0], Purpose::Projection, Layout::Symmetric8),
        (&[Q5_0], Purpose::Projection, Layout::Symmetric8),
        (&[Q8_0], Purpose::Vocabulary, Layout::Symmetric8),
        (&[Q4K, Q4K, Q6K], Purpose::Projection, Layout::Asymmetric8),
        (&[F16], Purpose::Vocabulary, Layout::Asymmetric8),
    ] {
        assert_eq!(layout(kinds, purpose), expected, "{kinds:?} {purpose:?}");
    }
}

/// The data file's bytes, and where the matrix lies.
fn stored(kind: TensorType, rows: usize, threads: usize) -> (Vec<u8>, Stored) {
    let folder = tempfile::tempdir().unwrap();
    let mut data = DataFile::create(folder.path(), "data").unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let tensor = tensor(kind, &[64, rows], &random_blocks(kind, 64 * rows, &mut rng));
    let part = Rows { tensor: &tensor, interleaved_head: None };
    let mut heard = 0;
    let layout = choose_layout(&[part], Purpose::Projection);
    let stored = store(&mut data, &[part], layout, threads, &mut |rows| heard += rows).unwrap();
    assert_eq!(heard, rows);
    (std::fs::read(folder.path().join("data")).unwrap(), stored)
}

#[test]
fn the_number_of_threads_does_not_show() {
    for kind in [TensorType::Q4_1, TensorType::Q8_0, TensorType::F16] {
        let one = stored(kind, 7, 1);
        for threads in [2, 3, 64] {
            assert_eq!(stored(kind, 7, threads), one, "{kind} {threads}");
        }
    }
}

#[test]
fn a_damaged_tensor_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut data = DataFile::create(folder.path(), "data").unwrap();
    let mut values = [1.0; 128];
    values[100] = f32::NAN;
    let tensor = tensor(TensorType::F32, &[64, 2], &floats(&values));
    let part = Rows { tensor: &tensor, interleaved_head: None };
    let error = store(&mut data, &[part], Layout::Asymmetric8, 2, &mut |_| {}).unwrap_err();
    let StoreError::Model(error) = error else { panic!("{error:?}") };
    assert_eq!(error, ModelError::NotFinite { tensor: "t".to_owned() });
}
