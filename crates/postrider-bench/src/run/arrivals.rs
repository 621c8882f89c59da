//! What arrived: what is missing, what came twice, what came before an earlier one of its key.

use std::collections::HashMap;

use super::event::{Events, scan};

pub(crate) struct Arrivals {
    events: Events,
    /// When event `i` was first seen, in microseconds; `None` until then.
    first_seen: Vec<Option<u64>>,
    /// The latest number of each key so far.
    latest: HashMap<Vec<u8>, u64>,
    pub(crate) messages: u64,
    pub(crate) distinct: u64,
    pub(crate) inverted: u64,
    /// Messages whose key in Kafka is not that of the event.
    pub(crate) wrong_keys: u64,
    /// Messages that are no events of this run.
    pub(crate) foreign: u64,
}

impl Arrivals {
    pub(crate) fn new(events: Events) -> Self {
        Self {
            events,
            first_seen: Vec::new(),
            latest: HashMap::new(),
            messages: 0,
            distinct: 0,
            inverted: 0,
            wrong_keys: 0,
            foreign: 0,
        }
    }

    /// A message, in the order of its partition.
    pub(crate) fn note(&mut self, key: Option<&[u8]>, payload: &[u8], at_micros: u64) {
        self.messages += 1;
        let known = scan(payload).filter(|event| {
            // An index that no run reaches must not make the list as long.
            event.i < 1 << 32 && self.events.number(event.i) == event.number
        });
        let Some(event) = known else {
            self.foreign += 1;
            return;
        };
        self.wrong_keys += u64::from(key != Some(event.key));
        let at = event.i as usize;
        if self.first_seen.len() <= at {
            self.first_seen.resize(at + 1, None);
        }
        if self.first_seen[at].is_some() {
            return;
        }
        self.first_seen[at] = Some(at_micros);
        self.distinct += 1;
        match self.latest.get_mut(event.key) {
            Some(latest) if event.number < *latest => self.inverted += 1,
            Some(latest) => *latest = event.number,
            None => {
                self.latest.insert(event.key.to_vec(), event.number);
            }
        }
    }

    pub(crate) fn seen_at(&self, i: u64) -> Option<u64> {
        self.first_seen.get(i as usize).copied().flatten()
    }

    pub(crate) fn duplicates(&self) -> u64 {
        self.messages - self.foreign - self.distinct
    }

    /// When each event was first seen, the earliest first.
    pub(crate) fn times(&self) -> Vec<u64> {
        let mut times: Vec<u64> = self.first_seen.iter().copied().flatten().collect();
        times.sort_unstable();
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: Events = Events { keys: 2 };

    fn arrivals(order: &[u64]) -> Arrivals {
        let mut arrivals = Arrivals::new(EVENTS);
        for (at, i) in order.iter().enumerate() {
            let key = EVENTS.key(*i);
            let payload = EVENTS.payload(*i);
            arrivals.note(Some(key.as_bytes()), payload.as_bytes(), at as u64);
        }
        arrivals
    }

    #[test]
    fn keys_may_overtake_each_other() {
        let arrivals = arrivals(&[1, 3, 0, 5, 2, 4]);
        assert_eq!((arrivals.distinct, arrivals.inverted), (6, 0));
        assert_eq!((arrivals.duplicates(), arrivals.wrong_keys), (0, 0));
        assert_eq!(arrivals.seen_at(0), Some(2));
        assert_eq!(arrivals.times(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_later_one_before_an_earlier_one_is_inverted() {
        assert_eq!(arrivals(&[0, 4, 2]).inverted, 1);
        assert_eq!(arrivals(&[4, 2, 0]).inverted, 2);
    }

    #[test]
    fn what_comes_again_is_a_duplicate_and_inverts_nothing() {
        let arrivals = arrivals(&[0, 2, 0, 2, 4]);
        assert_eq!((arrivals.duplicates(), arrivals.inverted), (2, 0));
        assert_eq!((arrivals.distinct, arrivals.seen_at(6)), (3, None));
    }

    #[test]
    fn wrong_keys_and_strangers_are_counted() {
        let mut arrivals = Arrivals::new(EVENTS);
        arrivals.note(None, EVENTS.payload(0).as_bytes(), 0);
        arrivals.note(Some(b"key-00000"), b"{}", 0);
        let far = r#"{"k": "key-00000", "n": 5000000001, "i": 10000000000}"#;
        arrivals.note(Some(b"key-00000"), far.as_bytes(), 0);
        assert_eq!((arrivals.wrong_keys, arrivals.foreign), (1, 2));
        assert_eq!((arrivals.distinct, arrivals.duplicates()), (1, 0));
    }
}
