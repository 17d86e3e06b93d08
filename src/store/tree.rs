//! A conversation as a tree: each message knows the one that it follows, so that an edited question and a second answer
//! stand beside the first ones. The head says which way through the tree is the conversation as it is shown and sent.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::message::{Answer, Made, Message};
use super::record::{End, Record, TokenTime};

/// Messages by their parents, and the head. It is changed by records alone, so what is read from a file is what was.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    messages: Vec<Message>,
    places: HashMap<u32, usize>,
    /// Of a message, or of the beginning, in the order in which they came.
    children: HashMap<Option<u32>, Vec<u32>>,
    head: Option<u32>,
    title: Option<String>,
    system: Option<String>,
    numbers: BTreeMap<String, String>,
}

impl Tree {
    /// Takes in what happened. What refers to a message that is not there changes nothing.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Begin { .. } => {}
            Record::System(text) => self.system = text.clone(),
            Record::Set(numbers) => self.numbers = numbers.clone(),
            Record::Title(text) => self.title = Some(text.clone()),
            Record::Question { id, parent, time, text, shown } => self.add(Message {
                id: *id,
                parent: *parent,
                time: *time,
                text: text.clone(),
                shown: shown.clone(),
                answer: None,
                deleted: false,
            }),
            Record::Answer { id, parent, time, model } => self.add(Message {
                id: *id,
                parent: *parent,
                time: *time,
                text: String::new(),
                shown: None,
                answer: Some(Answer { model: model.clone(), ..Answer::default() }),
                deleted: false,
            }),
            Record::Lane { id, lane, emulated, why } => {
                let made = Made::Lane { lane: lane.clone(), emulated: *emulated, why: why.clone() };
                self.make(*id, made, "", "");
            }
            Record::Text { id, text, thinking, token } => {
                let made = match token {
                    Some(TokenTime { took, thinks }) => {
                        let answer = self.message(*id).and_then(|message| message.answer.as_ref());
                        Made::Token { took: *took, thinks: *thinks, first: answer.is_some_and(Answer::is_at_first) }
                    }
                    None if text.is_empty() && thinking.is_empty() => return,
                    None => Made::Text,
                };
                self.make(*id, made, text, thinking);
            }
            Record::Continue { id } => {
                self.set_end(*id, None);
                self.make(*id, Made::GoesOn, "", "");
            }
            Record::End { id, end } => self.set_end(*id, Some(end.clone())),
            Record::Head(None) => self.head = None,
            Record::Head(Some(id)) if self.is_visible(*id) => self.head = Some(*id),
            Record::Head(Some(_)) => {}
            Record::Delete(id) => self.delete(*id),
            Record::Restore(id) => self.restore(*id),
        }
    }

    fn make(&mut self, id: u32, made: Made, text: &str, thinking: &str) {
        if let Some(message) = self.message_mut(id) {
            message.make(made, text, thinking);
        }
    }

    fn add(&mut self, mut message: Message) {
        let id = message.id;
        if self.places.contains_key(&id) {
            return;
        }
        // A parent whose line was lost: the message follows what came before it.
        if message.parent.is_some_and(|parent| !self.places.contains_key(&parent)) {
            message.parent = self.head;
        }
        self.places.insert(id, self.messages.len());
        self.children.entry(message.parent).or_default().push(id);
        // The head is visible, and so is what follows it; that is nearly every message.
        let visible = message.parent == self.head || message.parent.is_none_or(|parent| self.is_visible(parent));
        self.messages.push(message);
        if visible {
            self.head = Some(id);
        }
    }

    fn set_end(&mut self, id: u32, end: Option<End>) {
        if let Some(answer) = self.message_mut(id).and_then(|message| message.answer.as_mut()) {
            answer.end = end;
        }
    }

    fn delete(&mut self, id: u32) {
        let Some(message) = self.message_mut(id) else { return };
        message.deleted = true;
        let parent = message.parent;
        if !self.head.is_none_or(|head| self.is_visible(head)) {
            // What stood beside it is shown in its place.
            self.head = self.newest(parent);
        }
    }

    fn restore(&mut self, id: u32) {
        let Some(message) = self.message_mut(id) else { return };
        message.deleted = false;
        if self.is_visible(id) {
            self.head = self.newest(Some(id));
        }
    }

    /// The end of the newest way on from here.
    pub fn newest(&self, from: Option<u32>) -> Option<u32> {
        let mut at = from;
        while let Some(next) = self.visible_children(at).last() {
            at = Some(next);
        }
        at
    }

    fn visible_children(&self, parent: Option<u32>) -> impl Iterator<Item = u32> + '_ {
        let children = self.children.get(&parent).into_iter().flatten();
        children.copied().filter(|id| self.message(*id).is_some_and(|message| !message.deleted))
    }

    fn message_mut(&mut self, id: u32) -> Option<&mut Message> {
        self.messages.get_mut(*self.places.get(&id)?)
    }

    pub fn message(&self, id: u32) -> Option<&Message> {
        self.messages.get(*self.places.get(&id)?)
    }

    /// Neither it nor what it follows was deleted.
    pub fn is_visible(&self, id: u32) -> bool {
        self.places.contains_key(&id) && self.above(Some(id)).all(|message| !message.deleted)
    }

    /// A message and those that it follows, the first one last.
    fn above(&self, from: Option<u32>) -> impl Iterator<Item = &Message> {
        let message = move |id: Option<u32>| id.and_then(|id| self.message(id));
        // Each parent was there before its child, so there is no circle.
        std::iter::successors(message(from), move |at| message(at.parent))
    }

    /// The conversation as it is shown: from its beginning to the head.
    pub fn path(&self) -> Vec<&Message> {
        let mut path: Vec<&Message> = self.above(self.head).collect();
        path.reverse();
        path
    }

    pub fn head(&self) -> Option<u32> {
        self.head
    }

    /// What stands in the place of this message, itself among it, in the order in which they came.
    pub fn siblings(&self, id: u32) -> Vec<u32> {
        self.message(id).map_or_else(Vec::new, |message| self.visible_children(message.parent).collect())
    }

    /// All messages, the deleted ones too, each after the one that it follows.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Those that were not deleted.
    pub fn visible(&self) -> impl Iterator<Item = &Message> {
        // A parent comes before its children, so each message is looked at once.
        let mut hidden = HashSet::new();
        self.messages.iter().filter(move |message| {
            let is_hidden = message.deleted || message.parent.is_some_and(|parent| hidden.contains(&parent));
            if is_hidden {
                hidden.insert(message.id);
            }
            !is_hidden
        })
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Something was said, and all of it was deleted.
    pub fn is_emptied(&self) -> bool {
        !self.is_empty() && self.visible().next().is_none()
    }

    /// The newest of the deleted messages that would be back at once.
    pub fn newest_deleted(&self) -> Option<u32> {
        let is_cut = |message: &&Message| message.deleted && message.parent.is_none_or(|id| self.is_visible(id));
        self.messages.iter().rev().find(is_cut).map(|message| message.id)
    }

    /// The answer at the head, where it has no end.
    pub fn unfinished(&self) -> Option<u32> {
        let head = self.message(self.head?)?;
        head.answer.as_ref().filter(|answer| answer.end.is_none()).map(|_| head.id)
    }

    /// The number for the next message.
    pub fn next_id(&self) -> u32 {
        self.messages.iter().map(|message| message.id + 1).max().unwrap_or(0)
    }

    /// The instructions of the latest answer.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// What a person called it.
    pub fn given_title(&self) -> Option<&str> {
        self.title.as_deref().filter(|title| !title.trim().is_empty())
    }

    /// What was set by hand for the latest answer, by name.
    pub fn numbers(&self) -> &BTreeMap<String, String> {
        &self.numbers
    }

    /// What a person called it, or the first words of its first message.
    pub fn title(&self) -> Option<String> {
        if let Some(title) = self.given_title() {
            return Some(title.to_owned());
        }
        let first = self.path().first().copied().or_else(|| self.visible().next())?;
        first_words(first.shown())
    }

    /// The first words that were ever said, though they may be deleted.
    pub fn first_title(&self) -> Option<String> {
        self.messages.first().and_then(|message| first_words(message.shown()))
    }

    /// Records that make this tree again.
    pub fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        records.extend(self.system.clone().map(|text| Record::System(Some(text))));
        records.extend((!self.numbers.is_empty()).then(|| Record::Set(self.numbers.clone())));
        records.extend(self.title.clone().map(Record::Title));
        records.extend(self.messages.iter().flat_map(Message::records));
        let deleted = self.messages.iter().filter(|message| message.deleted);
        records.extend(deleted.map(|message| Record::Delete(message.id)));
        records.push(Record::Head(self.head));
        records
    }
}

