//! The seam to brokers: messages out, one outcome each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::fate::Failure;
use crate::{BoxError, MessageKey, Topic};

/// Bytes for a topic.
#[derive(Debug, Clone)]
pub struct Message {
    pub topic: Topic,
    pub key: Option<MessageKey>,
    /// Whether messages of this key must keep their order. Brokers that pay for order (Pub/Sub
    /// ordering keys) do so only then.
    pub ordered: bool,
    /// `None` is a tombstone where the broker has such a thing, else an empty body.
    pub payload: Option<Bytes>,
    pub headers: Vec<Header>,
}

impl Message {
    /// Key, body and headers, as a broker counts them.
    pub fn size(&self) -> usize {
        self.payload.as_ref().map_or(0, Bytes::len)
            + self.key.as_ref().map_or(0, |key| key.as_bytes().len())
            + self
                .headers
                .iter()
                .map(|h| h.name.len() + h.value.len())
                .sum::<usize>()
    }
}

/// A header or attribute. Names repeat over a batch, so they are shared. Ours are text; those of others
/// may be any bytes, and are passed on as they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub name: Arc<str>,
    pub value: Bytes,
}

impl Header {
    pub fn new(name: impl Into<Arc<str>>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into().into(),
        }
    }

    /// The value, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.value).ok()
    }
}

/// Sends messages to a broker.
#[async_trait]
pub trait Publisher: Send + Sync {
    /// Sends a batch and gives one outcome per message, in the batch's order. `Ok` means that the
    /// broker has acknowledged the message as durably as it was configured to.
    ///
    /// * A batch may succeed in part. What failed never keeps the rest from being sent, except
    ///   that after the failure of an `ordered` message the later ones of its topic and key must not
    ///   be accepted by the broker: they are [`PublishError::Untried`] (or whatever failed them).
    /// * It returns within `deadline` and a second or two. What is not acknowledged by then is
    ///   [`PublishError::Unavailable`] or, where the rest of the broker works,
    ///   [`PublishError::PartUnavailable`], and the publisher has made sure that no such message is
    ///   sent later on its own (it may arrive if it was on the wire already).
    /// * A part of the broker that takes no writes does not keep every call until its deadline: once it is
    ///   known, its messages fail at once until it is due to be tried again.
    /// * Calls may run concurrently. Order is kept within a call; callers keep one key in one call
    ///   at a time.
    async fn publish(&self, batch: &[Message], deadline: Duration)
    -> Vec<Result<(), PublishError>>;

    /// Whether the broker can be reached and lets us in. Makes a lost connection anew, because nothing is
    /// published to a broker that does not answer this. Never needed for correctness.
    async fn ping(&self) -> Result<(), PublishError>;
}

/// Why a message was not published. What follows from it is decided by [`PublishError::failure`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    #[error("broker unavailable: {reason}")]
    Unavailable {
        reason: String,
        #[source]
        source: Option<BoxError>,
    },
    /// One topic or partition takes no writes, while the broker answers and may take others'. Publishers make
    /// `retry_after` grow while that lasts.
    #[error("{part} takes no writes: {reason}")]
    PartUnavailable {
        /// What it is, in words: `topic orders`, `partition 3 of topic orders`.
        part: String,
        reason: String,
        /// When it makes sense to ask again.
        retry_after: Duration,
    },
    #[error("not tried: an earlier message of the same key or batch failed")]
    Untried,
    #[error("message of {size} bytes is over the broker's limit{}", limit.map(|l| format!(" of {l}")).unwrap_or_default())]
    TooLarge { size: usize, limit: Option<usize> },
    #[error("broker refuses the message: {reason}")]
    Refused { reason: String },
    #[error("broker did not take the message: {reason}")]
    Failed { reason: String },
}

impl PublishError {
    pub fn unavailable(error: impl Into<BoxError>) -> Self {
        let source = error.into();
        Self::Unavailable {
            reason: crate::text::chain(&*source),
            source: Some(source),
        }
    }

    /// What kind of failure this is. The one place that decides between outage, retry and death.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Unavailable { .. } => Failure::Outage,
            Self::PartUnavailable { retry_after, .. } => Failure::PartOutage {
                retry_after: *retry_after,
            },
            Self::Untried => Failure::Untried,
            Self::Failed { .. } => Failure::Transient,
            Self::TooLarge { .. } | Self::Refused { .. } => Failure::Permanent,
        }
    }
}
