//! What an error of Redis means for the caller.

use postrider_core::{StoreError, text};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Codes that say something of the server and nothing of the command.
const LATER: [&str; 6] = [
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "NOAUTH",
    "WRONGPASS",
];

pub(super) fn store_error(error: RedisError) -> StoreError {
    let reason = format!("Redis: {}", text::chain(&error));
    if is_transient(&error) {
        return StoreError::Unavailable {
            reason,
            source: Some(error.into()),
        };
    }
    StoreError::Refused {
        action: "keep an idempotency key",
        reason,
        source: Some(error.into()),
    }
}

/// Credentials may be let in after they were changed, and memory be freed, so those too are worth another try.
fn is_transient(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io | ErrorKind::AuthenticationFailed | ErrorKind::Parse => true,
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ReadOnly
        ),
        _ => error.code().is_some_and(|code| LATER.contains(&code)),
    }
}
