//! How fast a worker polls, and how much it asks for.

use std::time::Duration;

use super::{Config, Tempo};

/// Waits after empty claims are a part of the time that the table has been idle. So a record waits for a fraction of the
/// time in which there was none, and an idle table is asked ever more rarely: from `poll_min` up to `poll_max`, with jitter,
/// so that relays do not poll in step.
///
/// A look that is dear, because much in the table is stuck, is made more rarely than that: the longest wait is so many times
/// as long as the look took, and the shortest grows with it too, so that a record now and then does not make looks dense.
pub(super) struct Pace {
    min: Duration,
    max: Duration,
    idle: Duration,
    /// How long the last looks took that found nothing to do.
    looks: [Duration; LOOKS],
    next_look: usize,
}

/// Of the idle time, one wait is one in so many.
const PART: u32 = 4;

/// A look takes at most about one part in so many of the idle time.
const LOOKING: u32 = 40;

/// The same shortly after there was something to do, for as much as a look takes longer than a cheap one.
const LOOKING_EARLY: u32 = 8;

/// A look counts by the quickest of so many: one that met a busy machine, or had to connect, says nothing of the table.
const LOOKS: usize = 4;

/// Nothing waits longer because looks are dear.
const DEAR_WAIT_MAX: Duration = Duration::from_secs(30);

impl Pace {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            min: config.poll_min,
            max: config.poll_max,
            idle: Duration::ZERO,
            looks: [Duration::ZERO; LOOKS],
            next_look: 0,
        }
    }

    pub(super) fn follow(&mut self, tempo: Tempo) {
        (self.min, self.max) = (tempo.poll_min, tempo.poll_max);
    }

    pub(super) fn busy(&mut self) {
        self.idle = Duration::ZERO;
    }

    /// The wait after one more look that found nothing to do and took so long; `random` in `[0, 1)`. Always within the
    /// bounds.
    pub(super) fn idle(&mut self, look: Duration, random: f64) -> Duration {
        self.looks[self.next_look] = look;
        self.next_look = (self.next_look + 1) % LOOKS;
        let (min, max) = self.bounds();
        let full = (self.idle / PART).clamp(min, max);
        // Up to a quarter more or less, but never out of bounds.
        let wait = full.mul_f64(0.75 + 0.5 * random).clamp(min, max);
        self.idle = self.idle.saturating_add(look).saturating_add(wait);
        wait
    }

    /// The shortest and the longest wait, as dear as looks are at the moment.
    fn bounds(&self) -> (Duration, Duration) {
        let look = self.looks.iter().min().copied().unwrap_or_default();
        let dear = |wait: Duration| wait.min(DEAR_WAIT_MAX);
        let beyond_cheap = look.saturating_sub(self.max / LOOKING);
        let min = dear(beyond_cheap.saturating_mul(LOOKING_EARLY)).max(self.min);
        let max = dear(look.saturating_mul(LOOKING)).max(self.max);
        (min, max.max(min))
    }
}

/// The size of the next claim: the configured one, or fewer where records are large. Bytes are bounded by the store; to ask
/// for no more records than will fit spares it from looking at them. The first claim is small because nothing is known yet.
pub(crate) struct Appetite {
    max: u32,
    bytes_max: usize,
    next: u32,
    /// Bytes of a record, as far as is known.
    average: usize,
}

