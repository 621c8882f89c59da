//! While the broker is down, nothing is claimed: one worker asks it from time to time, the others
//! wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use postrider_core::Backoff;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::BreakerState;
use crate::metrics::OutboxMetrics;

pub(super) struct Breaker {
    backoff: Backoff,
    state: Mutex<State>,
    changed: Notify,
    metrics: OutboxMetrics,
}

#[derive(Default)]
struct State {
    open: bool,
    /// Outages in a row, which make the waits grow. Only a message that the broker took ends the row:
    /// some brokers answer pings and take nothing.
    outages: u32,
    /// When the next try is due; `None` while somebody is trying.
    retry_at: Option<Instant>,
}

/// What a worker may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// The broker is taken to be up.
    Free,
    /// It was down: find out. Whoever has this must end with `recovered`, `answered`, `outage` or
    /// `undecided`.
    Try,
}

impl Breaker {
    pub(super) fn new(backoff: Backoff, metrics: OutboxMetrics) -> Self {
        metrics.breaker(false);
        Self {
            backoff,
            state: Mutex::default(),
            changed: Notify::new(),
            metrics,
        }
    }

    /// Waits until there is something to do.
    pub(super) async fn pass(&self) -> Pass {
        loop {
            let changed = self.changed.notified();
            let retry_at = {
                let mut state = self.lock();
                if !state.open {
                    return Pass::Free;
                }
                if state.retry_at.is_some_and(|at| at <= Instant::now()) {
                    state.retry_at = None;
                    return Pass::Try;
                }
                state.retry_at
            };
            match retry_at {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().open
    }

    pub(super) fn state(&self) -> BreakerState {
        let state = self.lock();
        match (state.open, state.retry_at) {
            (false, _) => BreakerState::Closed,
            (true, Some(_)) => BreakerState::Open,
            (true, None) => BreakerState::HalfOpen,
        }
    }

    /// The broker took something.
    pub(super) fn recovered(&self) {
        let mut state = self.lock();
        state.outages = 0;
        self.close(&mut state);
    }

    /// The broker answered a ping, and there was nothing to send. If the next message fails, the waits
    /// go on from where they were.
    pub(super) fn answered(&self) {
        self.close(&mut self.lock());
    }

    fn close(&self, state: &mut State) {
        if state.open {
            state.open = false;
            state.retry_at = None;
            self.metrics.breaker(false);
            self.changed.notify_waiters();
        }
    }

    /// The broker did not answer. Several workers may find out at once; that is one outage.
    pub(super) fn outage(&self, pass: Pass) {
        let mut state = self.lock();
        if pass == Pass::Try || !state.open {
            state.open = true;
            state.outages = state.outages.saturating_add(1);
            state.retry_at = Some(Instant::now() + self.backoff.random_delay(state.outages));
            self.metrics.breaker(true);
            self.changed.notify_waiters();
        }
    }

    /// The one who tried learnt nothing: the next one tries after the same wait.
    pub(super) fn undecided(&self, pass: Pass) {
        let mut state = self.lock();
        if pass == Pass::Try && state.open {
            state.retry_at = Some(Instant::now() + self.backoff.random_delay(state.outages));
            self.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
