//! Steps that a relay's cycle shares with a [`crate::Source`]: records are made into messages, and every wait has a bound.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use postrider_core::fate::Outcome;
use postrider_core::text::chain;
use postrider_core::{
    Failure, Message, MessageKey, OnDead, Ordering, PublishError, Record, Router, StoreError,
};
use tokio_util::sync::CancellationToken;

use super::Config;

/// Publishing ends this long before a claim lapses, so that its fates can still be written.
const LAPSE_MARGIN: Duration = Duration::from_secs(2);

/// How long a stop waits for a claim that is under way.
const CLAIM_GRACE: Duration = Duration::from_secs(1);

/// What the store says, if it says it in time. Letting go of a claim that gives no answer closes its connection.
pub(crate) async fn answered<T>(
    config: &Config,
    action: &str,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let patience = config.answer_timeout;
    let silent = |_| StoreError::Unavailable {
        reason: format!("no answer within {patience:?} when asked to {action}"),
        source: None,
    };
    tokio::time::timeout(patience, answer)
        .await
        .map_err(silent)?
}

/// A stop does not wait for a database that gives no answer; one that answers slowly is waited for,
/// because a claim that is dropped half way may keep its records until its lease ends.
pub(crate) async fn overdue(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(CLAIM_GRACE).await;
}

/// How long the messages of a claim may be on their way.
pub(crate) fn time_to_publish(config: &Config, lapses_at: Option<Instant>) -> Duration {
    let timeout = config.publish_timeout;
    lapses_at.map_or(timeout, |lapse| {
        let left = lapse.saturating_duration_since(Instant::now());
        timeout.min(left.saturating_sub(LAPSE_MARGIN.min(left / 4)))
    })
}

/// Makes messages. A record that can have none gets its outcome here; with order per key, so
/// do the later ones of a key that it parks.
pub(crate) fn route(
    router: &Router,
    config: &Config,
    records: &[Record],
) -> (Vec<Option<Outcome>>, Vec<Message>) {
    let parks = config.ordering == Ordering::Key && config.retry.on_dead == OnDead::Park;
    let mut parked: HashSet<&MessageKey> = HashSet::new();
    let mut batch = Vec::with_capacity(records.len());
    let outcomes = records
        .iter()
        .map(|record| {
            if record.key.as_ref().is_some_and(|key| parked.contains(key)) {
                return Some(Outcome::failed(Failure::Untried, "key is parked"));
            }
            let failure = match too_large(router, config, record) {
                Some(error) => (error.failure(), chain(&error)),
                None => match router.message(record) {
                    Ok(message) => {
                        batch.push(message);
                        return None;
                    }
                    Err(error) => (Failure::Permanent, chain(&error)),
                },
            };
            parked.extend(record.key.as_ref().filter(|_| parks));
            Some(Outcome {
                failure: Some(failure),
            })
        })
        .collect();
    (outcomes, batch)
}

/// What the broker would never take is not copied into a message first.
fn too_large(router: &Router, config: &Config, record: &Record) -> Option<PublishError> {
    let limit = config.message_bytes_max?;
    let size = router.least_size(record);
    (size > limit).then_some(PublishError::TooLarge {
        size,
        limit: Some(limit),
    })
}
