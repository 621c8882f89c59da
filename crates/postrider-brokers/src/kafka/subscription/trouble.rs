//! From librdkafka's errors to what a subscriber is told.

use std::time::Duration;

use postrider_core::text;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};

use crate::queue::Trouble;

/// What is wrong, and what would show that it no longer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Diagnosis {
    pub(super) trouble: Trouble,
    pub(super) ends_with: EndsWith,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndsWith {
    /// The cluster answers and knows the topics.
    Probe,
    /// The group gives us partitions, or takes us in without.
    Assignment,
}

/// The trouble that an error stands for; most mean none, since librdkafka tries again by itself.
pub(super) fn diagnose(
    code: RDKafkaErrorCode,
    reason: &str,
    group: &str,
    complaint: Option<&str>,
) -> Option<Diagnosis> {
    use RDKafkaErrorCode as Code;
    let reason = text::bounded(reason, text::ERROR_BYTES_MAX);
    let (trouble, ends_with) = match code {
        Code::AllBrokersDown => {
            let cause = complaint.unwrap_or(&reason);
            (
                Trouble::Unavailable(format!("no broker answers: {cause}")),
                EndsWith::Probe,
            )
        }
        Code::UnknownTopicOrPartition | Code::UnknownTopic => (
            Trouble::Unavailable(format!("{reason}: create the topic or correct its name")),
            EndsWith::Probe,
        ),
        Code::TopicAuthorizationFailed => (
            Trouble::Refused(format!(
                "{reason}: grant the operations Read and Describe on the topic"
            )),
            EndsWith::Probe,
        ),
        Code::GroupAuthorizationFailed => (
            Trouble::Refused(format!(
                "not authorized for group {group}: grant the operation Read on it"
            )),
            EndsWith::Assignment,
        ),
        Code::Authentication | Code::SaslAuthenticationFailed | Code::UnsupportedSASLMechanism => {
            (Trouble::Unavailable(reason), EndsWith::Probe)
        }
        _ => return None,
    };
    Some(Diagnosis { trouble, ends_with })
}

/// Asks the cluster about the topics. Blocks, and serves no events meanwhile.
pub(super) fn probe<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topics: &[String],
    complaint: Option<&str>,
    timeout: Duration,
) -> Result<(), Trouble> {
    topics.iter().try_for_each(|topic| {
        let metadata = consumer
            .fetch_metadata(Some(topic), timeout)
            .map_err(|error| {
                let cause = complaint.map_or_else(|| text::chain(&error), str::to_owned);
                Trouble::Unavailable(format!("no broker answers within {timeout:?}: {cause}"))
            })?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        match found.map(|found| found.error()) {
            Some(None) => Ok(()),
            Some(Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)) => {
                Err(Trouble::Refused(format!(
                    "not authorized to read topic {topic}: grant the operations Read and Describe on it"
                )))
            }
            Some(Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE)) => Err(
                Trouble::Unavailable(format!("topic {topic} has no leader yet")),
            ),
            _ => Err(Trouble::Unavailable(format!(
                "topic {topic} does not exist: create it or correct its name"
            ))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(code: RDKafkaErrorCode) -> Option<Trouble> {
        diagnose(code, "reason", "group", Some("refused")).map(|diagnosis| diagnosis.trouble)
    }

    #[test]
    fn what_passes_by_itself_is_unavailable_and_what_needs_a_grant_is_refused() {
        use RDKafkaErrorCode as Code;
        for code in [Code::AllBrokersDown, Code::UnknownTopicOrPartition] {
            assert!(
                matches!(trouble(code), Some(Trouble::Unavailable(_))),
                "{code:?}"
            );
        }
        for code in [
            Code::TopicAuthorizationFailed,
            Code::GroupAuthorizationFailed,
        ] {
            assert!(
                matches!(trouble(code), Some(Trouble::Refused(_))),
                "{code:?}"
            );
        }
    }

    #[test]
    fn one_lost_connection_is_no_trouble() {
        assert_eq!(trouble(RDKafkaErrorCode::BrokerTransportFailure), None);
        assert_eq!(trouble(RDKafkaErrorCode::RebalanceInProgress), None);
    }
}
