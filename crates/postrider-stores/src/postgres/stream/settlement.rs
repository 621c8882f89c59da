//! What is to be written of a claim, decided without a database.

use std::time::Duration;

use postrider_core::Fate;

use super::gather::{Gathered, Part};
use super::progress::Progress;
use super::read::position;

/// While nothing is published, the stream is saved anew only when a read would wade through more positions than this.
const SLACK: i64 = 500;

#[derive(Debug, Default)]
pub(super) struct Settlement<'a> {
    pub(super) advances: Vec<Advance<'a>>,
    /// Records of the outbox that are kept aside from now on.
    pub(super) copies: Vec<Trouble<'a>>,
    /// Records that were kept aside and failed again.
    pub(super) failed_again: Vec<Trouble<'a>>,
    /// Positions of records that were kept aside and are published.
    pub(super) forget: Vec<i64>,
    /// Whether there may be more to read at once.
    pub(super) moves: bool,
}

/// How far a group's stream was read.
#[derive(Debug)]
pub(super) struct Advance<'a> {
    pub(super) progress: &'a Progress,
    pub(super) to: Reached,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// The end of the difference.
    End,
    /// A position within it.
    Position(i64),
}

#[derive(Debug, PartialEq)]
pub(super) struct Trouble<'a> {
    pub(super) position: i64,
    pub(super) attempts: u32,
    pub(super) error: Option<&'a str>,
    pub(super) wait: Duration,
    pub(super) dead: bool,
}

impl<'a> Settlement<'a> {
    /// `fates` belong to the gathered records one by one. `drawn` is the last position that was drawn.
    pub(super) fn new(gathered: &'a Gathered, fates: &'a [Fate], drawn: i64) -> Self {
        let mut settlement = Self::default();
        for part in &gathered.parts {
            settlement.advance(part, fates, drawn);
        }
        let troubled = gathered.is_troubled.iter().zip(&gathered.records);
        for ((_, record), fate) in troubled.zip(fates).filter(|((troubled, _), _)| **troubled) {
            match fate {
                Fate::Published => settlement.forget.push(position(record)),
                Fate::Released => {}
                Fate::Retry { .. } | Fate::Dead { .. } => settlement
                    .failed_again
                    .push(Trouble::new(position(record), Some(fate))),
            }
        }
        settlement
    }

    pub(super) fn is_empty(&self) -> bool {
        self.advances.is_empty()
            && self.copies.is_empty()
            && self.failed_again.is_empty()
            && self.forget.is_empty()
    }

    /// Whether losing the commit in a crash of the server would lose more than time.
    pub(super) fn is_grave(&self) -> bool {
        !self.copies.is_empty() || !self.failed_again.is_empty()
    }

    fn advance(&mut self, part: &'a Part, fates: &'a [Fate], drawn: i64) {
        let fate = |given: Option<usize>| given.and_then(|given| fates.get(given));
        let is_released = |given| matches!(fate(given), Some(Fate::Released));
        let entries = &part.entries;
        // Records that were let go stay in the stream. But what was published after them must not be read again, so
        // those among others are kept aside, to be tried from there at once.
        let last_settled = entries
            .iter()
            .rposition(|entry| entry.given.is_some() && !is_released(entry.given));
        let tail_released = entries[last_settled.map_or(0, |last| last + 1)..]
            .iter()
            .any(|entry| is_released(entry.given));
        let end = match (tail_released, last_settled) {
            (false, _) => entries.len(),
            (true, Some(last)) => last + 1,
            (true, None) => return,
        };
        for entry in &entries[..end] {
            match fate(entry.given) {
                Some(Fate::Published) => {}
                other => self.copies.push(Trouble::new(entry.position, other)),
            }
        }
        let progress = &part.progress;
        let to = match entries[..end].last() {
            _ if end == entries.len() && !part.more => Reached::End,
            Some(last) => Reached::Position(last.position),
            // Records of other groups came first.
            None => return,
        };
        let stale = drawn.saturating_sub(progress.from_low) > SLACK;
        if entries.is_empty() && progress.fresh && !stale {
            return;
        }
        self.moves |= !entries.is_empty() || !progress.fresh;
        self.advances.push(Advance { progress, to });
    }
}

