//! Bounds how long a delivery may take.

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Handled, HandlerError};

use crate::consumer::{Context, Middleware, Next};

/// Abandons the rest of the chain when it takes longer; an open transaction is rolled back. That is a temporary
/// error. Where deliveries share a transaction, put it inside: outside, it also counts the wait for the others.
#[derive(Debug, Clone, Copy)]
pub struct Timeout(pub Duration);

#[async_trait]
impl<T: Send + 'static> Middleware<T> for Timeout {
    async fn handle(
        &self,
        ctx: &mut Context<T>,
        next: Next<'_, T>,
    ) -> Result<Handled, HandlerError> {
        match tokio::time::timeout(self.0, next.run(ctx)).await {
            Ok(result) => result,
            Err(_) => Err(HandlerError::temporary(format!(
                "not handled within {:?}",
                self.0
            ))),
        }
    }
}
