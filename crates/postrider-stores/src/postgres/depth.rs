//! How far a lease claim in order looks.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// With order per key, how many of the oldest records of its lanes a claim looks at. Those that
/// another relay has in flight are among them, and those that wait behind others. Looking is a
/// quarter of what a claim costs, so a claim looks at little more than it wants, until one finds
/// less than it wants.
#[derive(Debug, Default)]
pub(super) struct Depth(AtomicU32);

impl Depth {
    const MIN: u32 = 256;
    /// Below the floor there is little that can be claimed among much that cannot.
    pub(super) const BELOW: u32 = 1 << 20;
    /// Each step looks twice as far.
    const STEPS_MAX: u32 = 3;

    pub(super) fn of(&self, limit: u32) -> u32 {
        let first = Self::MIN.max(limit.saturating_add(limit / 8));
        first.saturating_mul(1 << self.0.load(Relaxed).min(Self::STEPS_MAX))
    }

    /// `whole`: whether the claim has seen all that there was.
    pub(super) fn learn(&self, limit: u32, claimed: usize, whole: bool) {
        let steps = self.0.load(Relaxed);
        let steps = match claimed >= limit as usize {
            true => steps.saturating_sub(1),
            false if whole => steps,
            false => Self::STEPS_MAX.min(steps + 1),
        };
        self.0.store(steps, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_looks_further_after_one_that_found_less_than_it_wanted() {
        let depth = Depth::default();
        assert_eq!((depth.of(50), depth.of(2_000)), (256, 2_250));
        depth.learn(2_000, 10, false);
        assert_eq!(depth.of(2_000), 4_500);
        (0..9).for_each(|_| depth.learn(2_000, 10, false));
        assert_eq!(depth.of(2_000), 18_000);
        depth.learn(2_000, 10, true);
        assert_eq!(depth.of(2_000), 18_000, "there was no more to find");
        (0..9).for_each(|_| depth.learn(2_000, 2_000, false));
        assert_eq!(depth.of(2_000), 2_250);
    }
}
