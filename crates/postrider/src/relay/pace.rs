//! How fast a worker polls, and how much it asks for.

use std::time::Duration;

use super::{Config, Tempo};

/// Waits after empty claims: from `poll_min` up to `poll_max`, with jitter, so that relays do not
/// poll in step.
pub(super) struct Pace {
    min: Duration,
    max: Duration,
    empty: u32,
}

impl Pace {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            min: config.poll_min,
            max: config.poll_max,
            empty: 0,
        }
    }

    pub(super) fn follow(&mut self, tempo: Tempo) {
        (self.min, self.max) = (tempo.poll_min, tempo.poll_max);
    }

    pub(super) fn busy(&mut self) {
        self.empty = 0;
    }

    /// The wait after one more empty claim; `random` in `[0, 1)`. Always within the two bounds.
    pub(super) fn idle(&mut self, random: f64) -> Duration {
        let full = self
            .min
            .saturating_mul(2_u32.saturating_pow(self.empty.min(16)))
            .min(self.max);
        self.empty = self.empty.saturating_add(1);
        // Up to a quarter more or less, but never out of bounds.
        full.mul_f64(0.75 + 0.5 * random).clamp(self.min, self.max)
    }
}

/// The size of the next claim: the configured one, or fewer where records are large, so that memory
/// stays bounded. The first claim is small because nothing is known yet.
pub(crate) struct Appetite {
    max: u32,
    bytes_max: usize,
    next: u32,
}

/// Records of the first claim. Growth is fourfold a claim, so a large batch is reached in three.
const FIRST: u32 = 100;

impl Appetite {
    pub(super) fn new(config: &Config) -> Self {
        Self::of(config.batch, config.batch_bytes)
    }

    /// Up to `max` records, and about `bytes_max`.
    pub(crate) fn of(max: u32, bytes_max: usize) -> Self {
        Self {
            max,
            bytes_max,
            next: max.min(FIRST),
        }
    }

    pub(super) fn follow(&mut self, tempo: Tempo) {
        self.max = tempo.batch;
        self.next = self.next.min(tempo.batch);
    }

    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Learns from a claim of `records` records with `bytes` in all.
    pub(crate) fn learn(&mut self, records: usize, bytes: usize) {
        let average = (bytes / records.max(1)).max(1);
        let fitting = u32::try_from(self.bytes_max / average).unwrap_or(u32::MAX);
        self.next = fitting.min(self.next.saturating_mul(4)).clamp(1, self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waits_grow_and_stay_within_their_bounds() {
        let config = Config::default();
        let mut pace = Pace::new(&config);
        let waits: Vec<Duration> = (0..20)
            .map(|n| pace.idle(f64::from(n % 10) / 10.0))
            .collect();
        assert!(
            waits
                .iter()
                .all(|wait| *wait >= config.poll_min && *wait <= config.poll_max)
        );
        assert!(waits[10] > waits[0]);
        pace.busy();
        assert_eq!(pace.idle(0.0), config.poll_min);
    }

    #[test]
    fn large_records_make_claims_small_and_small_ones_let_them_grow() {
        let config = Config {
            batch: 2000,
            batch_bytes: 1 << 20,
            ..Config::default()
        };
        let mut appetite = Appetite::new(&config);
        assert_eq!(appetite.next(), 100);
        appetite.learn(100, 100 * 500);
        assert_eq!(appetite.next(), 400);
        appetite.learn(400, 400 * 500);
        appetite.learn(1600, 1600 * 500);
        assert_eq!(appetite.next(), 2000);
        appetite.learn(1, 10 << 20);
        assert_eq!(appetite.next(), 1);
    }
}
