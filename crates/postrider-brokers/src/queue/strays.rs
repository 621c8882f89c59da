//! What goes back to the broker, and what must not overtake it.
//!
//! A broker that sends an ordered key's messages without waiting for each acknowledgement has more of them on the way
//! when the first goes back. It sends all of them again, in order; those on the way are strays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::state::{Order, OrderName, Place, State};
use super::{Lot, Ticket};

/// How long strays may be on the way. Also how long a key waits in vain for a message that the broker gave to
/// somebody else or to a dead letter topic.
const STRAYS_MAX: Duration = Duration::from_secs(5);

impl<T: Ticket> State<T> {
    /// Gives back all that wait, and takes what comes of their key for strays until the first is here again.
    pub(super) fn go_back(&mut self, order: &Order) {
        let Some(strand) = self.strands.get_mut(order) else {
            return;
        };
        let leaving = std::mem::take(&mut strand.waiting);
        if let OrderName::Key(..) = **order {
            let first = leaving.front();
            strand.awaited = first.map(|first| first.entry.position.clone());
        }
        for waiting in leaving {
            self.give_back(waiting.entry, waiting.size);
        }
        self.place(order);
    }

    pub(super) fn await_gone(&mut self, now: Instant) {
        let until = now + STRAYS_MAX;
        for order in std::mem::take(&mut self.gone) {
            if let Some(strand) = self.strands.get_mut(&order) {
                strand.place = Place::Resting(until);
                self.resting.insert((until, order));
            }
        }
    }

    /// The first of a key is here again, with the others behind it: its strays are not needed.
    pub(super) fn come_back(&mut self, order: &Order, position: &str) {
        let strand = self.strands.get(order);
        if strand.is_some_and(|strand| strand.awaited.as_deref() == Some(position)) {
            self.await_no_longer(order);
            self.displace(order);
        }
    }

    /// Gives back the strays. If the first went elsewhere, so that they were none, that is one attempt lost.
    pub(super) fn await_no_longer(&mut self, order: &Order) {
        let Some(strand) = self.strands.get_mut(order) else {
            return;
        };
        if strand.awaited.take().is_some() {
            for stray in std::mem::take(&mut strand.waiting) {
                self.give_back(stray.entry, stray.size);
            }
        }
    }

    /// See `Queue::lapse`.
    #[cfg_attr(
        not(any(test, feature = "pubsub")),
        allow(dead_code, reason = "only Pub/Sub has leases on single messages")
    )]
    pub(super) fn lapse(&mut self, last: Lot, now: Instant) {
        for number in self.numbers_in_hand(|held| held.entry.lot <= last) {
            if let Some(held) = self.let_go(number) {
                self.put_back(number, held, Duration::ZERO, now);
            }
        }
        let mut lapsed = Vec::new();
        for (order, strand) in &mut self.strands {
            // Those of one order stand by age.
            if let Some(front) = strand.waiting.front_mut()
                && front.entry.lot <= last
            {
                front.due = None;
                front.leaves = true;
                lapsed.push(Arc::clone(order));
            }
        }
        for order in lapsed {
            self.displace(&order);
            self.place(&order);
        }
        // Some of it may have to wait for later ones of their order that are in hand.
        self.lots
            .retain(|lot, state| *lot > last || state.load.count > 0);
    }
}