/// Records of the first claim. Growth is fourfold a claim, so a large batch is reached in four.
const FIRST: u32 = 10;

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
            average: 1,
        }
    }

    pub(super) fn follow(&mut self, tempo: Tempo) {
        self.max = tempo.batch;
        self.bytes_max = tempo.batch_bytes;
        self.next = self.next.min(tempo.batch);
    }

    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// What one of so many workers asks for, when they share the bytes.
    pub(super) fn next_of(&self, workers: u32) -> (u32, usize) {
        let bytes = (self.bytes_max / workers.max(1) as usize).max(1);
        (self.next.min(self.fitting(bytes)), bytes)
    }

    /// Whether claims are smaller than they may be, because little is known of the records yet.
    pub(super) fn is_growing(&self) -> bool {
        self.next < self.fitting(self.bytes_max).min(self.max)
    }

    fn fitting(&self, bytes: usize) -> u32 {
        u32::try_from(bytes / self.average)
            .unwrap_or(u32::MAX)
            .max(1)
    }

    /// Learns from a claim of `records` records with `bytes` in all.
    pub(crate) fn learn(&mut self, records: usize, bytes: usize) {
        self.average = (bytes / records.max(1)).max(1);
        let grown = self.next.saturating_mul(4);
        self.next = grown.min(self.fitting(self.bytes_max)).clamp(1, self.max);
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
            .map(|n| pace.idle(Duration::ZERO, f64::from(n % 10) / 10.0))
            .collect();
        assert!(
            waits
                .iter()
                .all(|wait| *wait >= config.poll_min && *wait <= config.poll_max)
        );
        assert_eq!((waits[0], waits[59]), (config.poll_min, config.poll_max));
        assert!(waits[30] < config.poll_max && waits[30] > config.poll_min);
        pace.busy();
        assert_eq!(pace.idle(Duration::ZERO, 0.0), config.poll_min);
    }

    /// The waits after looks that take so long each.
    fn waits(pace: &mut Pace, look: Duration, looks: usize) -> Vec<Duration> {
        (0..looks).map(|_| pace.idle(look, 0.5)).collect()
    }

    #[test]
    fn looks_that_are_dear_take_a_fortieth_of_the_idle_time() {
        let config = Config::default();
        for millis in [5, 20, 150, 700] {
            let look = Duration::from_millis(millis);
            let mut pace = Pace::new(&config);
            let waits = waits(&mut pace, look, 100);
            assert_eq!(waits[99], look * LOOKING, "{look:?}");
            // Nor are they dense from the start, once it is clear that they are dear.
            pace.busy();
            let early = pace.idle(look, 0.5);
            assert!(
                early >= look * 4 && early < waits[99],
                "{look:?}: {early:?}"
            );
        }
    }

    #[test]
    fn looks_that_are_cheap_change_nothing() {
        let config = Config::default();
        let (mut quick, mut cheap) = (Pace::new(&config), Pace::new(&config));
        let look = config.poll_max / LOOKING;
        assert_eq!(waits(&mut quick, Duration::ZERO, 60)[59], config.poll_max);
        assert_eq!(waits(&mut cheap, look, 60)[59], config.poll_max);
        cheap.busy();
        assert_eq!(cheap.idle(look, 0.0), config.poll_min);
    }

    #[test]
    fn one_slow_look_does_not_make_looks_rare() {
        let config = Config::default();
        let mut pace = Pace::new(&config);
        waits(&mut pace, Duration::from_millis(1), 60);
        assert_eq!(pace.idle(Duration::from_secs(5), 0.5), config.poll_max);
        // The first looks have connections to make.
        let mut pace = Pace::new(&config);
        assert_eq!(pace.idle(Duration::from_secs(1), 0.0), config.poll_min);
    }

    #[test]
    fn no_look_is_so_dear_that_nobody_looks() {
        let config = Config::default();
        let mut pace = Pace::new(&config);
        let waits = waits(&mut pace, Duration::from_secs(3600), 60);
        assert!(waits.iter().all(|wait| *wait <= DEAR_WAIT_MAX));
        let hour = Duration::from_secs(3600);
        let mut patient = Pace::new(&Config {
            poll_min: hour,
            poll_max: hour,
            ..config
        });
        assert_eq!(patient.idle(hour, 0.5), hour);
    }

    #[test]
    fn large_records_make_claims_small_and_small_ones_let_them_grow() {
        let config = Config {
            batch: 2000,
            batch_bytes: 1 << 20,
            ..Config::default()
        };
        let mut appetite = Appetite::new(&config);
        assert_eq!(appetite.next_of(1), (10, 1 << 20));
        for next in [40, 160, 640, 2000] {
            assert!(appetite.is_growing());
            appetite.learn(10, 10 * 500);
            assert_eq!(appetite.next(), next);
        }
        assert!(!appetite.is_growing());
        assert_eq!(appetite.next_of(4), ((1 << 18) / 500, 1 << 18));
        appetite.learn(1, 10 << 20);
        assert_eq!(appetite.next_of(4), (1, 1 << 18));
    }
}
