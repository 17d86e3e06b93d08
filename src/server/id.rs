//! Names for answers.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A name that no other answer has: of this process by its number, of another by chance.
pub fn unique(prefix: &str) -> String {
    static PROCESS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:016x}{number:08x}", PROCESS.hash_one(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let names: std::collections::BTreeSet<String> = (0..1000).map(|_| unique("chatcmpl")).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.starts_with("chatcmpl-") && name.len() == 33));
    }
}
