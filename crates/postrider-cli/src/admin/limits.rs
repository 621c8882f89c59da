//! How much a client may ask for or send.

use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;

use super::problem;

pub(super) const CONNECTIONS_MAX: usize = 64;
pub(super) const HEADER_BYTES_MAX: usize = 16 * 1024;
pub(super) const HEADERS_MAX: usize = 64;
/// From the connection, or the last answer, to the end of the next request's headers.
pub(super) const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_BYTES_MAX: u64 = 16 * 1024;

/// No resource reads a body, so that one without a length costs nothing either.
pub(super) async fn refuse_large_bodies(request: Request, next: Next) -> Response {
    if request.body().size_hint().lower() > BODY_BYTES_MAX {
        return problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is over 16 KiB");
    }
    next.run(request).await
}
