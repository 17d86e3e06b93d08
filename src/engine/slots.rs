//! Which of a lane's slots a request takes: the one whose conversation it goes on with; else a free one, where what it has
//! in common with another conversation is copied from there; else the one that nobody has used for longest.
//!
//! Pure: what is to be done to the decoder is said, and `generate` does it.

/// The tokens of a lane's decoder, slot by slot.
pub struct Slots {
    list: Vec<Slot>,
    /// Counts what was taken and given back.
    clock: u64,
}

#[derive(Debug, Clone, Default)]
struct Slot {
    /// The tokens whose keys and values it holds.
    cached: Vec<u32>,
    /// What the answer that runs in it may grow to, in tokens; 0 where none does.
    reserved: usize,
    used: u64,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub slot: usize,
    /// Tokens of the request's sequence that need not be run.
    pub reused: usize,
    /// They are in another slot, and are copied.
    pub copied_from: Option<usize>,
    /// Slots whose memory is needed; they hold nothing afterwards.
    pub forgotten: Vec<usize>,
}

/// How many tokens of a sequence need not be run again. At least `shortest` of them are run, where it has so many.
pub fn reusable(cached: &[u32], sequence: &[u32], shortest: usize) -> usize {
    let common = cached.iter().zip(sequence).take_while(|(a, b)| a == b).count();
    common.min(sequence.len().saturating_sub(shortest.max(1)))
}

impl Slots {
    pub fn new(count: usize) -> Self {
        Self { list: vec![Slot::default(); count.max(1)], clock: 0 }
    }

    pub fn cached(&self, slot: usize) -> &[u32] {
        &self.list[slot].cached
    }

    /// Tokens were run in a slot.
    pub fn extend(&mut self, slot: usize, tokens: &[u32]) {
        self.list[slot].cached.extend_from_slice(tokens);
    }

    pub fn truncate(&mut self, slot: usize, length: usize) {
        self.list[slot].cached.truncate(length);
    }

    /// Finds a place for a request that runs `sequence` and may grow to `longest` tokens. `fitting` says how many sequences
    /// of up to so many tokens there is memory for. `None`: it has to wait until another answer ends.
    pub fn place(
        &self,
        sequence: &[u32],
        longest: usize,
        shortest: usize,
        fitting: &dyn Fn(usize) -> usize,
    ) -> Option<Place> {
        let busy = self.list.iter().filter(|slot| slot.reserved > 0);
        let longest = busy.clone().map(|slot| slot.reserved).max().unwrap_or(0).max(longest);
        let taken = busy.count() + 1;
        if taken > fitting(longest).min(self.list.len()) {
            return None;
        }
        let common = |slot: usize| reusable(&self.list[slot].cached, sequence, shortest);
        let idle = self.idle();
        let held = idle.iter().copied().filter(|slot| !self.list[*slot].cached.is_empty());
        let nearest = held.max_by_key(|slot| common(*slot));
        // Otherwise it shares a beginning with that conversation, such as the same instructions, and is another one.
        let goes_on = |slot: &usize| common(*slot) > 0 && 2 * common(*slot) >= self.list[*slot].cached.len();
        let free = || idle.iter().copied().find(|slot| self.list[*slot].cached.is_empty());
        let mut slot = nearest.filter(goes_on).or_else(free).or_else(|| idle.last().copied())?;

        let mut forgotten = self.crowded_out(slot, taken, longest, fitting);
        let source = (0..self.list.len()).max_by_key(|other| (common(*other), *other == slot)).unwrap_or(slot);
        // What is forgotten anyway need not be copied.
        if let Some(at) = forgotten.iter().position(|other| *other == source) {
            let emptied = std::mem::replace(&mut slot, forgotten.swap_remove(at));
            if !self.list[emptied].cached.is_empty() {
                forgotten.push(emptied);
            }
        }
        Some(Place { slot, reused: common(source), copied_from: (source != slot).then_some(source), forgotten })
    }

    /// Slots that nobody's answer runs in, the one that was used last first.
    fn idle(&self) -> Vec<usize> {
        let mut idle: Vec<usize> = (0..self.list.len()).filter(|slot| self.list[*slot].reserved == 0).collect();
        idle.sort_by_key(|slot| std::cmp::Reverse(self.list[*slot].used));
        idle
    }

    /// Conversations that there is no memory for beside so many answers of up to `longest` tokens. `slot` is one of these.
    fn crowded_out(
        &self,
        slot: usize,
        mut taken: usize,
        mut longest: usize,
        fitting: &dyn Fn(usize) -> usize,
    ) -> Vec<usize> {
        let mut forgotten = Vec::new();
        for other in self.idle().into_iter().filter(|other| *other != slot) {
            let length = self.list[other].cached.len();
            if length > 0 && taken < fitting(length.max(longest)) {
                (taken, longest) = (taken + 1, length.max(longest));
            } else if length > 0 {
                forgotten.push(other);
            }
        }
        forgotten
    }

    /// Lets an answer grow to so many tokens, and says which slots are forgotten for it; `None` where other answers are in
    /// its way.
    pub fn grow(&mut self, slot: usize, longest: usize, fitting: &dyn Fn(usize) -> usize) -> Option<Vec<usize>> {
        let busy = self.list.iter().filter(|slot| slot.reserved > 0);
        let most = busy.clone().map(|slot| slot.reserved).max().unwrap_or(0).max(longest);
        let taken = busy.count();
        if taken > fitting(most) {
            return None;
        }
        let forgotten = self.crowded_out(slot, taken, most, fitting);
        forgotten.iter().for_each(|other| self.list[*other].cached.clear());
        self.list[slot].reserved = longest;
        Some(forgotten)
    }

