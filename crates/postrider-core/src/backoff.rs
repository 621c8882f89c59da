//! When to try again: a pure function of the attempt, the policy and a random number.

use std::time::Duration;

/// Exponential growth from `base`, capped at `cap`, spread by `jitter`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    pub base: Duration,
    pub cap: Duration,
    /// Share of a delay that is random, 0 to 1. The delay lies within `[(1 - jitter) · d, d]`, so
    /// the cap is never exceeded.
    pub jitter: f64,
}

impl Backoff {
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            jitter: 0.2,
        }
    }

    /// The delay after the `attempt`-th failure in a row (1, 2, …), with `random` in `[0, 1)`.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(32);
        let full = self
            .base
            .saturating_mul(2_u32.saturating_pow(doublings))
            .min(self.cap);
        full.mul_f64(1.0 - self.jitter * random)
    }

    /// The same with a fresh random number.
    pub fn random_delay(&self, attempt: u32) -> Duration {
        self.delay(attempt, fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(10));

    #[test]
    fn doubles_up_to_the_cap() {
        let delays: Vec<u128> = (1..=8).map(|n| BACKOFF.delay(n, 0.0).as_millis()).collect();
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(BACKOFF.delay(u32::MAX, 0.0), BACKOFF.cap);
    }

    #[test]
    fn the_next_delay_is_not_shorter_whatever_the_dice() {
        for attempt in 1..6 {
            assert!(BACKOFF.delay(attempt + 1, 0.999) >= BACKOFF.delay(attempt, 0.0));
        }
    }
}
