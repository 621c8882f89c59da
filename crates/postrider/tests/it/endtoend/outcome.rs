//! What an arena looks like when all is quiet, against what should have happened.

use postrider_testkit::history::Verdict;

use super::arena::Arena;

pub(crate) struct Outcome {
    pub(crate) orders: i64,
    /// In the order in which they happened. Duplicates are effects that happened again.
    pub(crate) effects: Verdict,
    /// The topic between shop and service.
    pub(crate) log: Verdict,
    /// Deliveries whose effects were there already.
    pub(crate) suppressed: i64,
    /// Processes that had a hand in it.
    pub(crate) processes: i64,
}

impl Outcome {
    pub(crate) async fn of(arena: &Arena) -> Self {
        let committed = arena.committed().await;
        let processes = "SELECT count(DISTINCT process) FROM effects";
        Self {
            orders: arena.orders().await,
            effects: Verdict::of(&committed, &arena.effects().await),
            log: Verdict::of(&committed, &arena.log("").await),
            suppressed: arena.service.count("duplicates").await,
            processes: arena.service.number(processes).await,
        }
    }

    pub(crate) fn report(&self, what: &str) {
        println!(
            "{what}: orders {}, effects {}: lost {}, invented {}, doubled {}, inverted {}; \
             redeliveries suppressed {}, published twice {}, consumer processes {}",
            self.orders,
            self.effects.published,
            self.effects.lost.len(),
            self.effects.invented.len(),
            self.effects.duplicates,
            self.effects.inverted.len(),
            self.suppressed,
            self.log.duplicates,
            self.processes,
        );
    }

    /// Every order had its effect once, and a customer's in order.
    #[track_caller]
    pub(crate) fn assert_applied_once_in_order(&self) {
        self.effects.assert_clean();
        assert_eq!(self.effects.duplicates, 0, "effects happened twice");
    }

    /// Else the test shows nothing.
    #[track_caller]
    pub(crate) fn assert_redelivered(&self) {
        assert!(self.suppressed > 0, "nothing was delivered twice");
    }
}

/// Every order has one follow-up in the outbox, which names it as its cause; and it was published, in order.
pub(crate) async fn assert_followed_up_once(arena: &Arena, what: &str) {
    let committed = arena.committed().await;
    let captured = Verdict::of(&committed, &arena.captured().await);
    captured.assert_clean();
    assert_eq!(captured.duplicates, 0, "follow-ups were captured twice");
    assert_eq!(arena.without_cause().await, 0);
    let published = Verdict::of(&committed, &arena.log(".followups").await);
    published.assert_clean();
    println!(
        "{what}: follow-ups captured {}, published {}, of these twice {}",
        captured.published, published.published, published.duplicates
    );
}
