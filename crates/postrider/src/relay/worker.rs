//! A worker: one cycle after the other, at the pace that the outcome asks for.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::text::chain;
use postrider_core::{StoreError, Want};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::breaker::Pass;
use super::crew::Stint;
use super::cycle::Progress;
use super::pace::{Appetite, Pace};

/// Records in the claim that finds out whether the broker is back.
const TRY_RECORDS: u32 = 10;

/// How long a claim goes on without being settled. What it has published until then is sent again after a crash.
const GOES_ON_FOR: Duration = Duration::from_millis(50);

/// Runs until `shutdown` is cancelled; a cycle that has begun is finished.
pub(super) async fn run(shared: Arc<Shared>, index: u32, shutdown: CancellationToken) {
    let mut pace = Pace::new(&shared.config);
    let mut appetite = Appetite::new(&shared.config);
    let mut tempo = shared.dial.watch();
    let mut database_errors = 0;
    let mut is_first = true;
    while !shutdown.is_cancelled() {
        let share = tokio::select! {
            share = shared.crew.share(index) => share,
            () = shutdown.cancelled() => return,
        };
        let pass = tokio::select! {
            pass = shared.breaker.pass() => pass,
            () = shutdown.cancelled() => return,
        };
        let now = *tempo.borrow_and_update();
        pace.follow(now);
        appetite.follow(now);
        // Armed before the claim, so that a hint that comes during it is not missed.
        let hint = shared.wake.notified();
        tokio::pin!(hint);
        hint.as_mut().enable();

        if pass == Pass::Try && !shared.broker_answers(pass).await {
            continue;
        }
        let (fitting, bytes) = appetite.next_of(share.of);
        // What grows is claimed anew each time, and nobody is called for it: the next claim is larger.
        let grows = appetite.is_growing();
        let (limit, goes_on_for) = match pass {
            Pass::Try => (fitting.min(TRY_RECORDS), Duration::ZERO),
            Pass::Free if grows => (fitting, Duration::ZERO),
            Pass::Free => (fitting, GOES_ON_FOR),
        };
        let want = Want {
            limit,
            bytes,
            share,
        };
        let stint = Stint::new(goes_on_for, std::mem::take(&mut is_first));
        let cycle = shared.cycle(want, &stint, &shutdown);
        let wait = match shared.crew.watch(cycle, &stint).await {
            Ok(progress) => {
                database_errors = 0;
                shared.health.database_up();
                if !grows && progress.as_ref().is_some_and(|progress| progress.calls) {
                    shared.crew.call();
                }
                shared.learn(progress, pass, stint.look(), &mut pace, &mut appetite)
            }
            Err(error) => {
                database_errors += 1;
                shared.breaker.undecided(pass);
                Some(shared.complain(&error, database_errors))
            }
        };
        if let Some(wait) = wait {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = hint => pace.busy(),
                // The sender lives in `shared`.
                _ = tempo.changed() => {}
                () = shutdown.cancelled() => return,
            }
        }
    }
}

impl Shared {
    /// Asks a broker that was down before anything is claimed for it.
    async fn broker_answers(&self, pass: Pass) -> bool {
        match self.ping_broker().await {
            Ok(()) => true,
            Err(reason) => {
                self.health.broker_down(&reason);
                self.breaker.outage(pass);
                false
            }
        }
    }

    /// Draws the conclusions of a cycle; gives the wait before the next one, if any.
    fn learn(
        &self,
        progress: Option<Progress>,
        pass: Pass,
        look: Duration,
        pace: &mut Pace,
        appetite: &mut Appetite,
    ) -> Option<Duration> {
        let Some(progress) = progress else {
            if pass == Pass::Try {
                self.tell_recovery();
                self.breaker.answered();
            }
            return Some(pace.idle(look, fastrand::f64()));
        };
        appetite.learn(progress.records, progress.bytes);
        if let Some(reason) = progress.outage {
            if !self.breaker.is_open() {
                tracing::warn!(
                    outbox = self.name,
                    reason,
                    "broker unavailable; records are released and keep their attempts"
                );
            }
            self.health.broker_down(&reason);
            self.breaker.outage(pass);
            return None;
        }
        if progress.published > 0 || pass == Pass::Try {
            self.tell_recovery();
            self.breaker.recovered();
        }
        if progress.moved == 0 || progress.only_waits() && !progress.is_full {
            // All were let go untouched, or wait for a part of the broker, and there are no more. Without a wait this
            // would be a hot loop.
            return Some(pace.idle(look, fastrand::f64()));
        }
        pace.busy();
        None
    }

    fn tell_recovery(&self) {
        if self.breaker.is_open() {
            tracing::info!(outbox = self.name, "broker is back");
        }
        self.health.broker_up();
    }

    fn complain(&self, error: &StoreError, errors_in_a_row: u32) -> Duration {
        let reason = chain(error);
        if errors_in_a_row == 1 {
            tracing::error!(outbox = self.name, reason, "database trouble");
        } else {
            tracing::warn!(
                outbox = self.name,
                reason,
                errors_in_a_row,
                "database trouble goes on"
            );
        }
        self.health.database_down(&reason);
        self.config.outage_backoff.random_delay(errors_in_a_row)
    }
}
