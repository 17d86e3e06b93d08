//! From bytes to a conversation: what can be understood is taken, the rest is counted.

use super::record::{Record, Unreadable};
use super::tree::Tree;

/// What could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Lines that are no records; a last line that was cut is none of them, nobody had seen its end.
    pub damaged: usize,
    /// Lines of kinds that this version does not know.
    pub unknown: usize,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    pub tree: Tree,
    /// Of the format; `None` where the file does not say that it is a conversation.
    pub version: Option<u32>,
    pub left_out: LeftOut,
}

/// Reads any bytes.
pub fn read(bytes: &[u8]) -> Reading {
    let mut reading = Reading::default();
    let mut lines = bytes.split(|byte| *byte == b'\n');
    // Behind the last line's end there is nothing, or a line that has no end yet.
    let last = lines.next_back().unwrap_or_default();
    for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
        match Record::parse(line) {
            Ok(record) => reading.take(&record),
            Err(Unreadable::Damaged) => reading.left_out.damaged += 1,
            Err(Unreadable::Unknown) => reading.left_out.unknown += 1,
        }
    }
    // Whole but for its end: written as far as it matters.
    if let Ok(record) = Record::parse(last) {
        reading.take(&record);
    }
    reading
}

impl Reading {
    fn take(&mut self, record: &Record) {
        if let Record::Begin { version, .. } = record {
            self.version = self.version.or(Some(*version));
        }
        self.tree.apply(record);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::record::tests::{all, answer, end, question, text, thought, token};
    use super::*;

    fn lines(records: &[Record]) -> Vec<u8> {
        records.iter().flat_map(|record| record.line().into_bytes()).collect()
    }

    #[test]
    fn foreign_lines_cost_themselves() {
        let mut bytes = lines(&all().into_iter().map(|(record, _)| record).collect::<Vec<_>>());
        let whole = read(&bytes);
        assert_eq!((whole.version, whole.left_out), (Some(1), LeftOut::default()));
        let mixed = b"\n\n\xff\x00\n{\"kind\":\"picture\"}\n[1,2]\nnot json\n  \n".repeat(2);
        bytes.splice(0..0, mixed.iter().copied());
        bytes.extend(&mixed);
        let read = read(&bytes);
        assert_eq!(read.tree, whole.tree);
        assert_eq!(read.left_out, LeftOut { damaged: 12, unknown: 4 });
    }

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let id = 0u32..8;
        let words = "[a-zé語\n\"\\\\ ]{0,6}";
        let record = prop_oneof![
            (id.clone(), prop::option::of(id.clone()), words)
                .prop_map(|(id, parent, text)| question(id, parent, &text)),
            (id.clone(), id.clone()).prop_map(|(id, parent)| answer(id, parent)),
            (id.clone(), words).prop_map(|(id, piece)| text(id, &piece)),
            (id.clone(), words).prop_map(|(id, thinking)| Record::Text {
                id,
                text: String::new(),
                thinking,
                token: None
            }),
            (id.clone(), words, 0u64..1 << 50).prop_map(|(id, piece, took)| token(id, &piece, took)),
            (id.clone(), words, 0u64..100_000).prop_map(|(id, piece, took)| thought(id, &piece, took)),
            (id.clone(), words).prop_map(|(id, why)| Record::Lane {
                id,
                lane: "cpu".into(),
                emulated: false,
                why: Some(why)
            }),
            id.clone().prop_map(|id| end(id, "length")),
            id.clone().prop_map(|id| Record::Continue { id }),
            prop::option::of(id.clone()).prop_map(Record::Head),
            id.clone().prop_map(Record::Delete),
            id.prop_map(Record::Restore),
            words.prop_map(Record::Title),
        ];
        prop::collection::vec(record, 0..30)
    }

    fn made_of(records: &[Record]) -> Tree {
        let mut tree = Tree::default();
        records.iter().for_each(|record| tree.apply(record));
        tree
    }

    proptest! {
        /// A kill at any byte leaves what was written before the last line.
        #[test]
        fn a_file_that_was_cut_is_the_conversation_up_to_there(records in records(), cut in 0.0..=1.0f64) {
            let bytes = lines(&records);
            let cut = (bytes.len() as f64 * cut) as usize;
            let mut length = 0;
            let whole = records.iter().take_while(|record| {
                length += record.line().len();
                // The line's end itself may be missing.
                length <= cut + 1
            });
            let expected = made_of(&whole.cloned().collect::<Vec<_>>());
            let reading = read(&bytes[..cut]);
            prop_assert_eq!(reading.left_out, LeftOut::default());
            prop_assert_eq!(&reading.tree, &expected);
            // And the next program's lines go on from there.
            let mut more = bytes[..cut].to_vec();
            more.extend(b"\n{\"kind\":\"title\",\"text\":\"later\"}\n");
            prop_assert_eq!(read(&more).tree.title(), Some("later".to_owned()));
        }

        /// Whatever happened, a copy is the same conversation, and the head leads to messages that are there.
        #[test]
        fn any_order_of_records_makes_a_tree_that_can_be_written_again(records in records()) {
            let tree = made_of(&records);
            prop_assert_eq!(&made_of(&tree.records()), &tree);
            prop_assert!(tree.path().iter().all(|message| tree.is_visible(message.id)));
            prop_assert_eq!(tree.path().last().map(|message| message.id), tree.head());
            prop_assert_eq!(read(&lines(&records)).tree, tree);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            read(&bytes);
        }
    }
}
