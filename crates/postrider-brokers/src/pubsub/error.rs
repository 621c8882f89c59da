//! From Pub/Sub's answers to what Postrider does about them.

use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_pubsub::Error;
use google_cloud_pubsub::error::PublishError as ClientError;
use postrider_core::{Message, PublishError, Topic, text};

use crate::parts::Part;

/// The one place that knows the codes. It speaks of a request; whose fault a refusal is, the caller finds
/// out by sending less.
pub(super) fn classify(error: &ClientError, message: &Message) -> PublishError {
    match error {
        ClientError::OrderingKeyPaused => PublishError::Untried,
        ClientError::Rpc(error) => classify_rpc(error, message),
        other => unavailable(&text::chain(other)),
    }
}

fn classify_rpc(error: &Error, message: &Message) -> PublishError {
    let reason = text::chain(error);
    let Some(status) = error.status() else {
        return unavailable(&reason);
    };
    match status.code {
        Code::NotFound => part_unavailable(&message.topic, "it does not exist"),
        Code::InvalidArgument => PublishError::Refused { reason },
        Code::PermissionDenied => part_unavailable(
            &message.topic,
            &format!("grant the role roles/pubsub.publisher on the topic: {reason}"),
        ),
        Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss => PublishError::Failed { reason },
        // What Google calls retryable, quotas, and credentials that do not work: nobody's own fault.
        _ => unavailable(&reason),
    }
}

/// What the failure of one message means for those behind it.
pub(super) fn for_the_rest(error: &PublishError) -> PublishError {
    match error {
        PublishError::Unavailable { reason, .. } => unavailable(reason),
        PublishError::PartUnavailable {
            part,
            reason,
            retry_after,
        } => PublishError::PartUnavailable {
            part: part.clone(),
            reason: reason.clone(),
            retry_after: *retry_after,
        },
        PublishError::Failed { reason } => PublishError::Failed {
            reason: reason.clone(),
        },
        _ => PublishError::Untried,
    }
}

/// Whether the service answered, if only to say no.
pub(super) fn is_answer(error: &Error) -> bool {
    let code = error.status().map(|status| status.code);
    matches!(code, Some(Code::NotFound | Code::PermissionDenied))
}

/// How long it waits is decided where all answers come together.
fn part_unavailable(topic: &Topic, reason: &str) -> PublishError {
    PublishError::PartUnavailable {
        part: Part::topic(topic).to_string(),
        reason: text::bounded(reason, text::ERROR_BYTES_MAX),
        retry_after: Duration::ZERO,
    }
}

pub(super) fn unavailable(reason: &str) -> PublishError {
    PublishError::Unavailable {
        reason: text::bounded(reason, text::ERROR_BYTES_MAX),
        source: None,
    }
}
