//! Which sequence lies in which row of a shared cache. Rows that one pass is about must lie side by side at the front, so
//! sequences change places; room for more of them, or for longer ones, is made when it is needed.
//!
//! Pure: what must be moved is said, and the decoder moves it.

/// Room for so many tokens is made at first; it doubles when it is full. A short chat does not pay for a long context's
/// memory.
const FIRST_CAPACITY: usize = 1024;

/// More sequences in one pass than these make it hardly faster for all of them (measured: ARCHITECTURE.md).
pub const MOST_SLOTS: usize = 16;

/// The sequences of a decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    /// Where each slot's keys and values are, or will be: each row once. Not all rows need to be there.
    rows: Vec<usize>,
    /// Tokens of each slot.
    lengths: Vec<usize>,
    /// The longest sequence, in tokens.
    context: usize,
    /// Tokens that there is memory for, in all rows together.
    budget: usize,
}

/// A cache that is made anew: rows and the tokens of each, and which old row's tokens come into each of the first rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub rows: usize,
    pub capacity: usize,
    pub kept: Vec<(usize, usize)>,
}

/// Two rows that exchange their first tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    pub one: usize,
    pub other: usize,
    pub tokens: usize,
}

impl Slots {
    /// `budget` tokens in all rows, but at least one row of a whole context.
    pub fn new(count: usize, context: usize, budget: usize) -> Self {
        Self { rows: (0..count).collect(), lengths: vec![0; count], context, budget: budget.max(context) }
    }

    /// How many sequences of up to so many tokens there is room for.
    pub fn fitting(&self, tokens: usize) -> usize {
        (self.budget / self.capacity(tokens).max(1)).clamp(1, self.rows.len())
    }

    pub fn row(&self, slot: usize) -> usize {
        self.rows[slot]
    }

    pub fn length(&self, slot: usize) -> usize {
        self.lengths[slot]
    }

    pub fn set_length(&mut self, slot: usize, length: usize) {
        self.lengths[slot] = length;
    }

    /// The length of a row that holds so many tokens.
    fn capacity(&self, tokens: usize) -> usize {
        tokens.next_power_of_two().max(FIRST_CAPACITY).min(self.context)
    }

    /// What a cache of `rows` rows of `capacity` tokens must become so that these slots can have `total` tokens each; `None`
    /// where it has the room. Slots without tokens give their rows to others.
    pub fn make_room(&mut self, slots: &[usize], total: usize, rows: usize, capacity: usize) -> Option<Layout> {
        for slot in slots {
            if self.rows[*slot] >= rows {
                let empty =
                    |other: &usize| self.rows[*other] < rows && self.lengths[*other] == 0 && !slots.contains(other);
                if let Some(other) = (0..self.rows.len()).find(empty) {
                    self.rows.swap(*slot, other);
                }
            }
        }
        let missing = slots.iter().filter(|slot| self.rows[**slot] >= rows).count();
        if missing == 0 && total <= capacity {
            return None;
        }
        let held = |slot: &usize| self.lengths[*slot] > 0 || slots.contains(slot);
        let mut order: Vec<usize> = (0..self.rows.len()).filter(held).collect();
        let longest = order.iter().map(|slot| self.lengths[*slot]).max().unwrap_or(0).max(total);
        let needed = self.capacity(longest);
        // As long as the rows are, unless there would be too many of them.
        let capacity = if missing > 0 && capacity * order.len() > self.budget { needed } else { needed.max(capacity) };
        // Doubled, so that a row that comes is not copied for each one that comes behind it.
        let most = (self.budget / capacity.max(1)).clamp(order.len(), self.rows.len().max(order.len()));
        let rows = if missing > 0 { order.len().next_power_of_two().max(rows) } else { rows }.min(most);
        order.sort_by_key(|slot| self.rows[*slot]);
        let kept = order.iter().map(|slot| (self.rows[*slot], self.lengths[*slot])).collect();
        let rest = (0..self.rows.len()).filter(|slot| !order.contains(slot)).collect::<Vec<_>>();
        for (row, slot) in order.into_iter().chain(rest).enumerate() {
            self.rows[slot] = row;
        }
        Some(Layout { rows, capacity, kept })
    }

