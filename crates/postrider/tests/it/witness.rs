//! Stores and publishers that note what passes through them, or stand still at a chosen point.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::BoxFuture;
use postrider::core::{
    Backlog, Claim, Fate, Message, OutboxStore, PublishError, Publisher, Purge, Record, RecordId,
    Settled, StoreError, Want,
};
use tokio::sync::watch;

/// One question to a store.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) answered: Instant,
    pub(crate) records: Vec<RecordId>,
}

/// A store that does some things differently, and all others as the one inside does.
pub(crate) struct Twisted<S, T> {
    inner: S,
    twist: T,
}

/// What is done differently.
#[async_trait]
pub(crate) trait Twist: Send + Sync + 'static {
    async fn claim(&self, inner: &dyn OutboxStore, want: Want) -> Claimed {
        inner.claim(want).await
    }

    async fn backlog(&self, inner: &dyn OutboxStore) -> Result<Backlog, StoreError> {
        inner.backlog().await
    }
}

type Claimed = Result<Option<Box<dyn Claim>>, StoreError>;

#[async_trait]
impl<S: OutboxStore, T: Twist> Purge for Twisted<S, T> {
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        self.inner.purge(keep, limit).await
    }
}

#[async_trait]
impl<S: OutboxStore, T: Twist> OutboxStore for Twisted<S, T> {
    async fn claim(&self, want: Want) -> Claimed {
        self.twist.claim(&self.inner, want).await
    }

    async fn open(&self) -> Result<(), StoreError> {
        self.inner.open().await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.twist.backlog(&self.inner).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }
}

/// A claim that waits for something before it is settled.
struct HeldUp {
    inner: Box<dyn Claim>,
    until: BoxFuture<'static, ()>,
}

fn held_up(
    inner: Box<dyn Claim>,
    until: impl Future<Output = ()> + Send + 'static,
) -> Box<dyn Claim> {
    let until = Box::pin(until);
    Box::new(HeldUp { inner, until })
}

#[async_trait]
impl Claim for HeldUp {
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

    async fn settle(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        self.until.await;
        self.inner.settle(fates).await
    }
}

/// Notes every claim that is asked for. Clones share their notes.
pub(crate) struct NotedStore(Notes<Asked>);

impl NotedStore {
    pub(crate) fn new<S: OutboxStore>(inner: S) -> (Twisted<S, Self>, Notes<Asked>) {
        let notes = Notes::default();
        let twist = Self(notes.clone());
        (Twisted { inner, twist }, notes)
    }
}

#[async_trait]
impl Twist for NotedStore {
    async fn claim(&self, inner: &dyn OutboxStore, want: Want) -> Claimed {
        let at = Instant::now();
        let claim = inner.claim(want).await?;
        let records = claim
            .iter()
            .flat_map(|claim| claim.records())
            .map(|r| r.id.clone());
        self.0.add(Asked {
            at,
            answered: Instant::now(),
            records: records.collect(),
        });
        Ok(claim)
    }
}

/// A store whose fates are written only once its gate is opened: until then the relay stands between
/// publish and settle, where a power cut would hurt most.
pub(crate) struct GatedStore {
    stuck: watch::Sender<usize>,
    opened: watch::Receiver<bool>,
}

pub(crate) struct Gate {
    stuck: watch::Receiver<usize>,
    opened: watch::Sender<bool>,
}

impl Gate {
    /// Returns as soon as `claims` claims have come to the gate.
    pub(crate) async fn wait_until_reached(&mut self, claims: usize) {
        let reached = self.stuck.wait_for(|count| *count >= claims);
        let reached = tokio::time::timeout(Duration::from_secs(30), reached).await;
        reached
            .expect("claims come to the gate")
            .expect("the store is alive");
    }

    pub(crate) fn open(&self) {
        self.opened.send_replace(true);
    }
}

impl GatedStore {
    pub(crate) fn new<S: OutboxStore>(inner: S) -> (Twisted<S, Self>, Gate) {
        let (stuck, count) = watch::channel(0);
        let (open, opened) = watch::channel(false);
        let twist = Self { stuck, opened };
        let gate = Gate {
            stuck: count,
            opened: open,
        };
        (Twisted { inner, twist }, gate)
    }
}

#[async_trait]
impl Twist for GatedStore {
    async fn claim(&self, inner: &dyn OutboxStore, want: Want) -> Claimed {
        let (stuck, mut opened) = (self.stuck.clone(), self.opened.clone());
        let at_the_gate = async move {
            stuck.send_modify(|count| *count += 1);
            if opened.wait_for(|open| *open).await.is_err() {
                // The test has let go of the gate: it stays shut.
                std::future::pending::<()>().await;
            }
        };
        let claim = inner.claim(want).await?;
        Ok(claim.map(|claim| held_up(claim, at_the_gate)))
    }
}

