//! What a tree is without its texts, and what was done to it since: for who follows a conversation that somebody else
//! changes, as a recording of the screen does.

use std::collections::BTreeSet;

use super::message::Message;
use super::record::Record;
use super::tree::Tree;

/// How a tree stood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    messages: usize,
    deleted: BTreeSet<u32>,
    head: Option<u32>,
    /// What a person called it.
    title: Option<String>,
}

impl Outline {
    pub fn of(tree: &Tree) -> Self {
        let deleted = tree.messages().iter().filter(|message| message.deleted).map(|message| message.id);
        Self {
            messages: tree.messages().len(),
            deleted: deleted.collect(),
            head: tree.head(),
            title: tree.given_title().map(str::to_owned),
        }
    }

    /// The records that lead from this outline to that of the same tree as it is now.
    pub fn changes(&self, tree: &Tree) -> Vec<Record> {
        let now = Self::of(tree);
        let came = tree.messages().iter().skip(self.messages);
        let mut records: Vec<Record> = came.flat_map(Message::records).collect();
        records.extend(now.deleted.difference(&self.deleted).map(|id| Record::Delete(*id)));
        records.extend(self.deleted.difference(&now.deleted).map(|id| Record::Restore(*id)));
        records.extend(now.title.filter(|title| self.title.as_ref() != Some(title)).map(Record::Title));
        // Each of these may move the head.
        if !records.is_empty() || now.head != self.head {
            records.push(Record::Head(now.head));
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{answer, end, question, text};
    use super::*;

    #[test]
    fn who_follows_the_changes_has_the_same_tree() {
        let mut tree = Tree::default();
        let mut follower = Tree::default();
        let mut outline = Outline::of(&tree);
        for step in [
            vec![question(0, None, "one"), answer(1, 0), text(1, "two"), end(1, "stop")],
            vec![question(2, Some(1), "three"), answer(3, 2), end(3, "length")],
            vec![Record::Head(Some(1))],
            vec![],
            vec![question(4, Some(1), "four"), answer(5, 4), text(5, "five"), end(5, "stop")],
            vec![Record::Delete(4)],
            vec![Record::Delete(0), Record::Title("Numbers".into())],
            vec![Record::Restore(0), Record::Restore(4), Record::Head(None)],
        ] {
            step.iter().for_each(|record| tree.apply(record));
            let changes = outline.changes(&tree);
            assert_eq!(changes.is_empty(), step.is_empty(), "{step:?}");
            changes.iter().for_each(|record| follower.apply(record));
            assert_eq!(follower, tree, "{step:?}");
            outline = Outline::of(&tree);
        }
    }
}
