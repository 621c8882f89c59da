//! The stack as the plan draws it.

use postrider::consumer::Builder;
use postrider::consumer::middleware::{Ack, Transaction};
use postrider::stores::postgres::{PgPool, PgTransactions, Tx};

use crate::{InboxConfig, OutboxConfig};

/// `Router [Acking → TxMiddleware → InboxMiddleware → OutboxMiddleware → Handler]`: say `.handle(…)` to end it.
///
/// Inbox and outbox stand behind the transaction or this does not compile.
pub fn router(
    consumer: Builder,
    pool: &PgPool,
    inbox: &InboxConfig,
    outbox: &OutboxConfig,
) -> Builder<Tx> {
    consumer
        // Acknowledges on success, and on a duplicate.
        .with(Ack::default())
        // BEGIN and COMMIT.
        .with(Transaction::new(PgTransactions::new(pool.clone())))
        // Dedup check, first in the transaction.
        .with(inbox.middleware())
        // Outputs, last in the transaction.
        .with(outbox.middleware())
}
