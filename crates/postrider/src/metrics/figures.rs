//! The figures of one outbox as numbers, for whoever shows them in this process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::OutboxMetrics;

/// Batches that quantiles are taken from.
const RECENT_MAX: usize = 1_000;

/// What a relay has done since it was made. Counts of the table are not among them: ask the store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub published: u64,
    pub failed: u64,
    pub dead: u64,
    pub released: u64,
    pub lanes_held: u64,
    /// How long the broker took for each of the last 1,000 batches; `None` before the first.
    pub publish_seconds: Option<Quantiles>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    pub p50: f64,
    pub p99: f64,
}

impl OutboxMetrics {
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            published: self.published.get(),
            failed: self.failed.get(),
            dead: self.dead.get(),
            released: self.released.get(),
            lanes_held: u64::try_from(self.lanes.get()).unwrap_or_default(),
            publish_seconds: self.recent.quantiles(),
        }
    }
}

/// The last times, since a histogram's buckets are too coarse to be drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent(Arc<Mutex<VecDeque<f64>>>);

impl Recent {
    pub(super) fn took(&self, took: Duration) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() == RECENT_MAX {
            times.pop_front();
        }
        times.push_back(took.as_secs_f64());
    }

    fn quantiles(&self) -> Option<Quantiles> {
        let mut times: Vec<f64> = {
            let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            times.iter().copied().collect()
        };
        times.sort_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        Some(Quantiles {
            p50: times[last / 2],
            p99: times[last * 99 / 100],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn quantiles_are_of_the_last_thousand_batches() {
        let metrics = Metrics::new().of("orders");
        assert_eq!(metrics.figures().publish_seconds, None);
        for _ in 0..5_000 {
            metrics.publish_took(Duration::from_secs(60));
        }
        for millis in 1..=1_000 {
            metrics.publish_took(Duration::from_millis(millis));
        }
        let found = metrics.figures().publish_seconds;
        assert_eq!(
            found,
            Some(Quantiles {
                p50: 0.5,
                p99: 0.99
            })
        );
    }

    #[test]
    fn figures_follow_the_metrics() {
        let metrics = Metrics::new().of("orders");
        let held = metrics.hold_lanes(3);
        assert_eq!(metrics.figures().lanes_held, 3);
        drop(held);
        assert_eq!(metrics.figures().lanes_held, 0);
        metrics.settled(
            &[
                postrider_core::Fate::Published,
                postrider_core::Fate::Released,
            ],
            0,
            Duration::ZERO,
        );
        let figures = metrics.figures();
        assert_eq!((figures.published, figures.released), (1, 1));
        assert_eq!((figures.failed, figures.dead), (0, 0));
    }
}