    /// What the answer in a slot may grow to, in tokens.
    pub fn reserved(&self, slot: usize) -> usize {
        self.list[slot].reserved
    }

    /// An answer begins in this place, and may grow to so many tokens.
    pub fn take(&mut self, place: &Place, longest: usize) {
        for slot in &place.forgotten {
            self.list[*slot].cached.clear();
        }
        if let Some(from) = place.copied_from {
            self.list[place.slot].cached = self.list[from].cached[..place.reused].to_vec();
        }
        self.clock += 1;
        let slot = &mut self.list[place.slot];
        slot.cached.truncate(place.reused);
        (slot.reserved, slot.used) = (longest.max(1), self.clock);
    }

    /// An answer ended. Its tokens stay until their memory is needed.
    pub fn give_back(&mut self, slot: usize) {
        self.clock += 1;
        (self.list[slot].reserved, self.list[slot].used) = (0, self.clock);
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// 64 tokens of memory, in rows of 16, 32 or 64.
    fn fitting(tokens: usize) -> usize {
        64 / tokens.next_power_of_two().max(16)
    }

    /// Slots with these texts, the first one used last; with `*` an answer of up to 16 tokens runs in it.
    fn slots(texts: [&str; 4]) -> Slots {
        let mut slots = Slots::new(4);
        for (index, text) in texts.into_iter().enumerate() {
            let cached = text.trim_start_matches('*').bytes().map(u32::from).collect();
            let reserved = if text.starts_with('*') { 16 } else { 0 };
            slots.list[index] = Slot { cached, reserved, used: 10 - index as u64 };
        }
        slots
    }

    fn place(slot: usize, reused: usize, copied_from: Option<usize>, forgotten: &[usize]) -> Option<Place> {
        Some(Place { slot, reused, copied_from, forgotten: forgotten.to_vec() })
    }

    #[test]
    fn a_request_finds_its_place() {
        for (what, texts, prompt, longest, expected) in [
            ("the first one", ["", "", "", ""], "hello", 16, place(0, 0, None, &[])),
            ("its own conversation", ["abcdef", "hello", "help", ""], "hello you", 16, place(1, 5, None, &[])),
            ("the same prompt again runs two tokens", ["hello", "", "", ""], "hello", 16, place(0, 3, None, &[])),
            ("another one has a free slot", ["hello", "", "", ""], "world", 16, place(1, 0, None, &[])),
            ("and copies what it shares", ["system: one", "", "", ""], "system: xx", 16, place(0, 8, None, &[])),
            ("of a long one", ["system: one and more", "", "", ""], "system: xx", 16, place(1, 8, Some(0), &[])),
            ("also while that answers", ["*system: one", "", "", ""], "system: xx", 16, place(1, 8, Some(0), &[])),
            ("the oldest goes", ["a", "b", "c", "d"], "xyz", 16, place(3, 0, None, &[])),
            ("but not one that answers", ["a", "b", "c", "*d"], "xyz", 16, place(2, 0, None, &[])),
            (
                "its room may be another's prefix",
                ["system: 12345678", "b", "c", "d"],
                "system: x",
                16,
                place(3, 7, Some(0), &[]),
            ),
            ("long ones take the memory of others", ["a", "b", "c", ""], "xyz", 20, place(3, 0, None, &[1, 2])),
            ("a whole context's of all", ["a", "b", "c", ""], "xyz", 64, place(3, 0, None, &[0, 1, 2])),
            (
                "what is forgotten is not copied",
                ["a", "system: 123456789", "", ""],
                "system: x",
                64,
                place(1, 7, None, &[0]),
            ),
            ("too many wait", ["*a", "*b", "*c", "*d"], "xyz", 16, None),
            ("too long ones wait", ["*a", "*b", "", ""], "xyz", 40, None),
            ("or find room", ["*a", "", "", ""], "xyz", 20, place(1, 0, None, &[])),
        ] {
            let sequence: Vec<u32> = prompt.bytes().map(u32::from).collect();
            assert_eq!(slots(texts).place(&sequence, longest, 2, &fitting), expected, "{what}");
        }
    }

    #[test]
    fn one_slot_is_everybody_s() {
        let mut slots = Slots::new(1);
        let first = slots.place(&[1, 2, 3], 10, 1, &|_| 1).unwrap();
        slots.take(&first, 10);
        slots.extend(0, &[1, 2, 3]);
        assert_eq!(slots.place(&[1, 2, 9], 10, 1, &|_| 1), None);
        slots.give_back(0);
        assert_eq!(slots.place(&[1, 2, 9], 10, 1, &|_| 1), place(0, 2, None, &[]));
        assert_eq!(slots.place(&[7], 10, 1, &|_| 1), place(0, 0, None, &[]));
    }

    #[test]
    fn who_used_a_slot_last_keeps_it_longest() {
        let mut slots = Slots::new(2);
        let four = |_| 4;
        for prompt in [[1, 1, 1], [2, 2, 2]] {
            let place = slots.place(&prompt, 4, 1, &four).unwrap();
            slots.take(&place, 4);
            slots.extend(place.slot, &prompt);
            slots.give_back(place.slot);
        }
        // The first goes on, so the second is the one that goes.
        let again = slots.place(&[1, 1, 1, 1], 4, 1, &four).unwrap();
        assert_eq!((again.slot, again.reused), (0, 3));
        slots.take(&again, 4);
        slots.give_back(0);
        assert_eq!(slots.place(&[3, 3, 3], 4, 1, &four).unwrap().slot, 1);
    }
}
