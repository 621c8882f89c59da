//! A store that notes what becomes of each record, by its id.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider::core::{
    Backlog, Claim, Fate, Finding, OutboxStore, Purge, Record, Settled, StoreError, Want,
};

/// What became of one record so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    /// How often the broker took it.
    pub(super) sent: u32,
    /// How often it was claimed.
    pub(super) claimed: u32,
    pub(super) retried: u32,
    pub(super) dead: bool,
    /// Whether the store said that its fate cannot be written.
    pub(super) refused: bool,
}

#[derive(Default)]
pub(super) struct Notes {
    pub(super) ends: HashMap<String, Ends>,
    /// What the database said, once each.
    pub(super) errors: BTreeSet<String>,
    /// Claims that found nothing.
    pub(super) empty: u64,
}

pub(super) struct Watched {
    inner: Arc<dyn OutboxStore>,
    notes: Arc<Mutex<Notes>>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn OutboxStore>) -> Self {
        let notes = Arc::default();
        Self { inner, notes }
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        lock(&self.notes)
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    fn of(&mut self, record: &Record) -> &mut Ends {
        self.ends.entry(record.id.to_string()).or_default()
    }

    fn failed(&mut self, error: &StoreError) {
        const ERRORS_MAX: usize = 10;
        if self.errors.len() < ERRORS_MAX {
            self.errors
                .insert(error.to_string().chars().take(300).collect());
        }
    }
}

#[async_trait]
impl Purge for Watched {
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        self.inner.purge(keep, limit).await
    }
}

#[async_trait]
impl OutboxStore for Watched {
    async fn claim(&self, want: Want) -> Result<Option<Box<dyn Claim>>, StoreError> {
        let claimed = self.inner.claim(want).await;
        let mut notes = self.notes();
        match claimed {
            Ok(Some(inner)) => {
                for record in inner.records() {
                    notes.of(record).claimed += 1;
                }
                let notes = Arc::clone(&self.notes);
                Ok(Some(Box::new(WatchedClaim { inner, notes })))
            }
            Ok(None) => {
                notes.empty += 1;
                Ok(None)
            }
            Err(error) => {
                notes.failed(&error);
                Err(error)
            }
        }
    }

    async fn open(&self) -> Result<(), StoreError> {
        self.inner.open().await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let counted = self.inner.backlog().await;
        counted.inspect_err(|error| self.notes().failed(error))
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }

    async fn tend(&self) -> Result<Option<Duration>, StoreError> {
        let tended = self.inner.tend().await;
        tended.inspect_err(|error| self.notes().failed(error))
    }

    fn findings(&self) -> Vec<Finding> {
        self.inner.findings()
    }
}

struct WatchedClaim {
    inner: Box<dyn Claim>,
    notes: Arc<Mutex<Notes>>,
}

#[async_trait]
impl Claim for WatchedClaim {
    fn records(&self) -> &[Record] {
        self.inner.records()
    }

    fn lanes(&self) -> u32 {
        self.inner.lanes()
    }

    fn is_better_shared(&self) -> bool {
        self.inner.is_better_shared()
    }

    fn lapses_at(&self) -> Option<Instant> {
        self.inner.lapses_at()
    }

    async fn go_on(&mut self) -> Result<bool, StoreError> {
        // What a claim goes on from is all published, and its fates are not seen again.
        let ids: Vec<String> = self
            .records()
            .iter()
            .map(|record| record.id.to_string())
            .collect();
        let goes_on = self.inner.go_on().await?;
        if goes_on {
            let mut notes = lock(&self.notes);
            for id in ids {
                notes.ends.entry(id).or_default().sent += 1;
            }
            for record in self.inner.records() {
                notes.of(record).claimed += 1;
            }
        }
        Ok(goes_on)
    }

    async fn settle(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        let Self { inner, notes } = *self;
        let mut dead = Vec::new();
        for (record, fate) in std::iter::zip(inner.records(), fates) {
            let mut notes = lock(&notes);
            let ends = notes.of(record);
            match fate {
                Fate::Published => ends.sent += 1,
                Fate::Retry { .. } => ends.retried += 1,
                Fate::Dead { .. } => dead.push(record.id.to_string()),
                Fate::Released => {}
            }
        }
        let settled = inner.settle(fates).await;
        let mut notes = lock(&notes);
        match &settled {
            Ok(settled) => {
                for id in dead {
                    notes.ends.entry(id).or_default().dead = true;
                }
                for refused in &settled.refused {
                    notes
                        .ends
                        .entry(refused.id.to_string())
                        .or_default()
                        .refused = true;
                }
            }
            Err(error) => notes.failed(error),
        }
        drop(notes);
        settled
    }
}
