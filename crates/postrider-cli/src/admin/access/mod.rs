//! Who may ask what. A wrong token learns nothing: whatever is asked with it, there is one answer.

mod host;
mod site;
mod token;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use postrider::core::operate::Actor;

pub(super) use host::require_loopback_name;
pub(super) use site::refuse_other_sites;

use super::Admin;
use super::refused::Refused;
use crate::config::{Role, Token};
use token::{Given, Padded};

/// What whoever reaches an address without tokens is called.
const LOOPBACK: &str = "loopback";

/// Who asks, and what they may.
#[derive(Debug, Clone)]
pub(super) struct Who {
    pub(super) name: Arc<str>,
    pub(super) role: Role,
}

impl Who {
    pub(super) fn actor(&self) -> Actor {
        Actor(self.name.as_ref().into())
    }
}

/// The tokens of an admin address.
pub(crate) struct Access(Vec<(Who, Padded)>);

impl Access {
    pub(crate) fn new(tokens: &BTreeMap<String, Token>) -> Self {
        let known = tokens.iter().map(|(name, token)| {
            let who = Who {
                name: name.as_str().into(),
                role: token.role,
            };
            (who, Padded::new(token.token.expose().as_bytes()))
        });
        Self(known.collect())
    }

    /// Without tokens, whoever can reach the address may do everything.
    fn has_no_tokens(&self) -> bool {
        self.0.is_empty()
    }

    fn who(&self, request: &Request) -> Option<Who> {
        if self.has_no_tokens() {
            return Some(Who {
                name: LOOPBACK.into(),
                role: Role::Operate,
            });
        }
        let given = Given::in_headers(request.headers());
        let index = given.position(self.0.iter().map(|(_, token)| token))?;
        self.0.get(index).map(|(who, _)| who.clone())
    }
}

/// Lets nobody pass who is not known; tells the rest who asks.
pub(super) async fn identify(
    State(admin): State<Admin>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(who) = admin.access.who(&request) else {
        let refused = Refused::new(StatusCode::UNAUTHORIZED, "a bearer token is needed");
        let mut response = refused.into_response();
        let challenge = HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    };
    request.extensions_mut().insert(who);
    next.run(request).await
}

/// Lets pass who may do what a resource needs.
pub(super) async fn require(
    State(needed): State<Role>,
    who: Who,
    request: Request,
    next: Next,
) -> Response {
    if who.role >= needed {
        return next.run(request).await;
    }
    let error = "this needs a token with the role `operate`";
    Refused::new(StatusCode::FORBIDDEN, error).into_response()
}

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        // Every resource that asks for it lies behind `identify`; one that did not would be open to nobody.
        let nobody = || Refused::new(StatusCode::UNAUTHORIZED, "a bearer token is needed");
        parts.extensions.get().cloned().ok_or_else(nobody)
    }
}
