//! How fast a worker polls, and how much it asks for.

use std::time::Duration;

use super::{Config, Tempo};

/// Waits after empty claims are a part of the time that the table has been idle. So a record waits for a fraction of the
/// time in which there was none, and an idle table is asked ever more rarely: from `poll_min` up to `poll_max`, with jitter,
/// so that relays do not poll in step.
pub(super) struct Pace {
    min: Duration,
    max: Duration,
    idle: Duration,
}

/// Of the idle time, one wait is one in so many.
const PART: u32 = 4;

impl Pace {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            min: config.poll_min,
            max: config.poll_max,
            idle: Duration::ZERO,
        }
    }

    pub(super) fn follow(&mut self, tempo: Tempo) {
        (self.min, self.max) = (tempo.poll_min, tempo.poll_max);
    }

    pub(super) fn busy(&mut self) {
        self.idle = Duration::ZERO;
    }

    /// The wait after one more empty claim; `random` in `[0, 1)`. Always within the two bounds.
    pub(super) fn idle(&mut self, random: f64) -> Duration {
        let full = (self.idle / PART).clamp(self.min, self.max);
        // Up to a quarter more or less, but never out of bounds.
        let wait = full.mul_f64(0.75 + 0.5 * random).clamp(self.min, self.max);
        self.idle = self.idle.saturating_add(wait);
        wait
    }
}

/// The size of the next claim: the configured one, or fewer where records are large, so that memory
/// stays bounded. The first claim is small because nothing is known yet.
pub(crate) struct Appetite {
    max: u32,
    bytes_max: usize,
    next: u32,
    /// As many as would fit, as far as is known.
    fitting: u32,
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
            fitting: u32::MAX,
        }
    }

    pub(super) fn follow(&mut self, tempo: Tempo) {
        self.max = tempo.batch;
        self.next = self.next.min(tempo.batch);
    }

    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Whether claims are smaller than they may be, because little is known of the records yet.
    pub(super) fn is_growing(&self) -> bool {
        self.next < self.fitting.min(self.max)
    }

    /// Learns from a claim of `records` records with `bytes` in all.
    pub(crate) fn learn(&mut self, records: usize, bytes: usize) {
        let average = (bytes / records.max(1)).max(1);
        self.fitting = u32::try_from(self.bytes_max / average)
            .unwrap_or(u32::MAX)
            .max(1);
        let grown = self.next.saturating_mul(4);
        self.next = grown.min(self.fitting).clamp(1, self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waits_grow_and_stay_within_their_bounds() {
        let config = Config::default();
        let mut pace = Pace::new(&config);
        let waits: Vec<Duration> = (0..60)
            .map(|n| pace.idle(f64::from(n % 10) / 10.0))
            .collect();
        assert!(
            waits
                .iter()
                .all(|wait| *wait >= config.poll_min && *wait <= config.poll_max)
        );
        assert_eq!((waits[0], waits[59]), (config.poll_min, config.poll_max));
        assert!(waits[30] < config.poll_max && waits[30] > config.poll_min);
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
