//! A store in memory, for what no database does when it is asked to: looks that are slow, fates that are refused, upkeep that
//! fails.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use postrider::core::{
    Backlog, Claim, Fate, Finding, Layout, OutboxStore, Publisher, Purge, Record, RecordId,
    Refused, Router, Routes, Settled, StoreError, Want,
};
use postrider::relay::Config;
use postrider::{Metrics, Relay};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What `tend` says, one after the other.
pub(crate) type Tended = Result<Option<Duration>, StoreError>;

/// Clones share their records and their notes.
#[derive(Clone, Default)]
pub(crate) struct FakeStore(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    records: VecDeque<Record>,
    /// How long a look takes.
    look: Duration,
    /// Whatever is settled is refused, for so long.
    refuses_for: Option<Duration>,
    tending: VecDeque<Tended>,
    tended: usize,
    findings: Vec<Finding>,
    wants: Vec<Want>,
    fates: Vec<(RecordId, Fate)>,
}

impl FakeStore {
    pub(crate) fn of(records: impl IntoIterator<Item = Record>) -> Self {
        let store = Self::default();
        store.lock().records.extend(records);
        store
    }

    pub(crate) fn looks_for(self, look: Duration) -> Self {
        self.lock().look = look;
        self
    }

    pub(crate) fn refuses_for(self, wait: Duration) -> Self {
        self.lock().refuses_for = Some(wait);
        self
    }

    pub(crate) fn tends(self, script: impl IntoIterator<Item = Tended>) -> Self {
        self.lock().tending.extend(script);
        self
    }

    pub(crate) fn finds(self, finding: Finding) -> Self {
        self.lock().findings.push(finding);
        self
    }

    pub(crate) fn wants(&self) -> Vec<Want> {
        self.lock().wants.clone()
    }

    pub(crate) fn tended(&self) -> usize {
        self.lock().tended
    }

    pub(crate) fn fates(&self) -> Vec<(RecordId, Fate)> {
        self.lock().fates.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a store does: up to a number and up to so many bytes, a larger record alone.
    fn take(&self, want: Want) -> Vec<Record> {
        let mut state = self.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(record) = state.records.front() {
            bytes += record.size();
            let full = taken.len() >= want.limit as usize || bytes > want.bytes;
            if full && !taken.is_empty() {
                break;
            }
            taken.extend(state.records.pop_front());
        }
        taken
    }
}

#[async_trait]
impl Purge for FakeStore {
    async fn purge(&self, _: Duration, _: u32) -> Result<u64, StoreError> {
        Ok(0)
    }
}

#[async_trait]
impl OutboxStore for FakeStore {
    async fn claim(&self, want: Want) -> Result<Option<Box<dyn Claim>>, StoreError> {
        let look = {
            let mut state = self.lock();
            state.wants.push(want);
            state.look
        };
        tokio::time::sleep(look).await;
        let records = self.take(want);
        let store = self.clone();
        Ok(match records.is_empty() {
            true => None,
            false => Some(Box::new(FakeClaim { store, records })),
        })
    }

    async fn open(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        Ok(Backlog::default())
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn tend(&self) -> Tended {
        let mut state = self.lock();
        state.tended += 1;
        state.tending.pop_front().unwrap_or(Ok(None))
    }

    fn findings(&self) -> Vec<Finding> {
        self.lock().findings.clone()
    }
}

struct FakeClaim {
    store: FakeStore,
    records: Vec<Record>,
}

#[async_trait]
impl Claim for FakeClaim {
    fn records(&self) -> &[Record] {
        &self.records
    }

    fn lapses_at(&self) -> Option<Instant> {
        None
    }

    async fn settle(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        let mut state = self.store.lock();
        let mut settled = Settled::default();
        for (record, fate) in std::iter::zip(self.records, fates) {
            state.fates.push((record.id.clone(), fate.clone()));
            if let Some(wait) = state.refuses_for {
                settled.refused.push(Refused {
                    id: record.id.clone(),
                    published: *fate == Fate::Published,
                    reason: "a trigger says no ".repeat(10_000),
                    wait,
                });
            }
            // What nobody could store, or nobody touched, is there again.
            if *fate == Fate::Released || state.refuses_for.is_some() {
                state.records.push_back(record);
            }
        }
        Ok(settled)
    }
}

pub(crate) fn record(id: i64, payload_bytes: usize) -> Record {
    Record {
        topic: Some("t".into()),
        payload: Some(Bytes::from(vec![b'x'; payload_bytes])),
        ..Record::bare(RecordId::Int(id), id.to_string().into())
    }
}

/// A relay over such a store that runs until it is dropped.
pub(crate) struct FakeRelay {
    pub(crate) metrics: Metrics,
    task: JoinHandle<()>,
}

impl Drop for FakeRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Of a layout that sends payloads as they are stored, to the topic that the row names.
pub(crate) fn relay(
    store: &FakeStore,
    publisher: impl Publisher + 'static,
    config: Config,
) -> FakeRelay {
    let layout = Layout::preset("talkie").unwrap();
    let router = Router::new(&layout, Routes::new(), None);
    let metrics = Metrics::new();
    let relay = Relay::builder(Arc::new(store.clone()), Arc::new(publisher), router)
        .config(config)
        .metrics(&metrics)
        .build();
    let task = tokio::spawn(async move {
        relay.run(CancellationToken::new()).await.unwrap();
    });
    FakeRelay { metrics, task }
}
