//! A chain that is put together at run time, from configuration for example. What the compiler would refuse is
//! refused here, before any message is read.

use std::sync::Arc;

use postrider_core::Transactions;

use super::builder::Builder;
use super::middleware::transaction::Transaction;
use super::{Consumer, IntoHandler, Middleware};

/// A part of a chain, by where it may stand.
pub enum Part<S: Transactions> {
    /// Stands before the transaction.
    Outside(Arc<dyn Middleware>),
    Transaction(Transaction<S>),
    /// Needs the transaction. The name is for the error.
    Inside(&'static str, Arc<dyn Middleware<S::Tx>>),
}

/// Why parts do not make a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    #[error("{part}: no transaction in context (TxMiddleware required)")]
    NoTransaction { part: &'static str },
    #[error("a middleware for outside the transaction stands inside it")]
    Misplaced,
    #[error("a chain has one transaction at most")]
    SecondTransaction,
    #[error("the handler needs a transaction, and the chain has none (TxMiddleware required)")]
    HandlerWithoutTransaction,
}

impl Builder {
    /// Ends the chain with parts known at run time only, and a handler that works in the transaction.
    pub fn handle_dynamic<S: Transactions, Marker>(
        mut self,
        parts: Vec<Part<S>>,
        handler: impl IntoHandler<S::Tx, Marker>,
    ) -> Result<Consumer, ChainError> {
        let mut parts = parts.into_iter();
        let mut inside = loop {
            match parts.next() {
                Some(Part::Outside(middleware)) => self.add(middleware),
                Some(Part::Transaction(transaction)) => break self.with(transaction),
                Some(Part::Inside(part, _)) => return Err(ChainError::NoTransaction { part }),
                None => return Err(ChainError::HandlerWithoutTransaction),
            }
        };
        for part in parts {
            match part {
                Part::Inside(_, middleware) => inside.add(middleware),
                Part::Outside(_) => return Err(ChainError::Misplaced),
                Part::Transaction(_) => return Err(ChainError::SecondTransaction),
            }
        }
        Ok(inside.handle(handler))
    }
}
