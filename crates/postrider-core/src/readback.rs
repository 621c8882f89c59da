//! The seam to what a broker holds, for comparing it with an outbox. Reading takes nothing away and moves no consumer.

use async_trait::async_trait;

use crate::{BoxError, Header, MessageKey, Timestamp, Topic};

/// A broker whose topics can be read back.
#[async_trait]
pub trait Readback: Send + Sync {
    /// Begins to read what `topic` holds now, by the times that the broker keeps with its messages: from the first one
    /// at or after `since` up to the first one at or after `until`, or to the end. Where times are out of order, messages
    /// of other times may lie between. `None` where there is no such topic.
    async fn read_back(
        &self,
        topic: &Topic,
        since: Timestamp,
        until: Option<Timestamp>,
    ) -> Result<Option<Box<dyn Reading>>, ReadbackError>;
}

/// A topic that is being read. What it holds in memory is bounded.
#[async_trait]
pub trait Reading: Send {
    /// About how many messages there are to read, from beginning to end.
    fn total(&self) -> u64;

    /// Whether the broker has deleted messages that may have been in the range.
    fn is_cut(&self) -> bool;

    /// The next messages, in order within their partition; none at the end. Not to be called again after an error or
    /// after its future was dropped: that is an error too.
    async fn next(&mut self) -> Result<Vec<KeptMessage>, ReadbackError>;
}

/// A message that a broker holds, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptMessage {
    pub partition: i32,
    pub offset: i64,
    /// The publisher's clock or the broker's, as the topic is set up.
    pub time: Option<Timestamp>,
    pub key: Option<MessageKey>,
    pub headers: Vec<Header>,
}

impl KeptMessage {
    /// The first header of that name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| &*header.name == name);
        found.and_then(Header::text)
    }
}

/// Why a topic cannot be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadbackError {
    #[error("broker unavailable: {reason}")]
    Unavailable {
        reason: String,
        #[source]
        source: Option<BoxError>,
    },
    #[error("broker refuses to have topic {topic} read: {reason}")]
    Refused { topic: Topic, reason: String },
}
