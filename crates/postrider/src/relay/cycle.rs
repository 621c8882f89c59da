//! The cycle: claim ─▶ route ─▶ encode ─▶ publish ─▶ settle.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use postrider_core::fate::{Outcome, fates};
use postrider_core::text::chain;
use postrider_core::{Claim, Failure, Fate, Record, StoreError, Want};
use tokio::sync::MutexGuard;
use tokio_util::sync::CancellationToken;

use super::crew::Stint;
use super::spans::{Origin, Spans};
use super::{Shared, steps};
use crate::failpoints;

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
    /// Whether it had as many as were wanted.
    pub(super) is_full: bool,
    /// Whether a part of the broker takes no writes.
    pub(super) has_part_outage: bool,
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
            () = steps::overdue(shutdown) => None,
        };
        let Some(mut claim) = claimed else {
            return Ok(None);
        };
        let _lanes = self.metrics.hold_lanes(claim.lanes());
        let began = Instant::now();
        failpoints::reach(failpoints::CLAIMED);
        let mut progress = Progress::default();
        loop {
            let records = claim.records();
            let Some(alone) = self.alone_with(records, want, stint) else {
                return self.let_go(claim).await.map(Some);
            };
            let time = steps::time_to_publish(&self.config, claim.lapses_at());
            let outcomes = self.publish(records, time).await;
            drop(alone);
            failpoints::reach(failpoints::PUBLISHED);
            let (ordering, retry) = (self.config.ordering, &self.config.retry);
            let fates = fates(records, &outcomes, ordering, retry);
            progress.add(records, &outcomes, &fates);
            progress.is_full = records.len() >= want.limit as usize;
            let full = stint.is_shareable() && progress.is_full;
            progress.calls = full && progress.moved > 0 && claim.is_better_shared();
            let told = self.tell_parts(&outcomes, &fates);
            self.journal.write(&self.name, records, &told);
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
            self.metrics.refused(settled.refused.len());
            self.journal.refused(&self.name, &settled.refused);
            if progress.only_waits() {
                self.part_waits.spent(began.elapsed());
            }
            return Ok(Some(progress));
        }
    }

    /// A claim that is larger than was asked for is one record of which the relay did not know how large it is. Such ones are
    /// made into messages and sent one at a time, and nobody is called to claim more of them meanwhile. `None` where
    /// another worker has one in hand: two would take twice the memory.
    fn alone_with(
        &self,
        records: &[Record],
        want: Want,
        stint: &Stint,
    ) -> Option<Option<MutexGuard<'_, ()>>> {
        let bytes: usize = records.iter().map(Record::size).sum();
        let is_shareable = bytes <= want.bytes;
        stint.in_hand(is_shareable);
        if is_shareable {
            return Some(None);
        }
        self.crew.dismiss();
        self.large.try_lock().ok().map(Some)
    }

    /// Gives a claim back untouched.
    async fn let_go(&self, claim: Box<dyn Claim>) -> Result<Progress, StoreError> {
        let fates = vec![Fate::Released; claim.records().len()];
        let progress = Progress {
            records: fates.len(),
            bytes: claim.records().iter().map(Record::size).sum(),
            ..Progress::default()
        };
        self.answered("settle a claim", claim.settle(&fates))
            .await?;
        Ok(progress)
    }

    /// Names parts of the broker that take no writes, and gives the fates that deserve a line each: what waits for
    /// such a part, perhaps all of a backlog, does not. The publisher says once that the part is down.
    fn tell_parts<'a>(&self, outcomes: &[Outcome], fates: &'a [Fate]) -> Cow<'a, [Fate]> {
        let mut told = Cow::Borrowed(fates);
        for (index, outcome) in outcomes.iter().enumerate() {
            if let Some((Failure::PartOutage { retry_after }, reason)) = &outcome.failure
                && matches!(fates[index], Fate::Retry { .. })
            {
                self.health.part_down(reason, *retry_after);
                if !self.config.retry.count_outages {
                    told.to_mut()[index] = Fate::Released;
                }
            }
        }
        told
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

    /// See [`steps::answered`].
    pub(super) async fn answered<T>(
        &self,
        action: &str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        steps::answered(&self.config, action, answer).await
    }

    /// Sends what can be sent and gives one outcome per record, in order.
    async fn publish(&self, records: &[Record], deadline: Duration) -> Vec<Outcome> {
        if deadline.is_zero() {
            tracing::warn!(
                outbox = self.name,
                records = records.len(),
                "claim lapsed before anything was sent; give it more time by `lease`"
            );
            return records
                .iter()
                .map(|_| Outcome::failed(Failure::Untried, "claim lapsed"))
                .collect();
        }
        let (mut outcomes, batch) = steps::route(&self.router, &self.config, records);
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
                Some(Err(error)) => {
                    Outcome::failed(self.part_waits.stretch(error.failure()), chain(&error))
                }
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
}

impl Progress {
    /// Whether all that came of it is that records wait for a part of the broker.
    pub(super) fn only_waits(&self) -> bool {
        self.published == 0 && self.has_part_outage
    }

    fn add(&mut self, records: &[Record], outcomes: &[Outcome], fates: &[Fate]) {
        let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
        self.records += records.len();
        self.bytes += records.iter().map(Record::size).sum::<usize>();
        self.published += count(|fate| matches!(fate, Fate::Published));
        self.moved += count(|fate| !matches!(fate, Fate::Released));
        self.has_part_outage |= outcomes
            .iter()
            .any(|outcome| matches!(outcome.failure, Some((Failure::PartOutage { .. }, _))));
        self.outage = outcomes.iter().find_map(|outcome| match &outcome.failure {
            Some((Failure::Outage, reason)) => Some(reason.clone()),
            _ => None,
        });
    }
}
