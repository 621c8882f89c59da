//! How many workers are at work: one while it keeps up alone, all of them while there is more than that.

use std::time::{Duration, Instant};

use postrider_core::Share;
use tokio::sync::watch;

/// How long all stay at work after they were last called.
const CALLED_FOR: Duration = Duration::from_secs(1);

/// A cycle that takes longer holds up the keys of its claim, so they are shared out.
const SLOW: Duration = Duration::from_millis(50);

/// The first cycle has connections to make.
const SLOW_AT_FIRST: Duration = Duration::from_secs(1);

/// The workers of one relay. Two shares that overlap for a moment do no harm: what one worker holds, another does not get.
pub(super) struct Crew {
    of: u32,
    called: watch::Sender<Option<Instant>>,
}

impl Crew {
    pub(super) fn new(of: u32) -> Self {
        Self {
            of,
            called: watch::Sender::new(None),
        }
    }

    /// What a worker may claim from. All but the first wait here until they are called.
    pub(super) async fn share(&self, index: u32) -> Share {
        let mut called = self.called.subscribe();
        loop {
            let all = called
                .borrow_and_update()
                .is_some_and(|at| at.elapsed() < CALLED_FOR);
            if all {
                return Share { index, of: self.of };
            }
            if index == 0 {
                return Share::ALL;
            }
            if called.changed().await.is_err() {
                // The sender is ours and lives as long as this.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Runs a cycle, and calls all workers for as long as it is slow.
    pub(super) async fn watch<T>(&self, cycle: impl Future<Output = T>, is_first: bool) -> T {
        let slow = if is_first { SLOW_AT_FIRST } else { SLOW };
        tokio::pin!(cycle);
        loop {
            match tokio::time::timeout(slow, &mut cycle).await {
                Ok(done) => return done,
                Err(_) => self.call(),
            }
        }
    }

    /// Calls all workers, for a while.
    pub(super) fn call(&self) {
        self.called.send_replace(Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_are_called_when_one_cannot_keep_up() {
        let crew = Crew::new(3);
        assert_eq!(crew.share(0).await, Share::ALL);
        let mut second = Box::pin(crew.share(1));
        assert!(futures::poll!(&mut second).is_pending());
        crew.call();
        assert_eq!(second.await, Share { index: 1, of: 3 });
        assert_eq!(crew.share(0).await, Share { index: 0, of: 3 });
    }

    #[tokio::test]
    async fn a_slow_cycle_calls_the_others_while_it_lasts() {
        let crew = Crew::new(2);
        crew.watch(std::future::ready(()), true).await;
        assert_eq!(crew.share(0).await, Share::ALL);
        let called = async {
            let share = crew.share(1).await;
            assert_eq!(share, Share { index: 1, of: 2 });
        };
        tokio::select! {
            () = crew.watch(std::future::pending(), false) => {}
            () = called => {}
        }
    }
}
