//! The checker behind every promise about delivery: what was committed against what was published.

use std::collections::{HashMap, HashSet};

/// One event as its writer or the broker's log tells it. Numbers of a key rise in the order in
/// which its events were committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seen {
    pub key: String,
    pub number: i64,
}

/// How a log differs from what was committed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    pub published: usize,
    /// Committed and not in the log.
    pub lost: Vec<Seen>,
    /// In the log and never committed.
    pub invented: Vec<Seen>,
    /// Came for the first time after a later one of its key.
    pub inverted: Vec<Seen>,
    /// Came again.
    pub duplicates: usize,
}

impl Verdict {
    /// Compares. `log` is in the broker's order, at least per key.
    pub fn of(committed: &[Seen], log: &[Seen]) -> Self {
        let truth: HashSet<&Seen> = committed.iter().collect();
        let mut verdict = Self {
            published: log.len(),
            ..Self::default()
        };
        let mut seen: HashSet<&Seen> = HashSet::new();
        let mut highest: HashMap<&str, i64> = HashMap::new();
        for event in log {
            if !truth.contains(event) {
                verdict.invented.push(event.clone());
            }
            if !seen.insert(event) {
                verdict.duplicates += 1;
                continue;
            }
            let highest = highest.entry(&event.key).or_insert(event.number);
            if event.number < *highest {
                verdict.inverted.push(event.clone());
            }
            *highest = event.number.max(*highest);
        }
        verdict.lost = committed
            .iter()
            .filter(|event| !seen.contains(event))
            .cloned()
            .collect();
        verdict
    }

    /// Fails the test unless nothing was lost, invented or inverted. Duplicates are allowed.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(
            self.lost.is_empty() && self.invented.is_empty() && self.inverted.is_empty(),
            "lost {}, invented {}, inverted {} of {} (duplicates {}); first of each: {:?} {:?} {:?}",
            self.lost.len(),
            self.invented.len(),
            self.inverted.len(),
            self.published,
            self.duplicates,
            self.lost.first(),
            self.invented.first(),
            self.inverted.first(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(list: &[(&str, i64)]) -> Vec<Seen> {
        list.iter()
            .map(|(key, number)| Seen {
                key: (*key).into(),
                number: *number,
            })
            .collect()
    }

    #[test]
    fn each_kind_of_damage_is_seen() {
        let committed = events(&[("a", 1), ("a", 2), ("b", 1), ("b", 2)]);
        let log = events(&[("a", 2), ("a", 1), ("b", 1), ("b", 1), ("c", 9)]);
        let verdict = Verdict::of(&committed, &log);
        assert_eq!(verdict.lost, events(&[("b", 2)]));
        assert_eq!(verdict.invented, events(&[("c", 9)]));
        assert_eq!(verdict.inverted, events(&[("a", 1)]));
        assert_eq!(verdict.duplicates, 1);
    }

    #[test]
    fn a_run_repeated_after_a_crash_is_no_inversion() {
        let committed = events(&[("a", 1), ("a", 2), ("a", 3)]);
        let log = events(&[("a", 1), ("a", 2), ("a", 1), ("a", 2), ("a", 3)]);
        let verdict = Verdict::of(&committed, &log);
        verdict.assert_clean();
        assert_eq!(verdict.duplicates, 2);
    }
}
