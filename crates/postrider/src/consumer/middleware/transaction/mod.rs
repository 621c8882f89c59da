//! The transaction that a handler's effects, its inbox entry and its captured events share.

mod together;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Handled, HandlerError, StoreError, Transactions};

use crate::consumer::chain::Chain;
use crate::consumer::context::AfterCommit;
use crate::consumer::{Context, Handler};
use crate::failpoints;

pub(in crate::consumer) use together::{Entry, Group, Left, Seat};
use together::{Turn, Verdict};

/// How long a rollback may take before the connection is closed instead.
const ROLLBACK_MAX: Duration = Duration::from_secs(1);

/// Opens a transaction around the rest of the chain: commits after success, rolls back on an error, a panic, a
/// timeout or a stop.
pub struct Transaction<S> {
    store: Arc<S>,
    batch: usize,
}

impl<S: Transactions> Transaction<S> {
    pub fn new(store: S) -> Self {
        Self {
            store: Arc::new(store),
            batch: 1,
        }
    }

    /// Lets up to this many deliveries, which came together, share one transaction. If one of them fails, all are
    /// rolled back and each is handled in a transaction of its own. Default 1; at most 1,000.
    #[must_use]
    pub fn batch(mut self, deliveries: usize) -> Self {
        self.batch = deliveries.clamp(1, 1_000);
        self
    }

    pub(in crate::consumer) fn batch_max(&self) -> usize {
        self.batch
    }
}

/// The error of a chain that would lose events.
pub(in crate::consumer) const UNCAPTURED: &str =
    "the handler returned events and nothing captures them (CaptureOutbox required)";

/// A transaction with the chain inside it.
pub(in crate::consumer) struct Transacted<S: Transactions> {
    store: Arc<S>,
    inner: Chain<S::Tx>,
}

impl<S: Transactions> Transacted<S> {
    pub(in crate::consumer) fn new(transaction: Transaction<S>, inner: Chain<S::Tx>) -> Self {
        Self {
            store: transaction.store,
            inner,
        }
    }

    /// A transaction of its own.
    async fn alone(&self, ctx: &Context) -> Result<Handled, HandlerError> {
        let tx = self.store.begin().await?;
        let (tx, after, handled) = self.inside(ctx, tx).await?;
        failpoints::reach(failpoints::APPLIED);
        self.store.commit(tx).await?;
        after.into_iter().for_each(|run| run());
        Ok(handled)
    }

    /// Runs the inner chain. On an error the transaction is rolled back.
    async fn inside(
        &self,
        ctx: &Context,
        tx: S::Tx,
    ) -> Result<(S::Tx, AfterCommit, Handled), HandlerError> {
        let mut inside = ctx.inside(tx);
        let result = self.inner.run(&mut inside).await;
        let (tx, after, uncaptured) = inside.into_parts();
        let error = match result {
            Ok(handled) if uncaptured.is_empty() => return Ok((tx, after, handled)),
            Ok(_) => HandlerError::permanent(UNCAPTURED),
            Err(error) => error,
        };
        // Behind a statement that was given up, a rollback waits for that statement's end. To close the connection does not.
        let rolled_back = tokio::time::timeout(ROLLBACK_MAX, self.store.rollback(tx)).await;
        match (rolled_back, error) {
            // The error came from a database that is away, and not from the event.
            (Ok(Err(StoreError::Unavailable { .. })), HandlerError::Temporary(error)) => {
                Err(HandlerError::Unavailable(error))
            }
            (_, error) => Err(error),
        }
    }

    /// In the transaction of the whole group, when its turn has come. `None` when that came to nothing.
    async fn together(&self, ctx: &Context, seat: &Seat) -> Option<Handled> {
        let joined = seat.join();
        let tx = match joined.turn().await {
            Turn::First => self.store.begin().await.ok()?,
            Turn::Next(tx) => *tx.downcast().ok()?,
            Turn::Broken | Turn::Deferred => return None,
        };
        let (tx, after, handled) = self.inside(ctx, tx).await.ok()?;
        joined.pass_on(Box::new(tx));
        match joined.verdict().await {
            Verdict::Committed => {}
            Verdict::Broken => return None,
            Verdict::Commit(tx) => {
                failpoints::reach(failpoints::APPLIED);
                self.store.commit(*tx.downcast().ok()?).await.ok()?;
                joined.committed();
            }
        }
        after.into_iter().for_each(|run| run());
        Some(handled)
    }
}

#[async_trait]
impl<S: Transactions> Handler for Transacted<S> {
    async fn handle(&self, ctx: &mut Context) -> Result<Handled, HandlerError> {
        let Some(seat) = ctx.seat() else {
            return self.alone(ctx).await;
        };
        if seat.may_join() {
            if let Some(handled) = self.together(ctx, seat).await {
                return Ok(handled);
            }
            ctx.metrics().batch_broken();
        }
        if !seat.earlier_of_key().await.lets_follow() {
            return Err(HandlerError::deferred(
                "an earlier event of the same key was not handled",
            ));
        }
        let _one_at_a_time = seat.solo().await;
        self.alone(ctx).await
    }
}
