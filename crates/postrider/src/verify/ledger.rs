//! The published records of a range, and where each of them was met on the broker. Pure.

use std::collections::BTreeMap;

use super::NAMED_MAX;

/// One record. Its size is what a record of the range costs in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u128,
    /// 0 where there is no key, or no order is kept.
    key: u64,
    /// Where the broker has it first, in the place where it was first met.
    pub(super) offset: i64,
    /// Its number in the outbox's order.
    pub(super) rank: u32,
    pub(super) place: u32,
    /// How often it was met, replays left out.
    pub(super) times: u16,
    replayed: bool,
}

/// Not met.
const NOWHERE: u32 = u32::MAX;

/// All entries. Filled in the outbox's order, then sealed, then told what the broker has.
#[derive(Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
    missing: u64,
}

/// How many, and the first of them in the outbox's order.
#[derive(Debug)]
pub(super) struct Picked<T> {
    pub(super) count: u64,
    pub(super) first: BTreeMap<u32, T>,
}

/// A later record of a key that came before an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inversion {
    pub(super) entry: Entry,
    pub(super) overtaken: Entry,
}

impl Ledger {
    pub(super) fn with_capacity(records: usize) -> Self {
        Self {
            entries: Vec::with_capacity(records),
            missing: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The next record in the outbox's order; key 0 is none.
    pub(super) fn push(&mut self, id: u128, key: u64) {
        self.entries.push(Entry {
            id,
            key,
            offset: 0,
            rank: u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
            place: NOWHERE,
            times: 0,
            replayed: false,
        });
    }

    /// From now on entries are found by their id.
    pub(super) fn seal(&mut self) {
        self.entries.sort_unstable_by_key(|entry| entry.id);
        self.missing = self.entries.len() as u64;
    }

    /// A message was met. Whether it is of one of these records.
    pub(super) fn meet(&mut self, id: u128, place: u32, offset: i64, replayed: bool) -> bool {
        let Ok(index) = self.entries.binary_search_by_key(&id, |entry| entry.id) else {
            return false;
        };
        let entry = &mut self.entries[index];
        if entry.is_missing() {
            self.missing -= 1;
        }
        if replayed {
            entry.replayed = true;
            return true;
        }
        entry.times = entry.times.saturating_add(1);
        if entry.place == NOWHERE {
            (entry.place, entry.offset) = (place, offset);
        } else if entry.place == place {
            entry.offset = entry.offset.min(offset);
        }
        true
    }

    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Records that the broker does not have.
    pub(super) fn lost(&self) -> Picked<Entry> {
        self.pick(Entry::is_missing)
    }

    /// Records that the broker has more than once.
    pub(super) fn duplicated(&self) -> Picked<Entry> {
        self.pick(|entry| entry.times > 1)
    }

    /// Records that the broker has before an earlier one of their key, by where each was met first. Only messages of
    /// one partition have an order. Entries are not found by their id after this.
    pub(super) fn inverted(&mut self) -> Picked<Inversion> {
        self.entries
            .sort_unstable_by_key(|entry| (entry.key, entry.place, entry.rank));
        let mut inverted = Picked::default();
        let same_partition = |a: &Entry, b: &Entry| (a.key, a.place) == (b.key, b.place);
        for run in self.entries.chunk_by(same_partition) {
            if !run[0].is_ordered() {
                continue;
            }
            let mut furthest = run[0];
            for entry in run {
                if entry.offset < furthest.offset {
                    let inversion = Inversion {
                        entry: *entry,
                        overtaken: furthest,
                    };
                    inverted.add(entry.rank, inversion);
                } else {
                    furthest = *entry;
                }
            }
        }
        inverted
    }

    fn pick(&self, wanted: impl Fn(&Entry) -> bool) -> Picked<Entry> {
        let mut picked = Picked::default();
        for entry in self.entries.iter().filter(|entry| wanted(entry)) {
            picked.add(entry.rank, *entry);
        }
        picked
    }
}

impl Entry {
    fn is_missing(&self) -> bool {
        self.times == 0 && !self.replayed
    }

    fn is_ordered(&self) -> bool {
        self.key != 0 && self.place != NOWHERE
    }
}

impl<T> Default for Picked<T> {
    fn default() -> Self {
        Self {
            count: 0,
            first: BTreeMap::new(),
        }
    }
}

impl<T> Picked<T> {
    fn add(&mut self, rank: u32, item: T) {
        self.count += 1;
        self.first.insert(rank, item);
        if self.first.len() > NAMED_MAX {
            self.first.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u32 = 0;
    const THERE: u32 = 1;

    /// Records 1, 2, 3 … with these keys.
    fn ledger(keys: &[u64]) -> Ledger {
        let mut ledger = Ledger::with_capacity(keys.len());
        for (id, key) in (1..).zip(keys) {
            ledger.push(id, *key);
        }
        ledger.seal();
        ledger
    }

    /// Meets these ids one after the other in one place.
    fn meet_all(ledger: &mut Ledger, ids: &[u128]) {
        for (offset, id) in (0..).zip(ids) {
            assert!(ledger.meet(*id, HERE, offset, false));
        }
    }

    fn ids(picked: &Picked<Entry>) -> Vec<u128> {
        picked.first.values().map(|entry| entry.id).collect()
    }

    fn inversions(ledger: &mut Ledger) -> Vec<(u128, u128)> {
        let inverted = ledger.inverted();
        let pairs = inverted.first.values();
        pairs.map(|it| (it.entry.id, it.overtaken.id)).collect()
    }

    #[test]
    fn what_is_not_met_is_lost_and_what_is_met_twice_is_duplicated() {
        let mut ledger = ledger(&[7, 7, 7, 7]);
        meet_all(&mut ledger, &[1, 2, 2, 4]);
        assert!(!ledger.meet(9, HERE, 9, false), "not of the range");
        assert_eq!(ledger.missing(), 1);
        assert_eq!(ids(&ledger.lost()), [3]);
        assert_eq!(ids(&ledger.duplicated()), [2]);
        assert_eq!(inversions(&mut ledger), []);
    }

    #[test]
    fn a_replay_is_no_duplicate_and_makes_up_for_a_loss() {
        let mut ledger = ledger(&[7, 7]);
        meet_all(&mut ledger, &[1]);
        for id in [1, 2, 2] {
            ledger.meet(id, HERE, 5, true);
        }
        assert_eq!((ledger.lost().count, ledger.duplicated().count), (0, 0));
    }

    #[test]
    fn who_overtakes_an_earlier_record_of_its_key_is_named() {
        let mut swapped = ledger(&[7, 8, 7, 8]);
        meet_all(&mut swapped, &[3, 2, 1, 4]);
        assert_eq!(inversions(&mut swapped), [(3, 1)]);
    }

    #[test]
    fn a_batch_that_was_sent_twice_inverts_nothing() {
        let mut ledger = ledger(&[7, 7, 7]);
        meet_all(&mut ledger, &[1, 2, 1, 2, 3]);
        assert_eq!(ledger.duplicated().count, 2);
        assert_eq!(inversions(&mut ledger), []);
    }

    #[test]
    fn other_keys_other_partitions_and_no_key_have_no_order() {
        let mut ledger = ledger(&[7, 7, 8, 0, 0]);
        ledger.meet(2, THERE, 0, false);
        ledger.meet(1, HERE, 9, false);
        for (id, offset) in [(3, 0), (5, 1), (4, 2)] {
            ledger.meet(id, HERE, offset, false);
        }
        assert_eq!(inversions(&mut ledger), []);
    }

    #[test]
    fn the_first_in_the_outboxs_order_are_named_and_all_are_counted() {
        let mut keys = [7; 100];
        keys[0] = 1;
        let mut ledger = ledger(&keys);
        meet_all(&mut ledger, &[2]);
        let lost = ledger.lost();
        assert_eq!((lost.count, ledger.missing()), (99, 99));
        assert_eq!(ids(&lost), [1, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn a_record_costs_48_bytes() {
        assert_eq!(size_of::<Entry>(), 48);
    }
}