    /// Moves these slots, which have rows, to the front.
    pub fn gather(&mut self, slots: &[usize]) -> Vec<Swap> {
        let mut swaps = Vec::new();
        for slot in slots {
            if self.rows[*slot] < slots.len() {
                continue;
            }
            let other = (0..self.rows.len()).find(|other| self.rows[*other] < slots.len() && !slots.contains(other));
            let Some(other) = other else { continue };
            swaps.push(Swap {
                one: self.rows[*slot],
                other: self.rows[other],
                tokens: self.lengths[*slot].max(self.lengths[other]),
            });
            self.rows.swap(*slot, other);
        }
        swaps
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_bounds_the_number_of_sequences() {
        let slots = Slots::new(MOST_SLOTS, 8192, 16_384);
        for (tokens, expected) in [(1, 16), (1024, 16), (1025, 8), (2049, 4), (5000, 2), (8192, 2), (100_000, 2)] {
            assert_eq!(slots.fitting(tokens), expected, "{tokens}");
        }
        // A whole context fits at any rate, and short contexts are taken as they are.
        assert_eq!(Slots::new(MOST_SLOTS, 8192, 0).fitting(8192), 1);
        assert_eq!(Slots::new(MOST_SLOTS, 512, 1024).fitting(10), 2);
    }

    #[test]
    fn one_sequence_grows_as_if_it_were_alone() {
        let mut slots = Slots::new(MOST_SLOTS, 5000, 0);
        let (mut rows, mut capacity, mut made) = (1, 0, Vec::new());
        for total in 1..=5000 {
            if let Some(layout) = slots.make_room(&[0], total, rows, capacity) {
                (rows, capacity) = (layout.rows, layout.capacity);
                made.push(layout);
            }
            slots.set_length(0, total);
        }
        let layout = |capacity, tokens| Layout { rows: 1, capacity, kept: vec![(0, tokens)] };
        assert_eq!(made, [layout(1024, 0), layout(2048, 1024), layout(4096, 2048), layout(5000, 4096)]);
    }

    #[test]
    fn rows_are_doubled_and_empty_ones_are_taken_first() {
        let mut slots = Slots::new(4, 1024, 4096);
        slots.set_length(0, 10);
        let layout = slots.make_room(&[2], 5, 1, 1024).unwrap();
        assert_eq!(layout, Layout { rows: 2, capacity: 1024, kept: vec![(0, 10), (2, 0)] });
        slots.set_length(2, 5);
        assert_eq!((slots.row(0), slots.row(2)), (0, 1));
        // The first is forgotten: its row is free.
        slots.set_length(0, 0);
        assert_eq!(slots.make_room(&[3], 5, 2, 1024), None);
        assert_eq!(slots.row(3), 0);
    }

    #[test]
    fn sequences_of_a_pass_come_to_the_front() {
        let mut slots = Slots::new(4, 1024, 4096);
        [30, 10, 20, 5].into_iter().enumerate().for_each(|(slot, length)| slots.set_length(slot, length));
        assert_eq!(slots.gather(&[0, 1]), []);
        assert_eq!(slots.gather(&[3, 1]), [Swap { one: 3, other: 0, tokens: 30 }]);
        assert_eq!([0, 1, 2, 3].map(|slot| slots.row(slot)), [3, 1, 2, 0]);
    }

    /// A cache that is only numbers: `token` of `slot` at each place.
    type Rows = Vec<Vec<Option<(usize, usize)>>>;

    proptest! {
        #[test]
        fn no_token_is_lost_and_memory_stays_within_its_budget(
            steps in prop::collection::vec((prop::collection::vec(0..6_usize, 1..4), 0..900_usize, any::<bool>()), 1..60),
        ) {
            let (context, budget) = (4096, 9000);
            let mut slots = Slots::new(6, context, budget);
            let mut cache: Rows = vec![Vec::new()];
            let mut capacity = 0;
            for (mut chosen, more, forget) in steps {
                chosen.sort_unstable();
                chosen.dedup();
                if forget {
                    slots.set_length(chosen[0], 0);
                    continue;
                }
                let lengths: Vec<usize> = chosen.iter().map(|slot| (slots.length(*slot) + more).min(context)).collect();
                let total = lengths.iter().copied().max().unwrap();
                // What the engine sees to.
                let held: Vec<usize> = (0..6).filter(|slot| slots.length(*slot) > 0 || chosen.contains(slot)).collect();
                let longest = held.iter().map(|slot| slots.length(*slot)).max().unwrap().max(total);
                if held.len() > slots.fitting(longest) {
                    held.iter().for_each(|slot| slots.set_length(*slot, 0));
                    continue;
                }
                if let Some(layout) = slots.make_room(&chosen, total, cache.len(), capacity) {
                    prop_assert!(layout.rows * layout.capacity <= budget.max(context));
                    capacity = layout.capacity;
                    let mut new: Rows = vec![vec![None; capacity]; layout.rows];
                    for (to, (from, tokens)) in layout.kept.iter().enumerate() {
                        if *tokens > 0 {
                            new[to][..*tokens].copy_from_slice(&cache[*from][..*tokens]);
                        }
                    }
                    cache = new;
                }
                for Swap { one, other, tokens } in slots.gather(&chosen) {
                    let (first, second) = (cache[one][..tokens].to_vec(), cache[other][..tokens].to_vec());
                    cache[one][..tokens].copy_from_slice(&second);
                    cache[other][..tokens].copy_from_slice(&first);
                }
                prop_assert!(chosen.iter().all(|slot| slots.row(*slot) < chosen.len()));
                for (slot, length) in chosen.into_iter().zip(lengths) {
                    let row = slots.row(slot);
                    let new = slots.length(slot)..length;
                    let run: Vec<_> = new.clone().map(|token| Some((slot, token))).collect();
                    cache[row][new].copy_from_slice(&run);
                    slots.set_length(slot, length);
                }
                for slot in 0..6 {
                    let expected: Vec<_> = (0..slots.length(slot)).map(|token| Some((slot, token))).collect();
                    // A slot without tokens may have no row.
                    let row = cache.get(slots.row(slot)).map_or(&[][..], |row| &row[..expected.len()]);
                    prop_assert_eq!(row, expected);
                }
            }
        }
    }
}
