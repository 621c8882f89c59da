//! When the client lets go of a lease it tells nobody. So messages are lots by the time at which they came, and a lot
//! whose time is over is taken back.

use std::time::Duration;

use tokio::time::Instant;

use crate::queue::Lot;

/// Into how many slices the longest lease is cut. A lease may end early by one slice.
const SLICES: u32 = 60;

#[derive(Debug, Clone, Copy)]
pub(super) struct Slices {
    began: Instant,
    slice: Duration,
    lease_max: Duration,
}

impl Slices {
    pub(super) fn new(lease_max: Duration) -> Self {
        Self {
            began: Instant::now(),
            slice: lease_max / SLICES,
            lease_max,
        }
    }

    /// The lot of what comes now.
    pub(super) fn now(&self) -> Lot {
        self.lot_at(self.began.elapsed())
    }

    /// Up to which lot leases have ended.
    pub(super) fn ended(&self) -> Option<Lot> {
        self.ended_at(self.began.elapsed())
    }

    pub(super) fn slice(&self) -> Duration {
        self.slice
    }

    fn lot_at(&self, elapsed: Duration) -> Lot {
        Lot((elapsed.as_nanos() / self.slice.as_nanos().max(1)) as u64)
    }

    fn ended_at(&self, elapsed: Duration) -> Option<Lot> {
        elapsed
            .checked_sub(self.lease_max)
            .map(|elapsed| self.lot_at(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_back_when_its_lease_ends_and_at_most_a_slice_before() {
        let slices = Slices::new(Duration::from_secs(3600));
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let lot = slices.lot_at(minutes(5) + Duration::from_secs(59));
        assert_eq!(lot, Lot(5));
        assert_eq!(slices.ended_at(minutes(59)), None);
        assert!(slices.ended_at(minutes(65) - Duration::from_secs(1)) < Some(lot));
        assert_eq!(slices.ended_at(minutes(65)), Some(lot));
    }
}
