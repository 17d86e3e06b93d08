use pretty_assertions::assert_eq;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::builder::blocks::TensorType;
use crate::builder::repack::BlockFormat;
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

/// The data file's bytes, and where the matrix lies.
fn stored(layout: Layout, kind: TensorType, rows: usize, threads: usize) -> (Vec<u8>, Stored) {
    let folder = tempfile::tempdir().unwrap();
    let mut data = DataFile::create(folder.path(), "data").unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let tensor = tensor(kind, &[64, rows], &random_blocks(kind, 64 * rows, &mut rng));
    let part = Rows { tensor: &tensor, interleaved_head: None };
    let mut heard = 0;
    let stored = store(&mut data, &[part], layout, threads, &mut |rows| heard += rows).unwrap();
    assert_eq!(heard, rows);
    (std::fs::read(folder.path().join("data")).unwrap(), stored)
}

#[test]
fn the_number_of_threads_does_not_show() {
    let asymmetric = Layout::Blocks(BlockFormat::ASYMMETRIC8);
    for (layout, kind) in [
        (asymmetric, TensorType::Q4_1),
        (Layout::Blocks(BlockFormat::SYMMETRIC8), TensorType::Q8_0),
        (Layout::Blocks(BlockFormat::SYMMETRIC4), TensorType::Q4_0),
        (asymmetric, TensorType::F16),
        (Layout::Float32, TensorType::Q4_1),
        (Layout::Float16, TensorType::F32),
    ] {
        let one = stored(layout, kind, 7, 1);
        for threads in [2, 3, 64] {
            assert_eq!(stored(layout, kind, 7, threads), one, "{layout:?} {kind} {threads}");
        }
    }
}

#[test]
fn a_damaged_tensor_is_named() {
    let damaged = |layout, value| {
        let error = refused(layout, value);
        let StoreError::Model(error) = error else { panic!("{error:?}") };
        error
    };
    let tensor = || "t".to_owned();
    for layout in [Layout::Blocks(BlockFormat::ASYMMETRIC8), Layout::Float32] {
        assert_eq!(damaged(layout, f32::NAN), ModelError::NotFinite { tensor: tensor() });
    }
    assert_eq!(damaged(Layout::Float16, 1e6), ModelError::BeyondFloat16 { tensor: tensor() });
}

fn refused(layout: Layout, value: f32) -> StoreError {
    let folder = tempfile::tempdir().unwrap();
    let mut data = DataFile::create(folder.path(), "data").unwrap();
    let mut values = [1.0; 128];
    values[100] = value;
    let tensor = tensor(TensorType::F32, &[64, 2], &floats(&values));
    let part = Rows { tensor: &tensor, interleaved_head: None };
    store(&mut data, &[part], layout, 2, &mut |_| {}).unwrap_err()
}
