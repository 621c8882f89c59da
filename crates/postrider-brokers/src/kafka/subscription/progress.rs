//! How far a partition is done with: the one place that decides which offset may be committed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::queue::Ticket;

/// Of one assignment of a partition. What was given out under an earlier one counts in that one's, which nobody
/// commits any more.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    unfinished: BTreeSet<i64>,
    /// Behind the last record that was fetched, once there is one.
    next: Option<i64>,
    committed: Option<i64>,
}

impl Progress {
    /// A record has come. None if it is in flight already.
    pub(super) fn begin(self: &Arc<Self>, offset: i64) -> Option<OffsetTicket> {
        let mut state = self.state();
        if !state.unfinished.insert(offset) {
            return None;
        }
        // Not a maximum: offsets begin anew in a topic that lost its end.
        state.next = Some(offset + 1);
        Some(OffsetTicket {
            progress: Arc::clone(self),
            offset,
        })
    }

    /// Where another member would have to go on: at the lowest record that is not done.
    pub(super) fn position(&self) -> Option<i64> {
        self.state().position()
    }

    /// The position, if it is news to the broker. Counts as committed from then on, until somebody says that it
    /// is not.
    pub(super) fn take_news(&self) -> Option<i64> {
        let mut state = self.state();
        let position = state.position();
        let news = position.filter(|_| position != state.committed);
        state.committed = position;
        news
    }

    pub(super) fn commit_failed(&self) {
        self.state().committed = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Where offsets began anew, what is unfinished may lie beyond the end.
    fn position(&self) -> Option<i64> {
        let unfinished = self.unfinished.first().copied();
        unfinished.into_iter().chain(self.next).min()
    }
}

/// A record in flight.
#[derive(Debug)]
pub(super) struct OffsetTicket {
    progress: Arc<Progress>,
    offset: i64,
}

impl Ticket for OffsetTicket {
    fn acked(self) {
        self.progress.state().unfinished.remove(&self.offset);
    }

    /// The offset stays unfinished, so that nothing behind it is committed.
    fn given_back(self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_never_passes_an_unfinished_record() {
        let progress = Arc::new(Progress::default());
        assert_eq!(progress.position(), None);
        let mut tickets: Vec<_> = [10, 11, 14]
            .iter()
            .filter_map(|offset| progress.begin(*offset))
            .collect();
        tickets.pop().unwrap().acked();
        assert_eq!(progress.position(), Some(10));
        let second = tickets.pop().unwrap();
        tickets.pop().unwrap().acked();
        assert_eq!(progress.position(), Some(11));
        second.given_back();
        assert_eq!(
            progress.position(),
            Some(11),
            "what is given back is not done"
        );
    }

    #[test]
    fn when_all_is_done_the_position_is_behind_the_last_record() {
        let progress = Arc::new(Progress::default());
        progress.begin(7).unwrap().acked();
        assert_eq!(progress.position(), Some(8));
    }

    #[test]
    fn the_position_follows_a_topic_that_lost_its_end() {
        let progress = Arc::new(Progress::default());
        let old = progress.begin(1000).unwrap();
        progress.begin(3).unwrap().acked();
        assert_eq!(progress.position(), Some(4));
        old.acked();
        assert_eq!(progress.position(), Some(4));
    }

    #[test]
    fn a_record_that_is_in_flight_does_not_come_twice() {
        let progress = Arc::new(Progress::default());
        let ticket = progress.begin(7).unwrap();
        assert!(progress.begin(7).is_none());
        ticket.acked();
        assert!(progress.begin(7).is_some(), "done, so it was sent anew");
    }

    #[test]
    fn only_news_are_committed_until_a_commit_fails() {
        let progress = Arc::new(Progress::default());
        assert_eq!(progress.take_news(), None);
        let ticket = progress.begin(7).unwrap();
        assert_eq!(progress.take_news(), Some(7));
        assert_eq!(progress.take_news(), None);
        ticket.acked();
        assert_eq!(progress.take_news(), Some(8));
        progress.commit_failed();
        assert_eq!(progress.take_news(), Some(8));
    }
}
