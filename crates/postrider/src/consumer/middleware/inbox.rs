//! Skips what this consumer has applied before.

use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{Admission, Arrival, Handled, HandlerError, InboxStore};

use super::transaction::Entry;
use crate::consumer::{Context, Middleware, Next};

/// Enters the event in the inbox table first, in the handler's transaction: entry and effects are committed
/// together or not at all. A duplicate skips the handler and counts as success.
pub struct Inbox<I> {
    inbox: Arc<I>,
    subscriber: Option<String>,
}

impl<I> Inbox<I> {
    pub fn new(inbox: I) -> Self {
        Self {
            inbox: Arc::new(inbox),
            subscriber: None,
        }
    }

    /// Who has seen an event; by default the consumer's name.
    #[must_use]
    pub fn subscriber(mut self, name: impl Into<String>) -> Self {
        self.subscriber = Some(name.into());
        self
    }
}

#[async_trait]
impl<T: Send + 'static, I: InboxStore<T>> Middleware<T> for Inbox<I> {
    async fn handle(
        &self,
        ctx: &mut Context<T>,
        next: Next<'_, T>,
    ) -> Result<Handled, HandlerError> {
        match self.admission(ctx).await? {
            Admission::First => next.run(ctx).await,
            Admission::Duplicate => Ok(Handled::Duplicate),
        }
    }
}

impl<I> Inbox<I> {
    /// Asks about this event and, in a batch, about those that follow it in the same transaction: one statement
    /// for all of them.
    async fn admission<T: Send + 'static>(
        &self,
        ctx: &mut Context<T>,
    ) -> Result<Admission, HandlerError>
    where
        I: InboxStore<T>,
    {
        ctx.opened()?;
        let Some(this) = ctx
            .entry()
            .filter(|entry| !entry.event_id.as_str().is_empty())
        else {
            return Err(HandlerError::permanent(
                "inbox: message has no ID attribute",
            ));
        };
        let seat = ctx.seat().cloned();
        let own_number = Arc::as_ptr(&self.inbox) as usize;
        if let Some(known) = seat.as_ref().and_then(|seat| seat.foreseen(own_number)) {
            return Ok(known);
        }
        let later = seat.as_ref().map(|seat| seat.later()).unwrap_or_default();
        let entries = std::iter::once(&this).chain(later.iter().map(|(_, entry)| entry));
        let arrivals: Vec<Arrival<'_>> = entries.map(arrival).collect();
        let consumer = ctx.consumer_name();
        let subscriber = self.subscriber.as_deref().unwrap_or(&consumer);
        let mut said = self
            .inbox
            .admit(ctx.tx(), subscriber, &arrivals)
            .await?
            .into_iter();
        let admission = said.next().unwrap_or(Admission::Duplicate);
        if let Some(seat) = seat {
            let indexes = later.iter().map(|(index, _)| *index);
            seat.foresee(own_number, indexes.zip(said));
        }
        Ok(admission)
    }
}

fn arrival(entry: &Entry) -> Arrival<'_> {
    Arrival {
        event_id: &entry.event_id,
        event_type: entry.event_type.as_deref(),
        source: entry.source.as_deref(),
    }
}
