//! How many workers are at work: one while it keeps up alone, all of them while there is more than that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::Share;
use tokio::sync::watch;

/// How long all stay at work after they were last called.
const CALLED_FOR: Duration = Duration::from_secs(1);

/// A round that takes longer holds up the keys of its claim, so they are shared out.
const SLOW: Duration = Duration::from_millis(50);

/// The first round has connections to make.
const SLOW_AT_FIRST: Duration = Duration::from_secs(1);

/// One cycle of a worker, in rounds: the first claims, later ones go on with the same claim.
pub(super) struct Stint {
    began: Instant,
    goes_on_for: Duration,
    slow: Duration,
    round: Mutex<Instant>,
    claimed: OnceLock<Instant>,
    /// Whether what is in hand is of a kind that others could help with.
    is_shareable: AtomicBool,
}

impl Stint {
    pub(super) fn new(goes_on_for: Duration, is_first: bool) -> Self {
        let began = Instant::now();
        Self {
            began,
            goes_on_for,
            slow: if is_first { SLOW_AT_FIRST } else { SLOW },
            round: Mutex::new(began),
            claimed: OnceLock::new(),
            is_shareable: AtomicBool::new(false),
        }
    }

    /// Records are in hand; whether several claims may hold such ones at a time.
    pub(super) fn in_hand(&self, is_shareable: bool) {
        self.claimed.get_or_init(Instant::now);
        self.is_shareable.store(is_shareable, Ordering::Relaxed);
    }

    pub(super) fn is_shareable(&self) -> bool {
        self.is_shareable.load(Ordering::Relaxed)
    }

    /// How long it took to look for records.
    pub(super) fn look(&self) -> Duration {
        let claimed = self.claimed.get().copied();
        claimed.unwrap_or_else(Instant::now) - self.began
    }

    /// Whether there is time for another round.
    pub(super) fn goes_on(&self) -> bool {
        self.began.elapsed() < self.goes_on_for
    }

    /// Begins another round and says how long the last one took.
    pub(super) fn next_round(&self) -> Duration {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *round, Instant::now()).elapsed()
    }

    fn slow_at(&self) -> Instant {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) + self.slow
    }
}

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

    /// Runs a cycle, and calls all workers for as long as a round of it is slow that has records in hand: to look for
    /// them with many would not find more.
    pub(super) async fn watch<T>(&self, cycle: impl Future<Output = T>, stint: &Stint) -> T {
        tokio::pin!(cycle);
        let mut at = stint.slow_at();
        loop {
            match tokio::time::timeout_at(at.into(), &mut cycle).await {
                Ok(done) => return done,
                Err(_) if stint.slow_at() > at => at = stint.slow_at(),
                Err(_) => {
                    if stint.is_shareable() {
                        self.call();
                    }
                    at += stint.slow;
                }
            }
        }
    }

    /// Calls all workers, for a while.
    pub(super) fn call(&self) {
        self.called.send_replace(Some(Instant::now()));
    }

    /// Lets all but the first go when they are done with what they have in hand.
    pub(super) fn dismiss(&self) {
        self.called.send_replace(None);
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
        let stint = Stint::new(Duration::ZERO, true);
        crew.watch(std::future::ready(()), &stint).await;
        assert_eq!(crew.share(0).await, Share::ALL);
        let called = async {
            let share = crew.share(1).await;
            assert_eq!(share, Share { index: 1, of: 2 });
        };
        let stint = Stint::new(Duration::ZERO, false);
        stint.in_hand(true);
        tokio::select! {
            () = crew.watch(std::future::pending(), &stint) => {}
            () = called => {}
        }
        crew.dismiss();
        assert_eq!(crew.share(0).await, Share::ALL);
    }

    #[tokio::test]
    async fn a_slow_cycle_calls_nobody_while_it_looks_or_holds_what_only_one_may() {
        let crew = Crew::new(2);
        for in_hand in [None, Some(false)] {
            let stint = Stint::new(Duration::ZERO, false);
            if let Some(is_shareable) = in_hand {
                stint.in_hand(is_shareable);
            }
            let slow = tokio::time::sleep(SLOW * 3);
            crew.watch(slow, &stint).await;
            assert_eq!(crew.share(0).await, Share::ALL);
        }
    }

    #[tokio::test]
    async fn rounds_that_are_quick_call_nobody_however_long_they_go_on() {
        let crew = Crew::new(2);
        let stint = Stint::new(SLOW_AT_FIRST * 3 / 2, true);
        let rounds = async {
            while stint.goes_on() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                stint.next_round();
            }
        };
        crew.watch(rounds, &stint).await;
        assert_eq!(crew.share(0).await, Share::ALL);
    }
}
