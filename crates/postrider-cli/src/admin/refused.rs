//! Why a request is not answered as asked: a status, and a text that says what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postrider::core::StoreError;
use postrider::core::text::{ERROR_BYTES_MAX, bounded, chain};
use serde_json::json;

#[derive(Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    error: String,
    /// How many records match, where another number was expected.
    count: Option<u64>,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: bounded(&error.into(), ERROR_BYTES_MAX),
            count: None,
        }
    }

    /// Asked wrongly.
    pub(crate) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// The same may succeed later.
    pub(crate) fn unavailable(error: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    pub(super) fn error(&self) -> &str {
        &self.error
    }

    /// Another number of records matches than was expected.
    pub(super) fn other_count(count: u64, expected: u64) -> Self {
        let error = format!(
            "{count} records match now, {expected} were expected; nothing was changed. Look again and confirm the new number"
        );
        Self {
            count: Some(count),
            ..Self::new(StatusCode::CONFLICT, error)
        }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            StoreError::Unfit { .. } => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, chain(&error))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": self.error });
        if let Some(count) = self.count {
            body["count"] = count.into();
        }
        (self.status, Json(body)).into_response()
    }
}
