//! What is to be written of a claim, decided without a database.

use std::time::Duration;

use postrider_core::Fate;

use super::gather::{Gathered, Part, position};
use super::progress::Progress;

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
