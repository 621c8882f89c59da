//! The cycle: claim ─▶ route ─▶ encode ─▶ publish ─▶ settle.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use postrider_core::fate::{Outcome, fates};
use postrider_core::text::chain;
use postrider_core::{
    Failure, Fate, Message, MessageKey, OnDead, Ordering, Record, StoreError, Want,
};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::crew::Stint;
use super::spans::{Origin, Spans};
use crate::failpoints;

/// Publishing ends this long before a claim lapses, so that its fates can still be written.
const LAPSE_MARGIN: Duration = Duration::from_secs(2);

/// How long a stop waits for a claim that is under way.
const CLAIM_GRACE: Duration = Duration::from_secs(1);

/// What one cycle came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Records that were claimed.
    pub(super) records: usize,
    /// Bytes they had.
    pub(super) bytes: usize,
    /// Records that will not be claimed again at once: published, dead or waiting.
    pub(super) moved: usize,
    /// Records that the broker acknowledged.
    pub(super) published: usize,
    /// Whether the claim got all it asked for, and several at once would get more done.
    pub(super) calls: bool,
    /// Why the broker is taken to be down.
    pub(super) outage: Option<String>,
}

impl Shared {
    /// Claims, publishes and settles; `None` where there was nothing to claim. A claim that can go on does, while the stint
    /// lasts: to settle and to claim anew takes time in which nothing is sent.
    pub(super) async fn cycle(
        &self,
        want: Want,
        stint: &Stint,
        shutdown: &CancellationToken,
    ) -> Result<Option<Progress>, StoreError> {
        let claimed = tokio::select! {
            claimed = self.answered("claim records", self.store.claim(want)) => claimed?,
            () = overdue(shutdown) => None,
        };
        let Some(mut claim) = claimed else {
            return Ok(None);
        };
        let _lanes = self.metrics.hold_lanes(claim.lanes());
        failpoints::reach(failpoints::CLAIMED);
        let mut progress = Progress::default();
        loop {
            let records = claim.records();
            let outcomes = self
                .publish(records, self.deadline(claim.lapses_at()))
                .await;
            failpoints::reach(failpoints::PUBLISHED);
            let (ordering, retry) = (self.config.ordering, &self.config.retry);
            let fates = fates(records, &outcomes, ordering, retry);
            progress.add(records, &outcomes, &fates);
            progress.calls = claim.is_better_shared() && records.len() >= want.limit as usize;
            self.journal.write(&self.name, records, &fates);
            let all_published = fates.iter().all(|fate| matches!(fate, Fate::Published));
            let goes_on = all_published && stint.goes_on() && !shutdown.is_cancelled();
            if goes_on && self.answered("go on", claim.go_on()).await? {
                self.metrics.settled(&fates, 0, stint.next_round());
                continue;
            }
            let settled = self
                .answered("settle a claim", claim.settle(&fates))
                .await?;
            failpoints::reach(failpoints::SETTLED);
            self.metrics
                .settled(&fates, settled.lapsed, stint.next_round());
            self.tell_lapsed(settled.lapsed);
            return Ok(Some(progress));
        }
    }

    fn tell_lapsed(&self, records: u64) {
        if records > 0 {
            tracing::warn!(
                outbox = self.name,
                records,
                "claim lapsed before its fates were written; these records may be sent twice"
            );
        }
    }

    /// What the store says, if it says it in time. Letting go of a claim that gives no answer closes its connection.
    async fn answered<T>(
        &self,
        action: &str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let patience = self.config.answer_timeout;
        let silent = |_| StoreError::Unavailable {
            reason: format!("no answer within {patience:?} when asked to {action}"),
            source: None,
        };
        tokio::time::timeout(patience, answer)
            .await
            .map_err(silent)?
    }

    /// Sends what can be sent and gives one outcome per record, in order.
    async fn publish(&self, records: &[Record], deadline: Duration) -> Vec<Outcome> {
        if deadline.is_zero() {
            return records
                .iter()
                .map(|_| Outcome::failed(Failure::Untried, "claim lapsed"))
                .collect();
        }
        let (mut outcomes, batch) = self.route(records);
        let spans = Spans::open(self.origin(), records, &outcomes, &batch);
        let started = Instant::now();
        let mut answers = match batch.is_empty() {
            true => Vec::new(),
            false => self.publisher.publish(&batch, deadline).await,
        }
        .into_iter();
        self.metrics.publish_took(started.elapsed());
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
            *outcome = Some(match answers.next() {
                Some(Ok(())) => Outcome::PUBLISHED,
                Some(Err(error)) => Outcome::failed(error.failure(), chain(&error)),
                None => Outcome::failed(Failure::Untried, "publisher gave no outcome"),
            });
        }
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        spans.close(&outcomes);
        outcomes
    }

    fn origin(&self) -> Origin<'_> {
        Origin {
            outbox: &self.name,
            broker: self.broker,
        }
    }

    /// Makes messages. A record that can have none gets its outcome here; with order per key, so
    /// do the later ones of a key that it parks.
    fn route(&self, records: &[Record]) -> (Vec<Option<Outcome>>, Vec<Message>) {
        let parks =
            self.config.ordering == Ordering::Key && self.config.retry.on_dead == OnDead::Park;
        let mut parked: HashSet<&MessageKey> = HashSet::new();
        let mut batch = Vec::with_capacity(records.len());
        let outcomes = records
            .iter()
            .map(|record| {
                if record.key.as_ref().is_some_and(|key| parked.contains(key)) {
                    return Some(Outcome::failed(Failure::Untried, "key is parked"));
                }
                match self.router.message(record) {
                    Ok(message) => {
                        batch.push(message);
                        None
                    }
                    Err(error) => {
                        parked.extend(record.key.as_ref().filter(|_| parks));
                        Some(Outcome::failed(Failure::Permanent, chain(&error)))
                    }
                }
            })
            .collect();
        (outcomes, batch)
    }

    fn deadline(&self, lapses_at: Option<Instant>) -> Duration {
        let timeout = self.config.publish_timeout;
        lapses_at.map_or(timeout, |lapse| {
            let left = lapse.saturating_duration_since(Instant::now());
            timeout.min(left.saturating_sub(LAPSE_MARGIN.min(left / 4)))
        })
    }
}

/// A stop does not wait for a database that gives no answer; one that answers slowly is waited for,
/// because a claim that is dropped half way may keep its records until its lease ends.
async fn overdue(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(CLAIM_GRACE).await;
}

impl Progress {
    fn add(&mut self, records: &[Record], outcomes: &[Outcome], fates: &[Fate]) {
        let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
        self.records += records.len();
        self.bytes += records.iter().map(Record::size).sum::<usize>();
        self.published += count(|fate| matches!(fate, Fate::Published));
        self.moved += count(|fate| !matches!(fate, Fate::Released));
        self.outage = outcomes.iter().find_map(|outcome| match &outcome.failure {
            Some((Failure::Outage, reason)) => Some(reason.clone()),
            _ => None,
        });
    }
}
