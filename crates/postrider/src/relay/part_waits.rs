//! How long records wait for a part of the broker that takes no writes. Each time they are due they are claimed, found
//! to be stuck and settled again. Where they are many, that would take all the time there is, and those that can be
//! published stand behind them. So the waits grow until it takes a small part of the time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::Failure;

/// How long is looked at before the waits change.
const WINDOW: Duration = Duration::from_secs(10);
/// The waits grow when more than one part in so many of the time is spent,
const GROW_OVER: u32 = 4;
/// and shrink when less than one in so many is.
const SHRINK_UNDER: u32 = 32;
const FACTOR_MAX: u32 = 64;

#[derive(Debug)]
pub(super) struct PartWaits(Mutex<State>);

#[derive(Debug)]
struct State {
    factor: u32,
    began: Instant,
    spent: Duration,
}

impl Default for PartWaits {
    fn default() -> Self {
        Self(Mutex::new(State {
            factor: 1,
            began: Instant::now(),
            spent: Duration::ZERO,
        }))
    }
}

impl PartWaits {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cycle that published nothing, because of such a part, took so long.
    pub(super) fn spent(&self, time: Duration) {
        self.lock().spent(time, Instant::now());
    }

    /// The failure with the wait that can be afforded.
    pub(super) fn stretch(&self, failure: Failure) -> Failure {
        match failure {
            Failure::PartOutage { retry_after } => Failure::PartOutage {
                retry_after: retry_after.saturating_mul(self.lock().factor),
            },
            failure => failure,
        }
    }
}

impl State {
    fn spent(&mut self, time: Duration, now: Instant) {
        let window = now.saturating_duration_since(self.began);
        if window >= WINDOW {
            if self.spent > window / GROW_OVER {
                self.factor = (self.factor * 2).min(FACTOR_MAX);
            } else if self.spent < window / SHRINK_UNDER {
                self.factor = (self.factor / 2).max(1);
            }
            (self.began, self.spent) = (now, Duration::ZERO);
        }
        self.spent = self.spent.saturating_add(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The factor after so many windows, each with so much time spent.
    fn after(state: &mut State, windows: u32, spent: Duration) -> u32 {
        for _ in 0..windows {
            let now = state.began + WINDOW;
            state.spent = spent;
            state.spent(Duration::ZERO, now);
        }
        state.factor
    }

    #[test]
    fn waits_grow_while_they_take_the_time_of_others_and_shrink_after_it() {
        let waits = PartWaits::default();
        let mut state = waits.lock();
        assert_eq!(after(&mut state, 3, WINDOW / 10), 1);
        assert_eq!(after(&mut state, 2, WINDOW / 2), 4);
        assert_eq!(after(&mut state, 20, WINDOW), FACTOR_MAX);
        assert_eq!(after(&mut state, 2, WINDOW / 10), FACTOR_MAX);
        assert_eq!(after(&mut state, 20, Duration::ZERO), 1);
    }
}
