//! Those who take from a queue, and the receipts that they give out.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::{Delivery, Receipt, SubscribeError};
use tokio::time::timeout_at;

use super::state::Taken;
use super::{Shared, Ticket};

/// Someone who takes deliveries and answers for them, until it leaves or is dropped.
pub(crate) struct Seat<T: Ticket> {
    shared: Arc<Shared<T>>,
    number: u64,
}

impl<T: Ticket> Seat<T> {
    pub(super) fn new(shared: Arc<Shared<T>>, number: u64) -> Self {
        Self { shared, number }
    }

    /// As [`postrider_core::Subscription::next`]. Fails with the queue's trouble if there is nothing to give.
    pub(crate) async fn next(&self, max: usize) -> Result<Vec<Delivery>, SubscribeError> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // Before looking, so that nothing is missed in between.
            changed.as_mut().enable();
            let due = match self.try_next(max)? {
                Ok(batch) => return Ok(batch),
                Err(due) => due,
            };
            match due {
                // That time is up is a reason to look again, like any other.
                Some(due) => timeout_at(due.into(), changed).await.unwrap_or(()),
                None => changed.await,
            }
        }
    }

    /// A batch, or when one might be there if nothing changes.
    fn try_next(
        &self,
        max: usize,
    ) -> Result<Result<Vec<Delivery>, Option<Instant>>, SubscribeError> {
        let mut state = self.shared.state();
        if state.is_closed(self.number) {
            return Err(SubscribeError::Closed);
        }
        let before = state.len();
        let batch = state.take(self.number, max, Instant::now());
        if state.len() < before {
            // What was due to go back has gone, which makes room.
            self.shared.freed.notify_waiters();
        }
        if !batch.is_empty() {
            let deliveries = batch.into_iter().map(|taken| self.delivery(taken));
            return Ok(Ok(deliveries.collect()));
        }
        match &state.trouble {
            Some(trouble) => Err(trouble.clone().into()),
            None => Ok(Err(state.next_due())),
        }
    }

    fn delivery(&self, taken: Taken) -> Delivery {
        let receipt = Box::new(Stub {
            shared: Arc::clone(&self.shared),
            number: taken.number,
        });
        let mut delivery = Delivery::new(taken.message, taken.attempt, taken.position, receipt);
        delivery.published_at = taken.published_at;
        delivery
    }

    /// Gives nothing more: `next` is closed from now on, also where it waits.
    pub(crate) fn close(&self) {
        self.shared.state().close(self.number);
        self.shared.changed.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.state().is_closed(self.number)
    }

    /// Waits until everything that was given is settled, and says whether that is so.
    pub(crate) async fn drained(&self, deadline: Instant) -> bool {
        let drained = async {
            loop {
                let mut freed = pin!(self.shared.freed.notified());
                freed.as_mut().enable();
                if !self.shared.state().holds_any(self.number) {
                    return;
                }
                freed.await;
            }
        };
        timeout_at(deadline.into(), drained).await.is_ok()
    }

    /// Closes at once. What was given and is not settled is lost to its holder and counts as nacked.
    pub(crate) fn leave(&self) {
        self.shared.state().stand_up(self.number, Instant::now());
        self.shared.lost.notify_waiters();
        self.shared.wake();
    }
}

impl<T: Ticket> Drop for Seat<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// What is left with the holder of a delivery.
struct Stub<T: Ticket> {
    shared: Arc<Shared<T>>,
    number: u64,
}

#[async_trait]
impl<T: Ticket> Receipt for Stub<T> {
    fn ack(self: Box<Self>) {
        self.shared.state().ack(self.number);
        self.shared.wake();
    }

    fn nack(self: Box<Self>, after: Duration) {
        self.shared.state().nack(self.number, after, Instant::now());
        self.shared.wake();
    }

    async fn lost(&self) {
        loop {
            let mut lost = pin!(self.shared.lost.notified());
            lost.as_mut().enable();
            // It was not settled, or this would not be here.
            if !self.shared.state().is_in_hand(self.number) {
                return;
            }
            lost.await;
        }
    }
}
