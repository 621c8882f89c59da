//! Finding out which message of a refused batch is too large. A topic's `max.message.bytes` is held
//! against whole batches as they go over the wire, so the answer is certain only for a message that
//! was alone in its batch. One that is larger than `batch.size` always is.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{Message, Topic};
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use tokio::time::{Instant, timeout_at};

use super::config::KafkaConfig;
use super::error::{Verdict, too_large};
use super::session::Session;

/// A lookup makes a connection, and only serves to need fewer rounds and to name the limit.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// The verdicts on the refused messages, and the batch size to go on with.
pub(super) struct Ruling {
    pub(super) verdicts: Vec<(usize, Verdict)>,
    pub(super) batch_bytes: u32,
}

/// Rules on messages (by index and content) that a session sent. Looks up the topics' limits as long as
/// there is time.
pub(super) async fn rule(
    config: &KafkaConfig,
    refused: &[(usize, &Message)],
    session: &Session,
    deadline: Instant,
) -> Ruling {
    let batch_bytes = session.batch_bytes;
    let mut by_topic: BTreeMap<&Topic, Vec<(usize, &Message)>> = BTreeMap::new();
    for (index, message) in refused {
        by_topic
            .entry(&message.topic)
            .or_default()
            .push((*index, message));
    }
    let mut ruling = Ruling {
        verdicts: Vec::with_capacity(refused.len()),
        batch_bytes,
    };
    for (topic, messages) in by_topic {
        let patience = deadline.min(Instant::now() + LOOKUP_TIMEOUT);
        let limit = limit_of(config, topic, patience).await;
        let all_alone = messages
            .iter()
            .all(|(_, message)| session.sends_alone(message));
        if !all_alone || limit.is_some_and(|limit| limit < batch_bytes) {
            let total: usize = messages.iter().map(|(_, message)| message.size()).sum();
            ruling.batch_bytes = ruling.batch_bytes.min(smaller(batch_bytes, limit, total));
        }
        ruling
            .verdicts
            .extend(messages.into_iter().map(|(index, message)| {
                let limit = limit.map(|limit| limit as usize);
                let verdict = if session.sends_alone(message) {
                    too_large(message, limit)
                } else {
                    Verdict::Again
                };
                (index, verdict)
            }));
    }
    ruling
}

/// A batch size with which the same messages end up in smaller batches: the topic's limit if that is known
/// and smaller, else so small that at least two batches are made of them.
fn smaller(batch_bytes: u32, limit: Option<u32>, total: usize) -> u32 {
    match limit {
        Some(limit) if limit < batch_bytes => limit.max(1),
        _ => (batch_bytes.min(u32::try_from(total).unwrap_or(u32::MAX)) / 2).max(1),
    }
}

async fn limit_of(config: &KafkaConfig, topic: &Topic, patience: Instant) -> Option<u32> {
    if Instant::now() >= patience {
        return None;
    }
    let client_config = config.client_config(config.batch_bytes);
    let open = move || {
        client_config
            .create::<AdminClient<DefaultClientContext>>()
            .ok()
    };
    let admin = tokio::task::spawn_blocking(open).await.ok()??;
    let limit = timeout_at(patience, ask(&admin, topic))
        .await
        .ok()
        .flatten();
    // Closing blocks, and nobody waits for it.
    drop(tokio::task::spawn_blocking(move || drop(admin)));
    tracing::debug!(%topic, ?limit, "kafka: looked up the topic's max.message.bytes");
    limit
}

async fn ask(admin: &AdminClient<DefaultClientContext>, topic: &Topic) -> Option<u32> {
    let options = AdminOptions::new().request_timeout(Some(LOOKUP_TIMEOUT));
    let resource = ResourceSpecifier::Topic(topic.as_str());
    let resources = admin.describe_configs([&resource], &options).await.ok()?;
    let settings = resources.into_iter().next()?.ok()?;
    settings
        .get("max.message.bytes")?
        .value
        .as_ref()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_to_the_limit_or_by_half_and_never_to_nothing() {
        assert_eq!(smaller(1_000_000, Some(100_000), 900_000), 100_000);
        assert_eq!(smaller(1_000_000, None, 900_000), 450_000);
        assert_eq!(smaller(1_000_000, Some(2_000_000), 5_000_000), 500_000);
        assert_eq!(smaller(1, None, 1), 1);
    }
}