/// Longer titles are cut, in characters.
const TITLE: usize = 60;

/// The first line that says something, at a word's end where it is too long.
fn first_words(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.chars().count() <= TITLE {
        return Some(line.to_owned());
    }
    let cut: String = line.chars().take(TITLE).collect();
    // Where there are spaces; Chinese has none.
    let words = cut.rsplit_once(char::is_whitespace).map_or(cut.as_str(), |(words, _)| words);
    Some(format!("{}...", words.trim_end()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::record::tests::{answer, end, question, text, thought, token};
    use super::*;

    fn tree(records: &[Record]) -> Tree {
        let mut tree = Tree::default();
        records.iter().for_each(|record| tree.apply(record));
        tree
    }

    fn path(tree: &Tree) -> Vec<u32> {
        tree.path().iter().map(|message| message.id).collect()
    }

    /// A question with two answers, and an edited question beside the first.
    fn branched() -> Tree {
        tree(&[
            question(0, None, "one"),
            answer(1, 0),
            text(1, "first"),
            end(1, "stop"),
            question(2, Some(1), "two"),
            answer(3, 2),
            text(3, "second"),
            end(3, "length"),
            Record::Head(Some(0)),
            answer(4, 0),
            text(4, "again"),
            question(5, None, "edited"),
        ])
    }

    #[test]
    fn the_head_is_the_way_that_is_shown() {
        let mut tree = branched();
        assert_eq!((path(&tree), tree.siblings(5)), (vec![5], vec![0, 5]));
        assert_eq!((tree.siblings(1), tree.siblings(3), tree.next_id()), (vec![1, 4], vec![3], 6));
        assert_eq!((tree.newest(Some(1)), tree.newest(Some(0)), tree.newest(None)), (Some(3), Some(4), Some(5)));
        tree.apply(&Record::Head(Some(3)));
        assert_eq!(path(&tree), [0, 1, 2, 3]);
        tree.apply(&Record::Head(Some(77)));
        assert_eq!(path(&tree), [0, 1, 2, 3]);
        tree.apply(&Record::Head(None));
        assert_eq!(path(&tree), [0; 0]);
    }

    #[test]
    fn what_is_deleted_takes_what_follows_and_comes_back() {
        let mut tree = branched();
        tree.apply(&Record::Head(Some(3)));
        tree.apply(&Record::Delete(1));
        // The other answer is shown in its place.
        assert_eq!((path(&tree), tree.siblings(4)), (vec![0, 4], vec![4]));
        assert_eq!(tree.visible().map(|message| message.id).collect::<Vec<_>>(), [0, 4, 5]);
        assert!(!tree.is_visible(3) && tree.is_visible(4) && !tree.is_visible(99));
        tree.apply(&Record::Head(Some(3)));
        assert_eq!(path(&tree), [0, 4], "no way leads to what was deleted");
        tree.apply(&Record::Restore(1));
        assert_eq!(path(&tree), [0, 1, 2, 3]);
        // What stands elsewhere moves nobody.
        tree.apply(&Record::Delete(5));
        assert_eq!(path(&tree), [0, 1, 2, 3]);
        assert!(!tree.is_emptied());
        for id in [0, 1] {
            tree.apply(&Record::Delete(id));
        }
        assert_eq!((path(&tree), tree.is_emptied(), tree.newest_deleted()), (vec![], true, Some(5)));
        tree.apply(&Record::Restore(5));
        assert_eq!((path(&tree), tree.is_emptied(), tree.newest_deleted()), (vec![5], false, Some(0)));
    }

    #[test]
    fn a_message_whose_parent_was_lost_follows_what_came_before() {
        let tree = tree(&[question(0, None, "one"), question(9, Some(8), "nine"), question(9, None, "another nine")]);
        assert_eq!(path(&tree), [0, 9]);
        assert_eq!(tree.path()[1].text, "nine");
    }

    #[test]
    fn an_answer_grows_and_goes_on() {
        let moved = Record::Lane { id: 1, lane: "cpu".into(), emulated: false, why: Some("full".into()) };
        let tree = tree(&[
            question(0, None, "one"),
            answer(1, 0),
            Record::Lane { id: 1, lane: "npu".into(), emulated: true, why: None },
            thought(1, "hm", 40_000),
            token(1, "a", 8_000),
            moved,
            text(1, "b"),
            text(1, ""),
            text(1, "b"),
            text(0, "no answer"),
            text(7, "nobody"),
            token(7, "nobody", 1),
            end(1, "length"),
            Record::Continue { id: 1 },
            token(1, "c", 30_000),
            token(1, "", 9_000),
        ]);
        let message = tree.message(1).unwrap();
        let answer = message.answer.as_ref().unwrap();
        assert_eq!((message.text.as_str(), answer.thinking.as_str(), &answer.end), ("abbc", "hm", &None));
        assert_eq!((answer.lane(), answer.is_emulated()), (Some("cpu"), false));
        let token = |ms, thinks, first| Made::Token { took: Duration::from_millis(ms), thinks, first };
        let lane = |lane: &str, emulated, why: Option<&str>| Made::Lane {
            lane: lane.into(),
            emulated,
            why: why.map(str::to_owned),
        };
        let pieces: Vec<_> = message.pieces().map(|piece| (piece.made.clone(), piece.text, piece.thinking)).collect();
        let expected = [
            (lane("npu", true, None), "", ""),
            (token(40, true, true), "", "hm"),
            (token(8, false, false), "a", ""),
            (lane("cpu", false, Some("full")), "", ""),
            (Made::Text, "bb", ""),
            (Made::GoesOn, "", ""),
            (token(30, false, true), "c", ""),
            (token(9, false, false), "", ""),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(tree.message(0).unwrap().text, "one");
    }

    #[test]
    fn titles() {
        let title = |text: &str| tree(&[question(0, None, text)]).title();
        assert_eq!(title("\n  What is it?\nMore").as_deref(), Some("What is it?"));
        assert_eq!(title(" \n"), None);
        let long = "word ".repeat(30);
        assert_eq!(title(&long).unwrap(), format!("{}...", "word ".repeat(12).trim_end()));
        assert_eq!(title(&"語".repeat(80)).unwrap().chars().count(), TITLE + 3);
        let named = tree(&[question(0, None, "x"), Record::Title("Rivers".into())]);
        assert_eq!(named.title().as_deref(), Some("Rivers"));
        assert_eq!(Tree::default().title(), None);
    }

    #[test]
    fn records_make_the_same_tree() {
        let mut whole = branched();
        whole.apply(&Record::Title("Name".into()));
        whole.apply(&Record::System(Some("Be brief.".into())));
        whole.apply(&Record::Set([("top-k".into(), "3".into())].into()));
        whole.apply(&Record::Lane { id: 3, lane: "cpu".into(), emulated: false, why: Some("full".into()) });
        whole.apply(&text(3, " more"));
        whole.apply(&token(3, " and more", 5_000));
        whole.apply(&Record::Continue { id: 3 });
        whole.apply(&Record::Delete(4));
        whole.apply(&Record::Head(Some(3)));
        assert_eq!(tree(&whole.records()), whole);
        assert_eq!(tree(&Tree::default().records()), Tree::default());
    }
}
