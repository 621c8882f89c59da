//! Reading back what the memory broker keeps. A topic is one partition.

use async_trait::async_trait;
use postrider_core::{KeptMessage, Message, Readback, ReadbackError, Reading, Timestamp, Topic};

use super::{Log, MemoryBroker, STOPPED};

/// Messages that are copied while the broker is locked.
const CHUNK: u64 = 1_000;

struct MemoryReading {
    broker: MemoryBroker,
    topic: Topic,
    first: u64,
    next: u64,
    end: u64,
    cut: bool,
}

#[async_trait]
impl Readback for MemoryBroker {
    async fn read_back(
        &self,
        topic: &Topic,
        since: Timestamp,
        until: Option<Timestamp>,
    ) -> Result<Option<Box<dyn Reading>>, ReadbackError> {
        let state = self.state();
        if state.stopped {
            return Err(unavailable());
        }
        let Some(log) = state.topics.get(topic) else {
            return Ok(None);
        };
        let first = log.first_at(since);
        Ok(Some(Box::new(MemoryReading {
            broker: self.clone(),
            topic: topic.clone(),
            first,
            next: first,
            end: until.map_or(log.accepted, |until| log.first_at(until)),
            cut: log.oldest() > 0 && first == log.oldest(),
        })))
    }
}

#[async_trait]
impl Reading for MemoryReading {
    fn total(&self) -> u64 {
        self.end.saturating_sub(self.first)
    }

    fn is_cut(&self) -> bool {
        self.cut
    }

    async fn next(&mut self) -> Result<Vec<KeptMessage>, ReadbackError> {
        let state = self.broker.state();
        if state.stopped {
            return Err(unavailable());
        }
        let Some(log) = state.topics.get(&self.topic) else {
            return Ok(Vec::new());
        };
        // What was dropped in the meantime is gone.
        let from = self.next.max(log.oldest());
        let to = self.end.min(from.saturating_add(CHUNK));
        self.next = to;
        Ok((from..to)
            .filter_map(|position| log.kept(position))
            .collect())
    }
}

impl Log {
    /// The position of the first message that was taken at `time` or later.
    fn first_at(&self, time: Timestamp) -> u64 {
        let before = self.times.iter().take_while(|taken| **taken < time);
        self.oldest() + before.count() as u64
    }

    fn kept(&self, position: u64) -> Option<KeptMessage> {
        let index = usize::try_from(position.checked_sub(self.oldest())?).ok()?;
        let Message { key, headers, .. } = self.messages.get(index)?;
        Some(KeptMessage {
            partition: 0,
            offset: i64::try_from(position).ok()?,
            time: self.times.get(index).copied(),
            key: key.clone(),
            headers: headers.clone(),
        })
    }
}

fn unavailable() -> ReadbackError {
    ReadbackError::Unavailable {
        reason: STOPPED.into(),
        source: None,
    }
}
