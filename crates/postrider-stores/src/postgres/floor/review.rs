//! When to look again at what lies below the floor: for what is not settled where everything was,
//! and for the keys of what is stuck. A look reads all that is stuck, so it is made as often as it
//! is cheap.

use std::time::{Duration, Instant};

/// Looks take at most one part in so many of the time.
const PART: u32 = 200;
const EVERY_MIN: Duration = Duration::from_secs(1);
const EVERY_MAX: Duration = Duration::from_secs(60);
/// Where nothing is stuck, only what somebody set back can have changed.
const EVERY_CLEAN: Duration = Duration::from_secs(5);
/// The same after something below the floor was free: its key may be free too.
const PART_DENSE: u32 = 10;

#[derive(Debug)]
pub(super) struct Review {
    made_at: Instant,
    took: Duration,
    /// Whether a claim has found something below the floor since the last look began.
    pub found: bool,
}

impl Review {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            made_at: now,
            took: Duration::ZERO,
            found: false,
        }
    }

    pub(super) fn is_due(&self, any_stuck: bool) -> bool {
        let pause = match any_stuck {
            true if self.found => (self.took * PART_DENSE).min(EVERY_MAX),
            true => (self.took * PART).clamp(EVERY_MIN, EVERY_MAX),
            false => (self.took * PART).clamp(EVERY_CLEAN, EVERY_MAX),
        };
        self.made_at.elapsed() >= pause
    }

    pub(super) fn was_made(&mut self, began: Instant) {
        self.made_at = Instant::now();
        self.took = began.elapsed();
    }
}
