//! `Authorization: Bearer <token>`, compared in constant time.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq as _;

use super::{Admin, problem};

pub(super) async fn require_token(
    State(admin): State<Admin>,
    request: Request,
    next: Next,
) -> Response {
    let allowed = match &admin.token {
        None => true,
        Some(token) => bearer(request.headers())
            .is_some_and(|given| given.as_bytes().ct_eq(token.expose().as_bytes()).into()),
    };
    if allowed {
        return next.run(request).await;
    }
    let mut response = problem(StatusCode::UNAUTHORIZED, "a bearer token is needed");
    let challenge = HeaderValue::from_static("Bearer");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}
