//! Several conversations at once on the CPU lane, with the real model: what each gets is what it would get alone, and
//! nothing stays behind. One test at a time, since one of them looks at the process's memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod decoder;
mod engine;
#[path = "../e2e/support.rs"]
#[allow(dead_code, reason = "tests of the binary use more of it")]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
