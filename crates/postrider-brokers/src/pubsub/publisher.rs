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
use super::error::{is_answer, unavailable};
use super::session::Session;
use super::strand::Strand;
use crate::held::HeldKeys;

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
}

impl PubSubPublisher {
    /// Checks the configuration. Whether the service can be reached shows in [`Publisher::ping`].
    pub fn new(config: PubSubConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            session: Mutex::new(None),
            admin: OnceCell::new(),
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
        outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(missing))
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
