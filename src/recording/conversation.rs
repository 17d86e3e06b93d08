//! What was done to a conversation, as the lines of its file say it.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::store::{Record, Tree, Unreadable};

/// Records of a conversation. Kinds of a later version are passed over.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Records(pub Vec<Record>);

impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let lines = Vec::<serde_json::Value>::deserialize(deserializer)?;
        let record = |line| match Record::from_value(line) {
            Ok(record) => Some(Ok(record)),
            Err(Unreadable::Unknown) => None,
            Err(Unreadable::Damaged) => Some(Err(D::Error::custom("a record of the conversation is damaged"))),
        };
        lines.into_iter().filter_map(record).collect::<Result<_, _>>().map(Self)
    }
}

impl Records {
    /// The conversation as a screen shows it: without what was attached to questions, without instructions, and without
    /// the words of what was deleted.
    pub fn shown(tree: &Tree) -> Self {
        Self::of(tree, tree.records())
    }

    /// Some of its records, likewise.
    pub fn of(tree: &Tree, records: Vec<Record>) -> Self {
        let is_there = |id: u32| tree.is_visible(id);
        let shown = |record: Record| match record {
            Record::System(_) => None,
            Record::Question { id, parent, time, text, shown } => {
                let text = if is_there(id) { shown.map_or(text, |shown| shown.text) } else { String::new() };
                Some(Record::Question { id, parent, time, text, shown: None })
            }
            Record::Text { id, .. } | Record::Lane { id, .. } | Record::End { id, .. } if !is_there(id) => None,
            record => Some(record),
        };
        Self(records.into_iter().filter_map(shown).collect())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::store::Shown;

    fn question(id: u32, parent: Option<u32>, text: &str, shown: Option<&str>) -> Record {
        let shown = shown.map(|text| Shown { text: text.to_owned(), pieces: Vec::new() });
        Record::Question { id, parent, time: chrono::DateTime::UNIX_EPOCH, text: text.to_owned(), shown }
    }

    #[test]
    fn what_the_screen_does_not_show_is_not_written() {
        let mut tree = Tree::default();
        let secret = [
            Record::System(Some("secret".to_owned())),
            question(0, None, "about secret", Some("about [file]")),
            question(1, Some(0), "secret", None),
            Record::Delete(1),
        ];
        secret.iter().for_each(|record| tree.apply(record));
        let records = Records::shown(&tree);
        let text = serde_json::to_string(&records).unwrap();
        assert!(text.contains("about [file]") && !text.contains("secret"), "{text}");
        // The next message has the same number in both.
        let mut again = Tree::default();
        records.0.iter().for_each(|record| again.apply(record));
        assert_eq!((again.next_id(), again.head()), (tree.next_id(), tree.head()));
    }

    #[test]
    fn kinds_of_a_later_version_are_passed_over_and_damage_is_told() {
        let records: Records = serde_json::from_value(json!([{"kind": "tea"}, {"kind": "head", "id": 3}])).unwrap();
        assert_eq!(records.0, [Record::Head(Some(3))]);
        assert!(serde_json::from_value::<Records>(json!([{"kind": "delete"}])).is_err());
        assert!(serde_json::from_value::<Records>(json!(["delete"])).is_err());
    }
}
