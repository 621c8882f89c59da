//! An outbox as a stream of messages, for those who bring them to a broker by themselves. Each message is acknowledged or
//! given back, which becomes the fate of its record. Whoever has a `Publisher` is better off with a [`crate::Relay`].

mod offers;
mod round;

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::fate::{Outcome, fates};
use postrider_core::text::chain;
use postrider_core::{Failure, Fate, OutboxStore, Record, Router, Share, StoreError, Want};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Metrics;
use crate::metrics::OutboxMetrics;
use crate::relay::steps::{answered, overdue, route, time_to_publish};
use crate::relay::{Config, tend};
use offers::Offers;
use round::Round;

pub use round::{Ended, Outgoing};

/// Claims records and offers their messages, one claim at a time. A claim is settled when all of its messages are
/// answered, when `publish_timeout` has passed, or shortly before it lapses; what is unanswered then is released.
pub struct Source {
    name: String,
    store: Arc<dyn OutboxStore>,
    router: Router,
    config: Config,
    metrics: OutboxMetrics,
    offers: Arc<Offers>,
}

/// Where the messages come out. Without it the source ends as if it had been told to stop.
pub struct Messages {
    offers: Arc<Offers>,
    _stop: DropGuard,
}

impl Messages {
    /// The next message, in the outbox's order; `None` once the source stops. With order per key, a key's next message is
    /// offered when the one before it is acknowledged. Any number of tasks may ask at once.
    pub async fn next(&self) -> Option<Outgoing> {
        self.offers.next().await
    }
}

impl Source {
    /// Of the relay's settings a source follows `batch`, `batch_bytes`, `message_bytes_max`, `poll_max`,
    /// `publish_timeout`, `answer_timeout`, `ordering`, `retry` and `outage_backoff`. Does no I/O.
    pub fn new(store: Arc<dyn OutboxStore>, router: Router, config: Config) -> (Self, Messages) {
        let offers = Arc::new(Offers::default());
        let messages = Messages {
            _stop: offers.stop.clone().drop_guard(),
            offers: offers.clone(),
        };
        let source = Self {
            name: "outbox".into(),
            store,
            router,
            config,
            metrics: Metrics::new().of("outbox"),
            offers,
        };
        (source, messages)
    }

    /// What logs and metrics call the outbox, and where it is counted.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>, metrics: &Metrics) -> Self {
        self.name = name.into();
        self.metrics = metrics.of(&self.name);
        self
    }

    /// Runs until `shutdown` is cancelled or [`Messages`] is dropped. Then it offers nothing more, takes back what nobody
    /// has taken, waits for the answers to the rest as long as their claim lasts, writes them down and returns.
    ///
    /// A database that cannot be reached is waited for. A table that does not fit the layout is an error.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), StoreError> {
        let stop = self.offers.stop.clone();
        let _ends = stop.clone().drop_guard();
        match self.store.open().await {
            Ok(()) | Err(StoreError::Unavailable { .. }) => {}
            Err(error) => return Err(error),
        }
        let beside = async {
            let passes_on = async {
                shutdown.cancelled().await;
                stop.cancel();
            };
            tokio::join!(
                passes_on,
                tend(&self.name, &*self.store, &self.config, &stop)
            );
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.work(&stop) => Ok(()),
            () = beside => Ok(()),
        }
    }

    async fn work(&self, stop: &CancellationToken) {
        let mut errors_in_a_row = 0;
        while !stop.is_cancelled() {
            let wait = match self.cycle(stop).await {
                Ok(true) => {
                    errors_in_a_row = 0;
                    continue;
                }
                Ok(false) => {
                    errors_in_a_row = 0;
                    self.config.poll_max
                }
                Err(error) => {
                    errors_in_a_row += 1;
                    let reason = chain(&error);
                    tracing::error!(
                        outbox = self.name,
                        reason,
                        errors_in_a_row,
                        "database trouble"
                    );
                    self.config.outage_backoff.random_delay(errors_in_a_row)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Claims, offers and settles; `false` where there was nothing to claim, or all of it was given back untouched: without a
    /// wait that would be a hot loop.
    async fn cycle(&self, stop: &CancellationToken) -> Result<bool, StoreError> {
        let want = Want {
            limit: self.config.batch,
            bytes: self.config.batch_bytes,
            share: Share::ALL,
        };
        let claimed = tokio::select! {
            claimed = answered(&self.config, "claim records", self.store.claim(want)) => claimed?,
            () = overdue(stop) => None,
        };
        let Some(claim) = claimed else {
            return Ok(false);
        };
        let started = Instant::now();
        let outcomes = self.offer(claim.records(), claim.lapses_at(), stop).await;
        let fates = fates(
            claim.records(),
            &outcomes,
            self.config.ordering,
            &self.config.retry,
        );
        let settled = answered(&self.config, "settle a claim", claim.settle(&fates)).await?;
        self.metrics
            .settled(&fates, settled.lapsed, started.elapsed());
        self.metrics.refused(settled.refused.len());
        if settled.lapsed > 0 {
            tracing::warn!(
                outbox = self.name,
                records = settled.lapsed,
                "claim lapsed before its fates were written; these messages may be offered twice"
            );
        }
        Ok(fates.iter().any(|fate| !matches!(fate, Fate::Released)))
    }

    /// Offers a claim's messages and gives one outcome per record.
    async fn offer(
        &self,
        records: &[Record],
        lapses_at: Option<Instant>,
        stop: &CancellationToken,
    ) -> Vec<Outcome> {
        let time = time_to_publish(&self.config, lapses_at);
        let (outcomes, messages) = route(&self.router, &self.config, records);
        let (mut round, first) = Round::new(records, outcomes, messages, self.config.ordering);
        self.offers.put(first);
        let deadline = tokio::time::sleep(time.max(Duration::from_millis(1)));
        tokio::pin!(deadline);
        let mut stopping = false;
        while round.is_open() {
            tokio::select! {
                next = round.answer() => self.offers.put(next),
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.offers.withdraw();
                    round.withdraw();
                }
                () = &mut deadline => break,
            }
        }
        self.offers.withdraw();
        let outcomes = round.close().into_iter();
        let unanswered = || Outcome::failed(Failure::Untried, "no answer in time");
        outcomes
            .map(|outcome| outcome.unwrap_or_else(unanswered))
            .collect()
    }
}
