//! What a topic holds: the latest messages, kept by a reader of its own, so that it is the same with every broker.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider::core::{Delivery, SubscribeError, Subscription, Topic, text};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Messages that are kept of a topic.
pub(super) const KEPT_MAX: usize = 100;
/// Of a payload or a header that is no order of ours; orders are shorter.
const TEXT_BYTES_MAX: usize = 4 * 1024;
const HEADERS_MAX: usize = 32;
/// After a broker that did not answer.
const PAUSE: Duration = Duration::from_secs(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Window {
    topics: Arc<BTreeMap<Topic, Mutex<Log>>>,
}

#[derive(Default)]
struct Log {
    read: u64,
    latest: VecDeque<Seen>,
}

/// A message as it is shown.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Seen {
    position: String,
    key: Option<String>,
    headers: BTreeMap<String, String>,
    payload: Value,
}

/// What a topic holds, as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    topic: String,
    /// Since the demo was started.
    read: u64,
    /// The latest last.
    messages: Vec<Seen>,
}

impl Window {
    pub(super) fn new(topics: &[Topic]) -> Self {
        let logs = topics.iter().map(|topic| (topic.clone(), Mutex::default()));
        Self {
            topics: Arc::new(logs.collect()),
        }
    }

    /// Reads until it is told to stop.
    pub(super) async fn run(self, subscription: Arc<dyn Subscription>, stop: CancellationToken) {
        loop {
            let next = tokio::select! {
                next = subscription.next(KEPT_MAX) => next,
                () = stop.cancelled() => break,
            };
            match next {
                Ok(deliveries) => deliveries.into_iter().for_each(|it| self.keep(it)),
                Err(SubscribeError::Closed) => break,
                Err(error) => {
                    tracing::debug!(%error, "topics cannot be read at the moment");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        subscription.close(CLOSE_TIMEOUT).await;
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.keys()
    }

    /// Up to `last` messages, or nothing where the topic is none of the demo's.
    pub(super) fn show(&self, topic: &str, last: usize) -> Option<Shown> {
        let log = lock(self.topics.get(&Topic::from(topic))?);
        let skipped = log.latest.len().saturating_sub(last);
        Some(Shown {
            topic: topic.to_owned(),
            read: log.read,
            messages: log.latest.iter().skip(skipped).cloned().collect(),
        })
    }

    fn keep(&self, mut delivery: Delivery) {
        if let Some(log) = self.topics.get(&delivery.message.topic) {
            let mut log = lock(log);
            log.read += 1;
            log.latest.push_back(Seen::of(&delivery));
            if log.latest.len() > KEPT_MAX {
                log.latest.pop_front();
            }
        }
        delivery.ack();
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn of(delivery: &Delivery) -> Self {
        let message = &delivery.message;
        let header = |header: &postrider::core::Header| {
            (shown(header.name.as_bytes()), shown(&header.value))
        };
        let payload = message.payload.as_deref().unwrap_or_default();
        let json = (payload.len() <= TEXT_BYTES_MAX)
            .then(|| serde_json::from_slice(payload).ok())
            .flatten();
        Self {
            position: delivery.position.clone(),
            key: message.key.as_ref().map(|key| shown(key.as_bytes())),
            headers: (message.headers.iter().take(HEADERS_MAX).map(header)).collect(),
            payload: json.unwrap_or_else(|| shown(payload).into()),
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    text::bounded(&String::from_utf8_lossy(bytes), TEXT_BYTES_MAX)
}
