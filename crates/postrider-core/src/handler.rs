//! How handling a delivery ends.

use std::fmt;

use crate::{BoxError, StoreError, text};

/// What became of a delivery that was handled without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// Its effects are done.
    Applied,
    /// They were done before, and not again.
    Duplicate,
    /// It stands in the dead-letter topic.
    DeadLettered,
}

/// Why a delivery was not handled. The kind decides what follows.
///
/// Any error turns into [`Self::Temporary`] by `?`, so that what nobody thought about is tried again.
pub enum HandlerError {
    /// May succeed later: tried again a bounded number of times, then given back or dead-lettered, as
    /// configured.
    Temporary(BoxError),
    /// Will never succeed: dead-lettered at once.
    Permanent(BoxError),
    /// Something that all events need is down. No fault of this event: it is given back, for as long as it
    /// takes, and never dead-lettered.
    Unavailable(BoxError),
    /// Not now, and nobody's fault: an earlier event of its key was not handled, or the event is in other
    /// hands. Given back untried.
    Deferred(BoxError),
}

impl HandlerError {
    pub fn temporary(error: impl Into<BoxError>) -> Self {
        Self::Temporary(error.into())
    }

    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self::Permanent(error.into())
    }

    pub fn unavailable(error: impl Into<BoxError>) -> Self {
        Self::Unavailable(error.into())
    }

    pub fn deferred(error: impl Into<BoxError>) -> Self {
        Self::Deferred(error.into())
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Temporary(_) => "temporary",
            Self::Permanent(_) => "permanent",
            Self::Unavailable(_) => "unavailable",
            Self::Deferred(_) => "deferred",
        }
    }
}

/// The error with its causes, bounded, without its kind.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temporary(error)
            | Self::Permanent(error)
            | Self::Unavailable(error)
            | Self::Deferred(error) => f.write_str(&text::chain(&**error)),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.kind())
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error: BoxError = Box::new(error);
        match error.downcast::<StoreError>() {
            Ok(error) => match *error {
                StoreError::Unavailable { .. } => Self::Unavailable(error),
                StoreError::Unfit { .. } => Self::Permanent(error),
                _ => Self::Temporary(error),
            },
            Err(error) => Self::Temporary(error),
        }
    }
}
