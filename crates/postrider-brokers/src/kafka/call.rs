//! What is known about the messages of one call of `publish`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::Notify;

/// What librdkafka said of a message.
pub(super) type Report = Result<(), RDKafkaErrorCode>;

/// One slot per message, filled by the polling thread, and the call that waits for them.
#[derive(Debug)]
pub(super) struct Call {
    slots: Mutex<Slots>,
    changed: Notify,
}

#[derive(Debug)]
struct Slots {
    reports: Vec<Option<Report>>,
    /// Messages that are with librdkafka.
    underway: usize,
    failed: usize,
}

impl Call {
    pub(super) fn new(messages: usize) -> Self {
        let slots = Slots {
            reports: vec![None; messages],
            underway: 0,
            failed: 0,
        };
        Self {
            slots: Mutex::new(slots),
            changed: Notify::new(),
        }
    }

    /// Counts a message in before it is handed over: its report may come at once.
    pub(super) fn hand_over(&self) {
        self.slots().underway += 1;
    }

    /// librdkafka did not take it after all.
    pub(super) fn take_back(&self) {
        self.slots().underway -= 1;
    }

    pub(super) fn report(&self, index: usize, report: Report) {
        let mut slots = self.slots();
        if slots.reports[index].replace(report).is_none() {
            slots.underway -= 1;
        }
        slots.failed += usize::from(report.is_err());
        if slots.underway == 0 {
            self.changed.notify_one();
        }
    }

    /// Wakes the call, for news that are not about one message.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether nothing is with librdkafka any more.
    pub(super) fn is_settled(&self) -> bool {
        self.slots().underway == 0
    }

    pub(super) fn failures(&self) -> usize {
        self.slots().failed
    }

    pub(super) fn reports(&self) -> Vec<Option<Report>> {
        self.slots().reports.clone()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Nothing under this lock panics half way.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