/// A store whose first claim, or the first that is settled, gets no answer: as when the database's host is gone without a word.
pub(crate) struct SilentOnce(Arc<Mutex<Option<Silence>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    Claim,
    Settle,
}

impl SilentOnce {
    pub(crate) fn new<S: OutboxStore>(inner: S, when: Silence) -> Twisted<S, Self> {
        let twist = Self(Arc::new(Mutex::new(Some(when))));
        Twisted { inner, twist }
    }
}

/// Never ends, if it is time to say nothing.
async fn perhaps_silence(wanted: Arc<Mutex<Option<Silence>>>, now: Silence) {
    let taken = {
        let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.take_if(|wanted| *wanted == now)
    };
    if taken.is_some() {
        std::future::pending::<()>().await;
    }
}

#[async_trait]
impl Twist for SilentOnce {
    async fn claim(&self, inner: &dyn OutboxStore, want: Want) -> Claimed {
        let silence = |now| perhaps_silence(Arc::clone(&self.0), now);
        silence(Silence::Claim).await;
        let at_settling = silence(Silence::Settle);
        let claim = inner.claim(want).await?;
        Ok(claim.map(|claim| held_up(claim, at_settling)))
    }
}

/// A store that counts its backlog once, for the relay's start, and then never again comes to an end.
pub(crate) struct SlowCount(watch::Sender<usize>);

impl SlowCount {
    /// The receiver changes when a count begins that does not end.
    pub(crate) fn new<S: OutboxStore>(inner: S) -> (Twisted<S, Self>, watch::Receiver<usize>) {
        let (counts, changed) = watch::channel(0);
        let twist = Self(counts);
        (Twisted { inner, twist }, changed)
    }
}

#[async_trait]
impl Twist for SlowCount {
    async fn backlog(&self, inner: &dyn OutboxStore) -> Result<Backlog, StoreError> {
        let again = self.0.send_if_modified(|count| {
            *count += 1;
            *count > 1
        });
        if again {
            std::future::pending::<()>().await;
        }
        inner.backlog().await
    }
}

/// One call of a publisher.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    pub(crate) kind: CallKind,
}

#[derive(Debug, Clone)]
pub(crate) enum CallKind {
    Ping,
    Publish(Vec<Message>),
}

/// Notes every call before it goes on.
pub(crate) struct NotedPublisher<P> {
    inner: P,
    notes: Notes<Call>,
}

impl<P: Publisher> NotedPublisher<P> {
    pub(crate) fn new(inner: P) -> (Self, Notes<Call>) {
        let notes = Notes::default();
        (
            Self {
                inner,
                notes: notes.clone(),
            },
            notes,
        )
    }

    fn note(&self, kind: CallKind) {
        self.notes.add(Call {
            at: Instant::now(),
            kind,
        });
    }
}

#[async_trait]
impl<P: Publisher> Publisher for NotedPublisher<P> {
    async fn publish(
        &self,
        batch: &[Message],
        deadline: Duration,
    ) -> Vec<Result<(), PublishError>> {
        self.note(CallKind::Publish(batch.to_vec()));
        self.inner.publish(batch, deadline).await
    }

    async fn ping(&self) -> Result<(), PublishError> {
        self.note(CallKind::Ping);
        self.inner.ping().await
    }
}

/// A broker that answers every ping and says to each message what it is told to.
pub(crate) struct Answering<F>(pub(crate) F);

#[async_trait]
impl<F: Fn(&Message) -> Result<(), PublishError> + Send + Sync> Publisher for Answering<F> {
    async fn publish(&self, batch: &[Message], _: Duration) -> Vec<Result<(), PublishError>> {
        batch.iter().map(&self.0).collect()
    }

    async fn ping(&self) -> Result<(), PublishError> {
        Ok(())
    }
}

/// A broker whose second ping is never answered. Notes when pings come.
pub(crate) struct HangingOnce<P> {
    inner: P,
    pings: Notes<Instant>,
}

impl<P: Publisher> HangingOnce<P> {
    pub(crate) fn new(inner: P) -> (Self, Notes<Instant>) {
        let pings = Notes::default();
        let publisher = Self {
            inner,
            pings: pings.clone(),
        };
        (publisher, pings)
    }
}

#[async_trait]
impl<P: Publisher> Publisher for HangingOnce<P> {
    async fn publish(
        &self,
        batch: &[Message],
        deadline: Duration,
    ) -> Vec<Result<(), PublishError>> {
        self.inner.publish(batch, deadline).await
    }

    async fn ping(&self) -> Result<(), PublishError> {
        self.pings.add(Instant::now());
        if self.pings.count() == 2 {
            std::future::pending::<()>().await;
        }
        self.inner.ping().await
    }
}

/// What was seen, in order. Clones share it.
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Notes<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Notes<T> {
    pub(crate) fn add(&self, note: T) {
        self.lock().push(note);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.lock().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
