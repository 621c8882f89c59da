//! Recording the events that a handler gave back, in its transaction.

use async_trait::async_trait;
use postrider_core::{Emitted, Event, HandlerError, OutboxWriter, Room};

use super::emit::Outbox;
use super::error::is_transient;
use super::tx::Tx;
use crate::emit::handler_error;

#[async_trait]
impl OutboxWriter<Tx> for Outbox {
    async fn enqueue(&self, tx: &mut Tx, events: &[Event]) -> Result<Vec<Emitted>, HandlerError> {
        let had_room = Outbox::room(self);
        let emitted = self.emit_all(tx, events).await;
        // What the table lacks is known from the first look at it on, and the next try heeds it.
        let looked = had_room != Outbox::room(self);
        emitted.map_err(|error| handler_error(error, looked, is_transient))
    }

    fn room(&self) -> Room {
        Outbox::room(self)
    }
}
