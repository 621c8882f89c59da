//! What is offered and not taken yet: a claim's messages at most.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Outgoing;

#[derive(Default)]
pub(super) struct Offers {
    waiting: Mutex<VecDeque<Outgoing>>,
    arrived: Notify,
    pub(super) stop: CancellationToken,
}

impl Offers {
    pub(super) fn put(&self, messages: impl IntoIterator<Item = Outgoing>) {
        self.waiting().extend(messages);
        self.arrived.notify_waiters();
    }

    pub(super) async fn next(&self) -> Option<Outgoing> {
        loop {
            // Armed before the look, so that a message that comes after it is not missed.
            let arrived = self.arrived.notified();
            if self.stop.is_cancelled() {
                return None;
            }
            if let Some(message) = self.waiting().pop_front() {
                return Some(message);
            }
            tokio::select! {
                () = arrived => {}
                () = self.stop.cancelled() => return None,
            }
        }
    }

    /// Takes back what nobody has taken.
    pub(super) fn withdraw(&self) {
        let untaken = std::mem::take(&mut *self.waiting());
        untaken.into_iter().for_each(Outgoing::withdraw);
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Outgoing>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