impl<'a> Trouble<'a> {
    /// Without a fate of its own it waits behind another, or was let go.
    fn new(position: i64, fate: Option<&'a Fate>) -> Self {
        let (attempts, error, wait, dead) = match fate {
            Some(Fate::Retry {
                attempts,
                after,
                error,
            }) => (*attempts, Some(error.as_str()), *after, false),
            Some(Fate::Dead { attempts, error }) => {
                (*attempts, Some(error.as_str()), Duration::ZERO, true)
            }
            Some(Fate::Published | Fate::Released) | None => (0, None, Duration::ZERO, false),
        };
        Self {
            position,
            attempts,
            error,
            wait,
            dead,
        }
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::{Record, RecordId};

    use super::*;
    use crate::postgres::stream::gather::gather;
    use crate::postgres::stream::read::Chunk;

    fn record(position: i64, key: &str) -> Record {
        Record {
            key: Some(key.to_owned().into()),
            ..Record::bare(RecordId::Int(position), position.to_string().into())
        }
    }

    fn progress(group: i32) -> Progress {
        Progress {
            group,
            version: 1,
            epoch: 0,
            position: 0,
            from: "3:3:".parse().unwrap(),
            from_low: 0,
            to: "9:9:".parse().unwrap(),
            to_low: 0,
            to_high: 100,
            fresh: true,
            is_ahead: false,
            system: None,
            timeline: "1".into(),
        }
    }

    fn chunk(group: i32, positions: &[i64], more: bool) -> (Progress, Chunk) {
        let chunk = Chunk {
            records: positions
                .iter()
                .map(|position| record(*position, &format!("k{position}")))
                .collect(),
            more,
        };
        (progress(group), chunk)
    }

    const RETRY: Fate = Fate::Retry {
        attempts: 1,
        after: Duration::ZERO,
        error: String::new(),
    };

    /// What is reached per group, and the positions that are copied.
    fn outcome(gathered: &Gathered, fates: &[Fate]) -> (Vec<(i32, Reached)>, Vec<i64>) {
        let settlement = Settlement::new(gathered, fates, 0);
        let advances = settlement.advances.iter();
        (
            advances
                .map(|advance| (advance.progress.group, advance.to))
                .collect(),
            settlement.copies.iter().map(|copy| copy.position).collect(),
        )
    }

    #[test]
    fn what_is_let_go_at_the_end_stays_in_the_stream() {
        let gathered = gather(vec![chunk(0, &[1, 2, 3], false)], Vec::new(), &[], 10);
        let fates = [Fate::Published, RETRY, Fate::Released];
        assert_eq!(
            outcome(&gathered, &fates),
            (vec![(0, Reached::Position(2))], vec![2])
        );
    }

    #[test]
    fn what_is_let_go_among_others_is_copied() {
        let gathered = gather(vec![chunk(0, &[1, 2, 3], false)], Vec::new(), &[], 10);
        let fates = [Fate::Published, Fate::Released, Fate::Published];
        assert_eq!(
            outcome(&gathered, &fates),
            (vec![(0, Reached::End)], vec![2])
        );
    }

    #[test]
    fn a_parked_key_is_copied_without_being_published() {
        let chunks = vec![chunk(0, &[1, 2], false)];
        let gathered = gather(chunks, Vec::new(), &["k2".to_owned().into()], 10);
        assert_eq!(gathered.records.len(), 1);
        let fates = [Fate::Published];
        assert_eq!(
            outcome(&gathered, &fates),
            (vec![(0, Reached::End)], vec![2])
        );
        assert_eq!(
            outcome(&gathered, &[Fate::Released]),
            (Vec::new(), Vec::new())
        );
    }

    /// Records of other groups filled the claim: this group has moved nowhere, and is not done.
    #[test]
    fn a_group_that_was_crowded_out_stays_where_it_is() {
        let mut second = chunk(1, &[3, 4], false);
        second.0.fresh = false;
        let gathered = gather(vec![chunk(0, &[1, 2], false), second], Vec::new(), &[], 2);
        let fates = [Fate::Published, Fate::Published];
        assert_eq!(
            outcome(&gathered, &fates),
            (vec![(0, Reached::End)], Vec::new())
        );
    }

    #[test]
    fn a_difference_that_has_more_is_not_done() {
        let gathered = gather(vec![chunk(0, &[1, 2], true)], Vec::new(), &[], 2);
        let fates = [Fate::Published, Fate::Published];
        assert_eq!(
            outcome(&gathered, &fates),
            (vec![(0, Reached::Position(2))], Vec::new())
        );
    }

    #[test]
    fn an_empty_read_is_saved_only_when_much_was_drawn_since() {
        let gathered = gather(vec![chunk(0, &[], false)], Vec::new(), &[], 2);
        assert!(Settlement::new(&gathered, &[], SLACK).is_empty());
        let settlement = Settlement::new(&gathered, &[], SLACK + 1);
        assert!(!settlement.is_empty() && !settlement.moves);
    }
}
