//! What the service says about the subscription: that it is there, and what its messages are from.

use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_pubsub::Error;
use google_cloud_pubsub::client::SubscriptionAdmin;
use google_cloud_pubsub::model::Subscription;
use postrider_core::{Ordering, Topic, text};
use tokio::time::timeout;

use super::config::PubSubSubscriptionConfig;
use crate::queue::Trouble;

const TIMEOUT: Duration = Duration::from_secs(3);
/// What the service calls a topic that is gone.
const DELETED_TOPIC: &str = "_deleted-topic_";

/// What is known of a subscription that can be pulled from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// What its messages are said to be from. They do not say so themselves.
    pub(super) topic: Topic,
    /// Worth a warning.
    pub(super) flaw: Option<String>,
}

/// Asks the service. That we may not know is no trouble: consuming needs another permission.
pub(super) async fn look_up(
    admin: &SubscriptionAdmin,
    config: &PubSubSubscriptionConfig,
) -> Result<Subject, Trouble> {
    let asked = admin
        .get_subscription()
        .set_subscription(config.full_name());
    match timeout(TIMEOUT, asked.send()).await {
        Ok(Ok(found)) => subject(&found, config),
        Ok(Err(error)) if code(&error) == Some(Code::PermissionDenied) => Ok(unknown(config)),
        Ok(Err(error)) => Err(trouble(&error, config)),
        Err(_) => Err(Trouble::Unavailable(format!(
            "no answer within {TIMEOUT:?}"
        ))),
    }
}

fn subject(found: &Subscription, config: &PubSubSubscriptionConfig) -> Result<Subject, Trouble> {
    let name = config.full_name();
    if found.detached {
        let reason = format!("subscription {name} is detached from its topic; create another one");
        return Err(Trouble::Refused(reason));
    }
    if found.topic == DELETED_TOPIC || found.topic.is_empty() {
        return Ok(Subject {
            flaw: Some(format!("the topic of subscription {name} was deleted")),
            ..unknown(config)
        });
    }
    let disordered = config.ordering == Ordering::Key && !found.enable_message_ordering;
    let flaw = disordered.then(|| {
        format!(
            "subscription {name} has message ordering disabled, so that order per key cannot be kept; that cannot \
             be changed: create another one with --enable-message-ordering, or set ordering = \"none\""
        )
    });
    let own = format!("projects/{}/topics/", config.project);
    let topic = found.topic.strip_prefix(&own).unwrap_or(&found.topic);
    Ok(Subject {
        topic: Topic::from(topic),
        flaw,
    })
}

fn unknown(config: &PubSubSubscriptionConfig) -> Subject {
    let name = config.full_name();
    let id = name.rsplit('/').next().unwrap_or(&name);
    Subject {
        topic: Topic::from(id),
        flaw: Some(format!(
            "no permission to look at subscription {name}: its messages get its id for a topic, and whether it keeps \
             order is unknown; grant roles/pubsub.viewer"
        )),
    }
}

/// What an answer means for those who wait.
pub(super) fn trouble(error: &Error, config: &PubSubSubscriptionConfig) -> Trouble {
    let reason = text::chain(error);
    let name = config.full_name();
    let refused = |why: String| Trouble::Refused(text::bounded(&why, text::ERROR_BYTES_MAX));
    match code(error) {
        Some(Code::NotFound) => refused(missing(config)),
        Some(Code::PermissionDenied) => {
            refused(format!("grant roles/pubsub.subscriber on {name}: {reason}"))
        }
        Some(
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss,
        ) => refused(format!("{name}: {reason}")),
        // What Google calls retryable, quotas, and credentials that do not work.
        _ => Trouble::Unavailable(reason),
    }
}

fn missing(config: &PubSubSubscriptionConfig) -> String {
    let name = config.full_name();
    let ordering = match config.ordering {
        Ordering::Key => " --enable-message-ordering",
        Ordering::None => "",
    };
    format!(
        "subscription {name} does not exist; create it: \
         gcloud pubsub subscriptions create {name} --topic=TOPIC{ordering}"
    )
}

fn code(error: &Error) -> Option<Code> {
    error.status().map(|status| status.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> PubSubSubscriptionConfig {
        PubSubSubscriptionConfig::new("p", "orders-worker")
    }

    fn found(topic: &str, ordering: bool) -> Subscription {
        Subscription::new()
            .set_topic(topic)
            .set_enable_message_ordering(ordering)
    }

    #[test]
    fn a_topic_of_our_project_goes_by_its_id() {
        let topic = |name| subject(&found(name, true), &config()).unwrap().topic;
        assert_eq!(topic("projects/p/topics/orders"), Topic::from("orders"));
        let other = "projects/other/topics/orders";
        assert_eq!(topic(other), Topic::from(other));
        assert_eq!(topic(DELETED_TOPIC), Topic::from("orders-worker"));
    }

    #[test]
    fn a_subscription_without_order_is_told_of_only_where_order_is_wanted() {
        let found = found("projects/p/topics/orders", false);
        let flaw = subject(&found, &config()).unwrap().flaw.unwrap();
        assert!(flaw.contains("--enable-message-ordering"), "{flaw}");
        let unordered = PubSubSubscriptionConfig {
            ordering: Ordering::None,
            ..config()
        };
        assert_eq!(subject(&found, &unordered).unwrap().flaw, None);
    }
}
