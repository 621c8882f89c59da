//! The JSON API: one resource per question, in one table with the role that each needs. `docs/admin-api.md` is its contract.

mod audit;
mod dead;
mod diagnosis;
mod events;
mod payload;
mod record;
mod records;
mod replay;

use axum::extract::State;
use axum::http::Method;
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Json, Router, middleware};
use serde_json::{Value, json};

use super::access::{self, Who};
use super::{Admin, overview};
use crate::config::Role;

/// One resource and one method of it.
pub(super) struct Resource {
    /// For the test of roles: a method router does not tell.
    #[cfg(test)]
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) needs: Role,
    answer: MethodRouter<Admin>,
}

/// Everything that can be asked. What is not in here cannot be reached, and what is has a line in the test of roles.
pub(super) fn resources() -> Vec<Resource> {
    use Role::{Operate, View};
    let ask = |path, needs, answer| Resource::new(Method::GET, path, needs, answer);
    let change = |path, answer| Resource::new(Method::POST, path, Operate, answer);
    vec![
        ask("/api/me", View, get(me)),
        ask("/api/overview", View, get(overview)),
        ask("/api/events", View, get(events::events)),
        ask("/api/outboxes/{outbox}/records", View, get(records::find)),
        ask(
            "/api/outboxes/{outbox}/records/count",
            View,
            get(records::count),
        ),
        ask(
            "/api/outboxes/{outbox}/records/{id}",
            View,
            get(record::record),
        ),
        ask(
            "/api/outboxes/{outbox}/records/{id}/payload",
            Operate,
            get(payload::payload),
        ),
        ask("/api/outboxes/{outbox}/parked", View, get(records::parked)),
        ask(
            "/api/outboxes/{outbox}/diagnosis",
            View,
            get(diagnosis::diagnosis),
        ),
        ask("/api/outboxes/{outbox}/audit", View, get(audit::audit)),
        ask("/api/outboxes/{outbox}/replay", View, get(replay::last)),
        change("/api/outboxes/{outbox}/dead/resend", post(dead::resend)),
        change("/api/outboxes/{outbox}/dead/discard", post(dead::discard)),
        change("/api/outboxes/{outbox}/replay", post(replay::start)),
        Resource::new(
            Method::DELETE,
            "/api/outboxes/{outbox}/replay",
            Operate,
            delete(replay::stop),
        ),
    ]
}

impl Resource {
    fn new(method: Method, path: &'static str, needs: Role, answer: MethodRouter<Admin>) -> Self {
        #[cfg(not(test))]
        drop(method);
        Self {
            #[cfg(test)]
            method,
            path,
            needs,
            answer,
        }
    }
}

pub(super) fn router() -> Router<Admin> {
    let mut router = Router::new();
    for resource in resources() {
        let answer = resource.answer.route_layer(middleware::from_fn_with_state(
            resource.needs,
            access::require,
        ));
        router = router.route(resource.path, answer);
    }
    router.layer(middleware::from_fn(access::refuse_other_sites))
}

async fn me(State(admin): State<Admin>, who: Who) -> Json<Value> {
    Json(json!({ "name": &*who.name, "role": who.role, "demo": admin.demo.is_some() }))
}

async fn overview(State(admin): State<Admin>) -> Json<Value> {
    admin.count_within(overview::PATIENCE).await;
    Json(admin.overview())
}
