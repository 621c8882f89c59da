//! From librdkafka's error codes to what Postrider does about them.

use postrider_core::{Message, PublishError, text};
use rdkafka::types::RDKafkaErrorCode;

use super::cluster::reason;
use super::session::Closed;

/// What is to be done about a message that was not acknowledged.
#[derive(Debug)]
pub(super) enum Verdict {
    /// That was it, for this call.
    Final(PublishError),
    /// Its partition, or else its whole topic, takes no writes.
    Part { whole: bool, reason: String },
    /// The broker found its batch too large, which may be another message's fault.
    Oversized,
    /// The broker refused a record of its batch, which may be another one: it is sent again alone.
    Suspect,
    /// Not its fault: it is sent again in this call while there is time.
    Again,
}

/// Who refused.
pub(super) enum Refusal<'a> {
    /// librdkafka, before it took the message, whose size is limited to this.
    Local { message_bytes_max: usize },
    /// The broker, or librdkafka later.
    Delivery {
        /// Why the session was closed since, if it was.
        closed: Option<&'a Closed>,
        /// Whether there was no other message in the batch.
        alone: bool,
    },
}

/// The one place that knows the codes. An outage must not cost attempts, a message's own fault must
/// not cost the others anything.
pub(super) fn verdict(code: RDKafkaErrorCode, message: &Message, by: Refusal<'_>) -> Verdict {
    use RDKafkaErrorCode as Code;
    let topic = &message.topic;
    match (code, by) {
        (Code::MessageSizeTooLarge, Refusal::Local { message_bytes_max }) => {
            too_large(message, Some(message_bytes_max))
        }
        (Code::MessageSizeTooLarge | Code::MessageBatchTooLarge, Refusal::Delivery { .. }) => {
            Verdict::Oversized
        }
        (
            Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::UnknownPartition
            | Code::UnknownTopicId
            | Code::TopicAuthorizationFailed,
            _,
        ) => Verdict::Part {
            whole: true,
            reason: reason(code),
        },
        // librdkafka retries these by itself, so they come when it gave up.
        (
            Code::KafkaStorageError
            | Code::LeaderNotAvailable
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::NotLeaderForPartition
            | Code::ReplicaNotAvailable,
            _,
        ) => Verdict::Part {
            whole: false,
            reason: reason(code),
        },
        (Code::InvalidTopic, _) => refused(format!("{topic} is no valid topic name")),
        // librdkafka gives this code to a whole batch if it has exactly one bad record.
        (Code::InvalidRecord, Refusal::Delivery { alone: false, .. }) => Verdict::Suspect,
        (Code::InvalidRecord, _) => refused(format!(
            "topic {topic} does not take this record (a compacted topic takes none without a key)"
        )),
        (Code::InvalidDifferentRecord, _) => Verdict::Again,
        // Policies and clocks are put right by people, without a new message.
        (Code::PolicyViolation | Code::InvalidTimestamp | Code::UnsupportedForMessageFormat, _) => {
            failed(format!("topic {topic}: {code}"))
        }
        (
            Code::PurgeQueue
            | Code::PurgeInflight
            | Code::Fatal
            | Code::GaplessGuarantee
            | Code::OutOfOrderSequenceNumber
            | Code::Retry,
            Refusal::Delivery {
                closed: Some(closed),
                ..
            },
        ) => after_closing(closed),
        (code, _) if is_outage(code) => Verdict::Final(unavailable(&advice(code))),
        (code, _) => failed(format!("topic {topic}: {code}")),
    }
}

/// What becomes of a message that was in a session, or was to be, when it was closed.
pub(super) fn after_closing(closed: &Closed) -> Verdict {
    match closed {
        Closed::Poisoned => Verdict::Again,
        Closed::Outage { reason } => Verdict::Final(unavailable(reason)),
    }
}

pub(super) fn too_large(message: &Message, limit: Option<usize>) -> Verdict {
    Verdict::Final(PublishError::TooLarge {
        size: message.size(),
        limit,
    })
}

