//! What an outbox's table holds, counted when somebody looks: one count at a time, and the slower they are, the fewer.

use std::sync::Arc;
use std::time::Duration;

use postrider::core::{Backlog, Timestamp};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::Admin;
use super::outbox::Managed;

/// The shortest time between two counts.
const EVERY: Duration = Duration::from_secs(2);
/// Of the time, the part that counting takes at most is one in so many.
const SHARE: u32 = 10;
/// Parked keys are counted up to this.
const PARKED_MAX: u32 = 1_000;

/// The last counts that succeeded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) backlog: Backlog,
    pub(super) parked: usize,
    pub(super) at: Timestamp,
}

pub(super) struct Counts {
    latest: watch::Sender<Option<Counted>>,
    /// When the next count is due. Locked while one runs.
    due: Arc<Mutex<Instant>>,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            latest: watch::Sender::default(),
            due: Arc::new(Mutex::new(Instant::now())),
        }
    }
}

impl Counts {
    pub(super) fn latest(&self) -> Option<Counted> {
        *self.latest.borrow()
    }
}

impl Admin {
    /// Starts a count of every outbox that is due for one, and does not wait for it.
    pub(super) fn count(&self) {
        for outbox in self.outboxes.iter() {
            drop(self.count_one(outbox));
        }
    }

    /// Counts what is due, and waits for that up to `patience`.
    pub(super) async fn count_within(&self, patience: Duration) {
        let counts: Vec<_> = self
            .outboxes
            .iter()
            .filter_map(|outbox| self.count_one(outbox))
            .collect();
        let all = async {
            for mut latest in counts {
                // The sender lives as long as the outbox.
                drop(latest.changed().await);
            }
        };
        // What is not there in time is shown as it was.
        drop(tokio::time::timeout(patience, all).await);
    }

    /// The channel that the count's end is told on, where one runs.
    fn count_one(&self, outbox: &Arc<Managed>) -> Option<watch::Receiver<Option<Counted>>> {
        let latest = outbox.counts.latest.subscribe();
        let Ok(mut due) = outbox.counts.due.clone().try_lock_owned() else {
            return Some(latest);
        };
        if *due > Instant::now() {
            return None;
        }
        let (outbox, stopping) = (outbox.clone(), self.stopping.clone());
        self.tasks.spawn(async move {
            let began = Instant::now();
            let counted = tokio::select! {
                counted = outbox.counted() => counted,
                () = stopping.cancelled() => None,
            };
            *due = Instant::now() + EVERY.max(began.elapsed() * SHARE);
            // Before the end is told: who finds it locked waits to be told.
            drop(due);
            outbox
                .counts
                .latest
                .send_modify(|latest| *latest = counted.or(*latest));
        });
        Some(latest)
    }
}

impl Managed {
    /// Trouble with the database is told by the relay; the old figures stay.
    async fn counted(&self) -> Option<Counted> {
        let both = async {
            let backlog = self.store.backlog().await?;
            let parked = self.store.parked(PARKED_MAX).await?.len();
            Ok((backlog, parked))
        };
        let (backlog, parked) = self.ask(both).await.ok()?;
        Some(Counted {
            backlog,
            parked,
            at: Timestamp::now(),
        })
    }
}
