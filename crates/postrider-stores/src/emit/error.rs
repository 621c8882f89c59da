//! Why an event was not recorded.

use postrider_core::envelope::EnvelopeError;
use postrider_core::{BoxError, RouteError};

/// Refusals come before any statement is sent, so the caller's transaction is still good after them;
/// only [`EmitError::Database`] means that it may be lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The layout's table has no place for a field that the event has.
    #[error("layout {layout} cannot store `{field}`: {reason}")]
    NoPlace {
        layout: String,
        field: &'static str,
        reason: String,
    },
    /// The table needs a field that the event does not have.
    #[error("layout {layout} needs `{field}`: {reason}")]
    Missing {
        layout: String,
        field: &'static str,
        reason: String,
    },
    /// A field has a value that its column cannot hold.
    #[error("`{field}` does not fit column {column}: {reason}")]
    Unfit {
        field: &'static str,
        column: String,
        reason: String,
    },
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The layout does not fit the table.
    #[error("{0}")]
    Mismatch(String),
    #[error("event was not recorded: {reason}")]
    Database {
        reason: String,
        #[source]
        source: BoxError,
    },
}
