//! Reading from the memory broker. A group is one queue that all its subscriptions take from, so that they share
//! the work and keep the order of a key between them; it outlives them, as a group at a real broker does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Delivery, SubscribeError, Subscription, Topic};
use tokio::sync::Notify;

use super::{Log, MemoryBroker, MemorySubscriptionConfig, STOPPED, State};
use crate::queue::{Entry, Limits, Lot, Queue, Room, Seat, Ticket, after};

/// A member of a group. Dropped without [`Subscription::close`], it is as if its process had crashed: what it
/// gave out and is not settled comes again to the others, or to the next.
pub struct MemorySubscription {
    broker: MemoryBroker,
    group: String,
    seat: Seat<Freed>,
}

/// What the broker keeps of a group.
pub(super) struct Group {
    queue: Queue<Freed>,
    /// The next message of each topic to be queued.
    positions: BTreeMap<Topic, u64>,
}

/// Tells those who wait that there is room for more.
struct Freed(Arc<Notify>);

impl Ticket for Freed {
    fn acked(self) {
        self.0.notify_waiters();
    }

    fn given_back(self) {}
}

impl MemoryBroker {
    /// Joins a group, which begins at the oldest message kept. A topic need not exist yet. All members read all the
    /// topics that any of them named.
    pub fn subscribe(
        &self,
        group: impl Into<String>,
        topics: &[Topic],
        config: &MemorySubscriptionConfig,
    ) -> MemorySubscription {
        let name = group.into();
        let mut state = self.state();
        let group = state
            .groups
            .entry(name.clone())
            .or_insert_with(|| Group::new(config));
        for topic in topics {
            group.positions.entry(topic.clone()).or_default();
        }
        let seat = group.queue.seat();
        drop(state);
        MemorySubscription {
            broker: self.clone(),
            group: name,
            seat,
        }
    }
}

impl Group {
    fn new(config: &MemorySubscriptionConfig) -> Self {
        Self {
            queue: Queue::new(Limits {
                count_max: config.in_flight_max.max(1),
                bytes_max: config.in_flight_bytes_max.max(1),
                ordering: config.ordering,
            }),
            positions: BTreeMap::new(),
        }
    }

    /// Queues what the topics have, as far as there is room.
    fn feed(&mut self, topics: &BTreeMap<Topic, Log>, changed: &Arc<Notify>) {
        for (lot, (topic, position)) in (0..).map(Lot).zip(&mut self.positions) {
            let Some(log) = topics.get(topic) else {
                continue;
            };
            *position = (*position).max(log.oldest());
            while self.queue.room(lot) != Room::None
                && let Some(message) = log.get(*position)
            {
                self.queue.push(Entry {
                    message: message.clone(),
                    published_at: None,
                    attempt: 1,
                    position: format!("{topic}@{position}"),
                    lot,
                    ticket: Freed(Arc::clone(changed)),
                });
                *position += 1;
            }
        }
    }

    fn lag(&self, topics: &BTreeMap<Topic, Log>) -> u64 {
        let unread = self.positions.iter().filter_map(|(topic, position)| {
            let log = topics.get(topic)?;
            Some(log.accepted - (*position).max(log.oldest()))
        });
        unread.sum::<u64>() + self.queue.len() as u64
    }
}

impl Log {
    pub(super) fn oldest(&self) -> u64 {
        self.accepted - self.messages.len() as u64
    }

    fn get(&self, position: u64) -> Option<&postrider_core::Message> {
        let index = position.checked_sub(self.oldest())?;
        self.messages.get(usize::try_from(index).ok()?)
    }
}

impl MemorySubscription {
    fn feed(&self) -> Result<(), SubscribeError> {
        let mut state = self.broker.state();
        let State {
            topics,
            groups,
            stopped,
            ..
        } = &mut *state;
        if *stopped {
            return Err(unavailable());
        }
        if let Some(group) = groups.get_mut(&self.group) {
            group.feed(topics, &self.broker.shared.changed);
        }
        Ok(())
    }
}

#[async_trait]
impl Subscription for MemorySubscription {
    async fn next(&self, max: usize) -> Result<Vec<Delivery>, SubscribeError> {
        loop {
            let mut changed = std::pin::pin!(self.broker.shared.changed.notified());
            changed.as_mut().enable();
            if self.seat.is_closed() {
                return Err(SubscribeError::Closed);
            }
            self.feed()?;
            tokio::select! {
                biased;
                taken = self.seat.next(max) => return taken,
                () = changed => {}
            }
        }
    }

    async fn ping(&self) -> Result<(), SubscribeError> {
        if self.broker.state().stopped {
            Err(unavailable())
        } else {
            Ok(())
        }
    }

    async fn lag(&self) -> Option<u64> {
        let state = self.broker.state();
        let group = state.groups.get(&self.group)?;
        Some(group.lag(&state.topics))
    }

    async fn close(&self, deadline: Duration) {
        self.seat.close();
        self.seat.drained(after(deadline)).await;
        self.seat.leave();
    }
}

fn unavailable() -> SubscribeError {
    SubscribeError::Unavailable {
        reason: STOPPED.into(),
        source: None,
    }
}
