//! Splits a batch into strands and sends them side by side.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_pubsub::client::{Publisher as Client, TopicAdmin};
use postrider_core::{Message, PublishError, Publisher, Topic, text};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, timeout, timeout_at};

use super::check::{check, topic_name};
use super::config::{ConfigError, PubSubConfig};
use super::error::{for_the_rest, is_answer, unavailable};
use super::session::Session;
use super::strand::Strand;
use crate::held::HeldKeys;
use crate::parts::{Part, Parts};

/// Longer than anybody means, and short enough to be added to any time.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// A request carries messages of one ordering key only, so a batch of many keys is many requests.
const STRANDS_AT_ONCE: usize = 256;
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Need not exist: that it does not is an answer too.
const PING_TOPIC: &str = "postrider-ping";

/// Publishes to Pub/Sub. The connection is made by the first call and made again after every trouble.
pub struct PubSubPublisher {
    config: PubSubConfig,
    session: Mutex<Option<Arc<Session>>>,
    admin: OnceCell<TopicAdmin>,
    /// Topics that take no writes.
    parts: Parts,
}

impl PubSubPublisher {
    /// Checks the configuration. Whether the service can be reached shows in [`Publisher::ping`].
    pub fn new(config: PubSubConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            session: Mutex::new(None),
            admin: OnceCell::new(),
            parts: Parts::default(),
        })
    }

    async fn session(&self) -> Result<Arc<Session>, String> {
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| session.is_open()) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::open(&self.config).await?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }
}

impl PubSubPublisher {
    /// What goes to a topic that takes no writes fails here, unless the topic is due to be tried again. The service
    /// answers for each topic alone and at once, so that a try costs the others nothing.
    fn hold_closed(&self, batch: &[Message], outcomes: &mut [Option<Result<(), PublishError>>]) {
        if self.parts.is_well() {
            return;
        }
        // Decided once for a topic: a later message must not find it open where an earlier one did not.
        let mut closed: HashMap<&Topic, Option<PublishError>> = HashMap::new();
        for (message, outcome) in std::iter::zip(batch, outcomes) {
            let decide = || {
                let part = Part::topic(&message.topic);
                let error = self.parts.closed(&part)?;
                self.parts.try_again(&part).is_none().then_some(error)
            };
            let error = closed.entry(&message.topic).or_insert_with(decide);
            *outcome = error.as_ref().map(|error| Err(for_the_rest(error)));
        }
    }

    /// Remembers what an outcome says about its topic.
    fn remembered(
        &self,
        message: &Message,
        outcome: Result<(), PublishError>,
    ) -> Result<(), PublishError> {
        match outcome {
            Ok(()) if self.parts.is_well() => Ok(()),
            Ok(()) => {
                self.parts.recovered(&Part::topic(&message.topic));
                Ok(())
            }
            Err(PublishError::PartUnavailable { reason, .. }) => {
                Err(self.parts.failed(&Part::topic(&message.topic), &reason))
            }
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Publisher for PubSubPublisher {
    async fn publish(
        &self,
        batch: &[Message],
        deadline: Duration,
    ) -> Vec<Result<(), PublishError>> {
        let deadline = Instant::now() + deadline.min(DEADLINE_MAX);
        let session = match timeout_at(deadline, self.session()).await {
            Ok(Ok(session)) => session,
            Ok(Err(reason)) => return all_unavailable(batch, &reason),
            Err(_) => return all_unavailable(batch, "no time left to connect"),
        };
        let mut outcomes: Vec<_> = batch.iter().map(|_| None).collect();
        self.hold_closed(batch, &mut outcomes);
        let mut strands = strands(batch, &session, &self.config.project, &mut outcomes);
        let unfinished = Unfinished {
            session: &session,
            finished: false,
        };
        let sent =
            stream::iter(strands.values_mut()).for_each_concurrent(STRANDS_AT_ONCE, Strand::send);
        let in_time = timeout_at(deadline, sent).await.is_ok();
        unfinished.finish(in_time);
        for (index, outcome) in strands.into_values().flat_map(Strand::into_outcomes) {
            outcomes[index] = Some(outcome);
        }
        let missing = || Err(unavailable("no acknowledgement before the deadline"));
        let outcomes = outcomes.into_iter().map(|o| o.unwrap_or_else(missing));
        std::iter::zip(batch, outcomes)
            .map(|(message, outcome)| self.remembered(message, outcome))
            .collect()
    }

    async fn ping(&self) -> Result<(), PublishError> {
        let connect = || {
            self.config
                .topic_admin()
                .with_retry_policy(NeverRetry)
                .build()
        };
        let ask = async {
            let admin = self
                .admin
                .get_or_try_init(connect)
                .await
                .map_err(|e| text::chain(&e))?;
            let name = format!("projects/{}/topics/{PING_TOPIC}", self.config.project);
            match admin.get_topic().set_topic(name).send().await {
                Err(error) if !is_answer(&error) => Err(text::chain(&error)),
                _ => Ok(()),
            }
        };
        match timeout(PING_TIMEOUT, ask).await {
            Ok(answered) => answered.map_err(|reason| unavailable(&reason)),
            Err(_) => Err(unavailable(&format!("no answer within {PING_TIMEOUT:?}"))),
        }
    }
}

/// Closes the session unless everything was answered: also when the future is dropped half way.
struct Unfinished<'a> {
    session: &'a Session,
    finished: bool,
}

impl Unfinished<'_> {
    fn finish(mut self, finished: bool) {
        self.finished = finished;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.session.close();
        }
    }
}

fn all_unavailable(batch: &[Message], reason: &str) -> Vec<Result<(), PublishError>> {
    batch.iter().map(|_| Err(unavailable(reason))).collect()
}

/// What is to be sent, by topic and ordering key. What would be refused gets its outcome here.
fn strands<'a>(
    batch: &'a [Message],
    session: &Session,
    project: &str,
    outcomes: &mut [Option<Result<(), PublishError>>],
) -> HashMap<(&'a Topic, Option<&'a str>), Strand<'a>> {
    let mut held = HeldKeys::default();
    let mut clients: HashMap<&Topic, Client> = HashMap::new();
    let mut strands: HashMap<(&Topic, Option<&str>), Strand<'a>> = HashMap::new();
    for (index, message) in batch.iter().enumerate() {
        if outcomes[index].is_some() {
            continue;
        }
        if held.holds(index, message) {
            outcomes[index] = Some(Err(PublishError::Untried));
            continue;
        }
        match check(message).and_then(|()| topic_name(&message.topic, project)) {
            Ok(name) => {
                let topic = &message.topic;
                let key = message
                    .key
                    .as_ref()
                    .filter(|_| message.ordered)
                    .and_then(|key| key.as_str());
                let client = clients
                    .entry(topic)
                    .or_insert_with(|| session.client(&name));
                let strand = strands.entry((topic, key));
                strand
                    .or_insert_with(|| Strand::new(client.clone(), key))
                    .push(index, message);
            }
            Err(error) => {
                held.hold(index, message);
                outcomes[index] = Some(Err(error));
            }
        }
    }
    strands
}
