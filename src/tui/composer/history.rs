//! Messages sent before, of this session and of earlier ones, the oldest first.

use super::draft::Draft;

#[derive(Debug, Clone, Default)]
pub struct History {
    entries: Vec<Draft>,
    /// Which entry is shown, and what was being typed before.
    recall: Option<(usize, Draft)>,
}

/// Entries that are kept.
const MOST: usize = 5000;

impl History {
    pub fn entries(&self) -> &[Draft] {
        &self.entries
    }

    /// Puts what earlier sessions sent before what this one has.
    pub fn load(&mut self, earlier: Vec<String>) {
        let before = earlier.len();
        let own = std::mem::take(&mut self.entries);
        self.entries = earlier.into_iter().map(Draft::from).chain(own).collect();
        if let Some((at, _)) = &mut self.recall {
            *at += before;
        }
    }

    /// False where it is the one that was sent last.
    pub fn add(&mut self, draft: &Draft) -> bool {
        self.recall = None;
        if self.entries.last() == Some(draft) {
            return false;
        }
        if self.entries.len() == MOST {
            self.entries.remove(0);
        }
        self.entries.push(draft.clone());
        true
    }

    /// Leaves the entry that is shown, as if it had been typed.
    pub fn leave(&mut self) {
        self.recall = None;
    }

    /// The entry `step` further on, or what was being typed behind the last one; nothing at the ends.
    pub fn recall(&mut self, step: isize, typed: &Draft) -> Option<Draft> {
        let (at, draft) = match self.recall.take() {
            Some((at, draft)) => (at, draft),
            None => (self.entries.len(), typed.clone()),
        };
        let next = at.saturating_add_signed(step).min(self.entries.len());
        match self.entries.get(next) {
            Some(entry) => {
                self.recall = Some((next, draft));
                (next != at).then(|| entry.clone())
            }
            None => (next != at).then_some(draft),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_sessions_come_before_this_one() {
        let mut history = History::default();
        assert!(history.add(&"now".into()) && !history.add(&"now".into()));
        assert_eq!(history.recall(-1, &"typed".into()).unwrap(), "now");
        history.load(vec!["old".into(), "older\x1b".into()]);
        // Who had begun to look stays where they were.
        assert_eq!(history.recall(-1, &"now".into()).unwrap(), "older^[");
        assert_eq!(history.recall(-1, &"".into()).unwrap(), "old");
        assert!(history.recall(-1, &"".into()).is_none());
        for expected in ["older^[", "now", "typed"] {
            assert_eq!(history.recall(1, &"".into()).unwrap(), expected);
        }
        assert!(history.recall(1, &"typed".into()).is_none());
    }
}
