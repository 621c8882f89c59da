//! The chain: middlewares in the order in which they were written, then what ends it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use postrider_core::{Handled, HandlerError, text};

use super::Context;

/// Something that every delivery passes on its way to the handler, and on its way back.
///
/// `T` is the transaction that it needs around it; `()` is none. A middleware for a scope `T` can be used only
/// behind the `Transaction` that opens it.
#[async_trait]
pub trait Middleware<T = ()>: Send + Sync + 'static {
    /// Does its part and, as a rule, calls `next.run(ctx)`: once, several times or not at all. What it returns
    /// is what the middleware before it sees.
    async fn handle(
        &self,
        ctx: &mut Context<T>,
        next: Next<'_, T>,
    ) -> Result<Handled, HandlerError>;
}

/// What ends a chain: the handler, or the transaction that holds another chain.
#[async_trait]
pub trait Handler<T = ()>: Send + Sync + 'static {
    async fn handle(&self, ctx: &mut Context<T>) -> Result<Handled, HandlerError>;
}

/// The rest of the chain. It may be run again, as a retry does.
pub struct Next<'a, T> {
    rest: &'a [Arc<dyn Middleware<T>>],
    end: &'a dyn Handler<T>,
}

impl<T> Clone for Next<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Next<'_, T> {}

impl<T: Send + 'static> Next<'_, T> {
    /// Runs the rest. A panic in it is an error like another: tried again, and in the end dead-lettered or given
    /// back.
    pub async fn run(self, ctx: &mut Context<T>) -> Result<Handled, HandlerError> {
        let rest = async {
            match self.rest.split_first() {
                Some((first, rest)) => {
                    let next = Next {
                        rest,
                        end: self.end,
                    };
                    first.handle(ctx, next).await
                }
                None => self.end.handle(ctx).await,
            }
        };
        AssertUnwindSafe(rest)
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(panicked(&*panic)))
    }
}

fn panicked(panic: &(dyn Any + Send)) -> HandlerError {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said = text::bounded(said.unwrap_or("it did not say why"), text::ERROR_BYTES_MAX);
    HandlerError::temporary(format!("handler panicked: {said}"))
}

/// A whole chain of one scope.
pub(super) struct Chain<T> {
    pub(super) middlewares: Vec<Arc<dyn Middleware<T>>>,
    pub(super) end: Arc<dyn Handler<T>>,
}

impl<T: Send + 'static> Chain<T> {
    pub(super) async fn run(&self, ctx: &mut Context<T>) -> Result<Handled, HandlerError> {
        let next = Next {
            rest: &self.middlewares,
            end: &*self.end,
        };
        next.run(ctx).await
    }
}
