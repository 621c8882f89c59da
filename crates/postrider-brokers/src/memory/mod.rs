//! A broker inside the process, for tests and demos. It keeps the contracts of [`Publisher`] and
//! [`postrider_core::Subscription`] and can be told to fail in every way that a real broker fails.

mod config;
mod fault;
mod readback;
mod subscription;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Message, PublishError, Publisher, Timestamp, Topic, text};
use tokio::sync::{Notify, watch};

pub use config::{MemoryConfig, MemorySubscriptionConfig};
pub use fault::Fault;
pub use subscription::MemorySubscription;

use crate::held::HeldKeys;
use fault::Faults;
use subscription::Group;

/// A handle on the broker: clones share its topics and faults.
#[derive(Clone, Default)]
pub struct MemoryBroker {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    config: MemoryConfig,
    state: Mutex<State>,
    /// Whether calls of `publish` are held before they do anything.
    blocked: watch::Sender<bool>,
    /// How many of them are.
    waiting: watch::Sender<usize>,
    /// There may be something for a subscription, or nothing any more.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    topics: BTreeMap<Topic, Log>,
    groups: BTreeMap<String, Group>,
    faults: Faults,
    stopped: bool,
}

#[derive(Default)]
struct Log {
    messages: VecDeque<Message>,
    /// When each of them was taken.
    times: VecDeque<Timestamp>,
    accepted: u64,
}

impl MemoryBroker {
    pub fn new(config: MemoryConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                config,
                ..Shared::default()
            }),
        }
    }

    /// Needed only where `create_topics` is off.
    pub fn create_topic(&self, topic: &Topic) {
        self.state().topics.entry(topic.clone()).or_default();
    }

    /// What the topic keeps, oldest first.
    pub fn messages(&self, topic: &Topic) -> Vec<Message> {
        let state = self.state();
        state
            .topics
            .get(topic)
            .map_or_else(Vec::new, |log| log.messages.iter().cloned().collect())
    }

    /// How many messages the topic ever took, those it no longer keeps included.
    pub fn accepted(&self, topic: &Topic) -> u64 {
        self.state().topics.get(topic).map_or(0, |log| log.accepted)
    }

    /// From now on nobody reaches the broker. What it has is kept.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.shared.changed.notify_waiters();
    }

    pub fn start(&self) {
        self.state().stopped = false;
        self.shared.changed.notify_waiters();
    }

    /// Lets the next `count` messages that match fail with `fault`.
    pub fn fail_next(
        &self,
        count: u32,
        fault: Fault,
        matches: impl Fn(&Message) -> bool + Send + 'static,
    ) {
        self.state().faults.add(count, fault, matches);
    }

    /// Holds every call of `publish` until [`Self::release`] or its deadline.
    pub fn block(&self) {
        self.shared.blocked.send_replace(true);
    }

    pub fn release(&self) {
        self.shared.blocked.send_replace(false);
    }

    /// Returns as soon as `calls` calls of `publish` are being held.
    pub async fn wait_until_held(&self, calls: usize) {
        let mut waiting = self.shared.waiting.subscribe();
        // The sender lives in `self`.
        waiting
            .wait_for(|held| *held >= calls)
            .await
            .expect("the sender is alive");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Only a panicking predicate of a test can poison it, between two whole messages.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the way was or became free in time.
    async fn pass_blockade(&self, deadline: Duration) -> bool {
        let mut blocked = self.shared.blocked.subscribe();
        if !*blocked.borrow_and_update() {
            return true;
        }
        let _held = Held::enter(&self.shared.waiting);
        tokio::time::timeout(deadline, blocked.wait_for(|blocked| !blocked))
            .await
            .is_ok()
    }
}

#[async_trait]
impl Publisher for MemoryBroker {
    async fn publish(
        &self,
        batch: &[Message],
        deadline: Duration,
    ) -> Vec<Result<(), PublishError>> {
        let free = self.pass_blockade(deadline).await;
        let mut state = self.state();
        if !free || state.stopped {
            let reason = if state.stopped { STOPPED } else { BLOCKED };
            return batch.iter().map(|_| Err(unavailable(reason))).collect();
        }
        let mut held = HeldKeys::default();
        let accept = |(index, message): (usize, _)| {
            if held.holds(index, message) {
                return Err(PublishError::Untried);
            }
            state
                .accept(message, &self.shared.config)
                .inspect_err(|_| held.hold(index, message))
        };
        let outcomes = batch.iter().enumerate().map(accept).collect();
        self.shared.changed.notify_waiters();
        outcomes
    }

    async fn ping(&self) -> Result<(), PublishError> {
        if self.state().stopped {
            Err(unavailable(STOPPED))
        } else {
            Ok(())
        }
    }
}

const STOPPED: &str = "memory broker is stopped";
const BLOCKED: &str = "memory broker is blocked";
/// As in Kafka.
const TOPIC_BYTES_MAX: usize = 249;
/// After so long somebody may have created a topic that does not exist.
const TOPIC_RETRY: Duration = Duration::from_secs(1);

fn unavailable(reason: &str) -> PublishError {
    PublishError::Unavailable {
        reason: reason.into(),
        source: None,
    }
}

impl State {
    fn accept(&mut self, message: &Message, config: &MemoryConfig) -> Result<(), PublishError> {
        let size = message.size();
        if size > config.message_bytes_max {
            return Err(PublishError::TooLarge {
                size,
                limit: Some(config.message_bytes_max),
            });
        }
        let topic = &message.topic;
        let name = topic.as_str();
        if name.is_empty() || name.len() > TOPIC_BYTES_MAX || name.contains('\0') {
            let reason =
                text::bounded(&format!("{name:?} is no topic name"), text::ERROR_BYTES_MAX);
            return Err(PublishError::Refused { reason });
        }
        if !self.topics.contains_key(topic) {
            if !config.create_topics {
                return Err(PublishError::PartUnavailable {
                    part: format!("topic {topic}"),
                    reason: "it does not exist".into(),
                    retry_after: TOPIC_RETRY,
                });
            }
            if self.topics.len() >= config.topics_max {
                let reason = format!("memory broker has its {} topics already", config.topics_max);
                return Err(PublishError::Refused { reason });
            }
        }
        let fault = self.faults.next_for(message);
        if matches!(fault, None | Some(Fault::AckLost)) {
            let log = self.topics.entry(topic.clone()).or_default();
            log.append(message.clone(), config.messages_max);
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }
}

impl Log {
    fn append(&mut self, message: Message, messages_max: usize) {
        self.accepted += 1;
        self.messages.push_back(message);
        self.times.push_back(Timestamp::now());
        if self.messages.len() > messages_max {
            self.messages.pop_front();
            self.times.pop_front();
        }
    }
}

/// Counts a held call, also when its future is dropped.
struct Held<'a>(&'a watch::Sender<usize>);

impl<'a> Held<'a> {
    fn enter(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|held| *held += 1);
        Self(waiting)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}
