//! What of a relay's settings may change while it runs: how much it claims at a time, how often it asks.

use std::time::Duration;

use tokio::sync::watch;

use super::Config;

/// The shortest wait between two polls: none at all would be a hot loop.
const POLL_LEAST: Duration = Duration::from_millis(1);

/// How much a relay claims at a time, and how long it waits when there was nothing; see [`Config`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tempo {
    pub batch: u32,
    pub batch_bytes: usize,
    pub poll_min: Duration,
    pub poll_max: Duration,
}

/// Sets the tempo of one relay, before or while it runs. Clones set the same relay's.
#[derive(Debug, Clone)]
pub struct Dial(watch::Sender<Tempo>);

impl Dial {
    pub(super) fn new(config: &Config) -> Self {
        let tempo = Tempo {
            batch: config.batch,
            batch_bytes: config.batch_bytes,
            poll_min: config.poll_min,
            poll_max: config.poll_max,
        };
        Self(watch::Sender::new(tempo.possible()))
    }

    pub fn tempo(&self) -> Tempo {
        *self.0.borrow()
    }

    /// Counts from each worker's next claim on, and wakes those that wait. Gives what is in force: at least one record and
    /// one byte, at least a millisecond, and a `poll_max` that is not below `poll_min`.
    pub fn set(&self, tempo: Tempo) -> Tempo {
        let tempo = tempo.possible();
        self.0.send_replace(tempo);
        tempo
    }

    pub(super) fn watch(&self) -> watch::Receiver<Tempo> {
        self.0.subscribe()
    }
}

impl Tempo {
    fn possible(self) -> Self {
        let poll_min = self.poll_min.max(POLL_LEAST);
        Self {
            batch: self.batch.max(1),
            batch_bytes: self.batch_bytes.max(1),
            poll_min,
            poll_max: self.poll_max.max(poll_min),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tempo_that_cannot_be_becomes_the_nearest_that_can() {
        let dial = Dial::new(&Config::default());
        let asked = Tempo {
            batch: 0,
            batch_bytes: 0,
            poll_min: Duration::from_secs(3),
            poll_max: Duration::from_secs(2),
        };
        let set = dial.clone().set(asked);
        assert_eq!(set, dial.tempo());
        assert_eq!((set.batch, set.batch_bytes), (1, 1));
        assert_eq!(set.poll_max, Duration::from_secs(3));
        let none = Duration::ZERO;
        let set = dial.set(Tempo {
            poll_min: none,
            poll_max: none,
            ..asked
        });
        assert_eq!((set.poll_min, set.poll_max), (POLL_LEAST, POLL_LEAST));
    }
}