fn is_outage(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::AllBrokersDown
            | Code::Authentication
            | Code::BrokerDestroy
            | Code::BrokerNotAvailable
            | Code::BrokerTransportFailure
            | Code::ClusterAuthorizationFailed
            | Code::CriticalSystemResource
            | Code::Fatal
            | Code::Fenced
            | Code::GaplessGuarantee
            | Code::Inconsistent
            | Code::InvalidProducerEpoch
            | Code::InvalidProducerIdMapping
            | Code::MessageTimedOut
            | Code::NetworkException
            | Code::OperationTimedOut
            | Code::OutOfOrderSequenceNumber
            | Code::PurgeInflight
            | Code::PurgeQueue
            | Code::QueueFull
            | Code::RequestTimedOut
            | Code::Resolve
            | Code::Retry
            | Code::SaslAuthenticationFailed
            | Code::SSL
            | Code::ThrottlingQuotaExceeded
            | Code::TimedOutQueue
            | Code::UnknownProducerId
            | Code::UnsupportedCompressionType
            | Code::UnsupportedSASLMechanism
            | Code::UnsupportedVersion
    )
}

fn advice(code: RDKafkaErrorCode) -> String {
    match code {
        RDKafkaErrorCode::ClusterAuthorizationFailed => {
            format!("{code}: grant the operation IdempotentWrite on the cluster")
        }
        RDKafkaErrorCode::UnsupportedCompressionType => {
            format!("{code}: set another compression in the broker's configuration")
        }
        code => code.to_string(),
    }
}

pub(super) fn unavailable(reason: &str) -> PublishError {
    PublishError::Unavailable {
        reason: text::bounded(reason, text::ERROR_BYTES_MAX),
        source: None,
    }
}

fn refused(reason: String) -> Verdict {
    let reason = text::bounded(&reason, text::ERROR_BYTES_MAX);
    Verdict::Final(PublishError::Refused { reason })
}

fn failed(reason: String) -> Verdict {
    let reason = text::bounded(&reason, text::ERROR_BYTES_MAX);
    Verdict::Final(PublishError::Failed { reason })
}

#[cfg(test)]
mod tests {
    use postrider_core::{Failure, Topic};

    use super::*;

    const PART: Failure = Failure::PartOutage {
        retry_after: std::time::Duration::ZERO,
    };

    fn failure(code: RDKafkaErrorCode, closed: Option<&Closed>) -> Option<Failure> {
        let message = Message {
            topic: Topic::from("orders"),
            key: None,
            ordered: false,
            payload: None,
            headers: vec![],
        };
        match verdict(
            code,
            &message,
            Refusal::Delivery {
                closed,
                alone: true,
            },
        ) {
            Verdict::Final(error) => Some(error.failure()),
            Verdict::Part { .. } => Some(PART),
            Verdict::Oversized | Verdict::Suspect | Verdict::Again => None,
        }
    }

    #[test]
    fn an_outage_burns_no_attempt() {
        use RDKafkaErrorCode as Code;
        let outage = Closed::Outage {
            reason: "gone".into(),
        };
        for code in [
            Code::AllBrokersDown,
            Code::BrokerTransportFailure,
            Code::ClusterAuthorizationFailed,
            Code::MessageTimedOut,
            Code::PurgeInflight,
            Code::PurgeQueue,
            Code::SaslAuthenticationFailed,
        ] {
            assert_eq!(
                failure(code, Some(&outage)),
                Some(Failure::Outage),
                "{code:?}"
            );
        }
    }

    #[test]
    fn what_another_message_caused_is_sent_again() {
        use RDKafkaErrorCode as Code;
        for code in [
            Code::InvalidDifferentRecord,
            Code::PurgeInflight,
            Code::PurgeQueue,
            Code::OutOfOrderSequenceNumber,
            Code::MessageSizeTooLarge,
        ] {
            assert_eq!(failure(code, Some(&Closed::Poisoned)), None, "{code:?}");
        }
    }

    #[test]
    fn a_topic_is_not_the_broker_and_a_bad_record_stays_bad() {
        use RDKafkaErrorCode as Code;
        for code in [
            Code::TopicAuthorizationFailed,
            Code::UnknownTopicOrPartition,
            Code::UnknownTopic,
            Code::NotEnoughReplicas,
        ] {
            assert_eq!(failure(code, None), Some(PART), "{code:?}");
        }
        assert_eq!(failure(Code::InvalidRecord, None), Some(Failure::Permanent));
        assert_eq!(failure(Code::InvalidTopic, None), Some(Failure::Permanent));
        // A code that nobody has thought of.
        assert_eq!(failure(Code::NonEmptyGroup, None), Some(Failure::Transient));
    }
}
