//! What is to be written of a claim, decided without a database.

use std::time::Duration;

use postrider_core::Fate;

use super::gather::{Gathered, Part};
use super::progress::Progress;
use super::read::position;
use super::team::Team;

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

/// How far a team's stream was read.
#[derive(Debug)]
pub(super) struct Advance<'a> {
    pub(super) team: &'a Team,
    pub(super) to: Reached,
}

impl Advance<'_> {
    /// Each group, and what it has reached.
    pub(super) fn members(&self) -> impl Iterator<Item = (&Progress, Reached)> {
        let members = self.team.members().iter();
        members.map(|progress| (progress, self.to))
    }
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
        let mut unmoved = Vec::new();
        for part in &gathered.parts {
            unmoved.extend(settlement.advance(part, fates, drawn));
        }
        // Nothing is written for them alone. With others it costs nothing, and they go on together from there.
        if !settlement.advances.is_empty() {
            settlement.advances.append(&mut unmoved);
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

    /// Gives back what need not be saved.
    fn advance(&mut self, part: &'a Part, fates: &'a [Fate], drawn: i64) -> Option<Advance<'a>> {
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
            (true, None) => 0,
        };
        for entry in &entries[..end] {
            match fate(entry.given) {
                Some(Fate::Published) => {}
                other => self.copies.push(Trouble::new(entry.position, other)),
            }
        }
        let (team, progress) = (&part.team, part.team.lead());
        let to = match entries[..end].last() {
            _ if end == entries.len() && !part.more => {
                team.upto.map_or(Reached::End, Reached::Position)
            }
            Some(last) => Reached::Position(last.position),
            // All were let go, records of others came first, or the team waits for them.
            None => Reached::Position(part.published_upto?),
        };
        let stale = drawn.saturating_sub(progress.from_low) > SLACK;
        if entries.is_empty() && progress.fresh && !stale {
            return Some(Advance { team, to });
        }
        self.moves |= !entries.is_empty() || !progress.fresh;
        self.advances.push(Advance { team, to });
        None
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
            ..Progress::example()
        }
    }

    fn team(progress: Progress) -> Team {
        Team::form(vec![progress]).0.remove(0)
    }

    fn chunk(group: i32, positions: &[i64], more: bool) -> (Team, Chunk) {
        let chunk = Chunk {
            records: positions
                .iter()
                .map(|position| record(*position, &format!("k{position}")))
                .collect(),
            more,
        };
        (team(progress(group)), chunk)
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
                .map(|advance| (advance.team.lead().group, advance.to))
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
        second.0 = team(Progress {
            fresh: false,
            ..progress(1)
        });
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

    /// So that they stand together from then on.
    #[test]
    fn an_empty_read_is_saved_with_one_that_is_not() {
        let chunks = vec![chunk(0, &[], false), chunk(1, &[2], false)];
        let gathered = gather(chunks, Vec::new(), &[], 2);
        let (reached, _) = outcome(&gathered, &[Fate::Published]);
        assert_eq!(reached, [(1, Reached::End), (0, Reached::End)]);
    }

    /// Then the groups that stand there are read with it.
    #[test]
    fn a_team_that_caught_up_stands_where_the_others_stand() {
        let at = |group, position| Progress {
            position,
            fresh: false,
            ..progress(group)
        };
        let (mut behind, mut ahead) = Team::form(vec![at(0, 5), at(1, 9)]);
        let caught_up = Chunk {
            records: vec![record(6, "k6")],
            more: false,
        };
        let waits = Chunk {
            more: true,
            ..Chunk::default()
        };
        let chunks = vec![(behind.remove(0), caught_up), (ahead.remove(0), waits)];
        let gathered = gather(chunks, Vec::new(), &[], 10);
        assert_eq!(
            outcome(&gathered, &[Fate::Published]),
            (vec![(0, Reached::Position(9))], Vec::new())
        );
    }
}
