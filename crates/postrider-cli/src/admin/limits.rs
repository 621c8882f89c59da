//! How much a client may ask for or send, and how long it may take.

use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::refused::Refused;

pub(super) const CONNECTIONS_MAX: usize = 64;
pub(super) const STREAMS_MAX: usize = 16;
pub(super) const HEADER_BYTES_MAX: usize = 16 * 1024;
pub(super) const HEADERS_MAX: usize = 64;
/// From the connection, or the last answer, to the end of the next request's headers.
pub(super) const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// For the whole of a body.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take nothing of its answer.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;
/// Of a record id, a key, a type: whatever is looked for.
pub(super) const TEXT_BYTES_MAX: usize = 1024;
pub(super) const IDS_MAX: usize = 1_000;
pub(super) const PAGE_DEFAULT: u32 = 50;
pub(super) const PAGE_MAX: u32 = 500;
pub(super) const PARKED_MAX: u32 = 200;
pub(super) const ACTS_MAX: u32 = 200;
/// Of a list, about: what is longer ends sooner.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Of each text in a list, as it is written in JSON.
pub(super) const LISTED_BYTES_MAX: usize = 1024;
/// Of each text of a single record.
pub(super) const SINGLE_BYTES_MAX: usize = 64 * 1024;
/// Of what a relay's store knows to be wrong.
pub(super) const FINDINGS_MAX: usize = 100;
/// Records that one change may be about.
pub(super) const CHANGE_MAX: u64 = 100_000;
/// Of a payload, as it is shown.
pub(super) const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// A payload that is larger is not read to be shown.
pub(super) const PAYLOAD_READ_MAX: u64 = 64 << 20;
/// Questions to one outbox's database at a time, so that the relay has connections left.
pub(super) const QUESTIONS_MAX: usize = 2;
/// For an answer of the database, the wait for a turn included.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// For a change, likewise.
pub(super) const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// What has a length is refused by it. A body without one is cut off by whoever reads it; nobody else does.
pub(super) async fn refuse_large_bodies(request: Request, next: Next) -> Response {
    if request.body().size_hint().lower() > BODY_BYTES_MAX as u64 {
        return too_large().into_response();
    }
    next.run(request).await
}

pub(super) fn too_large() -> Refused {
    Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is over 64 KiB")
}
