//! What is known about the messages of one call of `publish`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::Notify;

/// What librdkafka said of a message; of one that failed also its partition, if it had one.
pub(super) type Report = Result<(), (RDKafkaErrorCode, Option<i32>)>;

/// One slot per message, filled by the polling thread, and the call that waits for them.
#[derive(Debug)]
pub(super) struct Call {
    reports: Mutex<Vec<Option<Report>>>,
    /// Messages that are with librdkafka.
    underway: AtomicUsize,
    failed: AtomicUsize,
    changed: Notify,
}

impl Call {
    pub(super) fn new(messages: usize) -> Self {
        Self {
            reports: Mutex::new(vec![None; messages]),
            underway: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            changed: Notify::new(),
        }
    }

    /// Counts a message in before it is handed over: its report may come at once.
    pub(super) fn hand_over(&self) {
        self.underway.fetch_add(1, Ordering::Relaxed);
    }

    /// librdkafka did not take it after all.
    pub(super) fn take_back(&self) {
        self.underway.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn report(&self, index: usize, report: Report) {
        let first = self.lock()[index].replace(report).is_none();
        self.failed
            .fetch_add(usize::from(report.is_err()), Ordering::Release);
        // Whoever sees that none is underway sees all reports.
        if first && self.underway.fetch_sub(1, Ordering::AcqRel) == 1 {
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
        self.underway() == 0
    }

    /// Messages that are with librdkafka.
    pub(super) fn underway(&self) -> usize {
        self.underway.load(Ordering::Acquire)
    }

    pub(super) fn failures(&self) -> usize {
        self.failed.load(Ordering::Acquire)
    }

    /// The messages that were not taken, by their places in the batch.
    pub(super) fn failed(&self) -> Vec<usize> {
        let reports = self.lock();
        let is_failed = |index: &usize| matches!(reports[*index], Some(Err(_)));
        (0..reports.len()).filter(is_failed).collect()
    }

    pub(super) fn reports(&self) -> Vec<Option<Report>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Report>>> {
        // Nothing under this lock panics half way.
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
