//! An outbox as the admin address knows it, and questions to its database within bounds.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts as RequestParts;
use postrider::core::operate::{Finding, ManagedStore};
use postrider::core::{Layout, Publisher, RecordId, Router, StoreError};
use postrider::relay::Monitor;
use postrider::{Health, Relay};
use tokio::sync::Semaphore;

use super::Admin;
use super::ask::text;
use super::counts::Counts;
use super::limits;
use super::refused::Refused;
use super::replays::Replays;

/// What an outbox is made of.
pub(crate) struct Parts<'a> {
    pub(crate) name: &'a str,
    pub(crate) layout: &'a Layout,
    /// As the config calls it.
    pub(crate) broker: &'a str,
    pub(crate) relay: &'a Relay,
    pub(crate) store: Arc<dyn ManagedStore>,
    pub(crate) router: Router,
    /// The largest message that the broker takes, where there is a limit.
    pub(crate) payload_bytes_max: Option<u64>,
    /// Makes a publisher for a replay, best one of its own.
    pub(crate) publisher: MakePublisher,
}

pub(crate) type MakePublisher = Box<dyn Fn() -> Result<Arc<dyn Publisher>, String> + Send + Sync>;

pub(crate) struct Managed {
    name: String,
    pub(super) layout: Layout,
    pub(super) broker: String,
    pub(super) health: Health,
    pub(super) monitor: Monitor,
    pub(super) store: Arc<dyn ManagedStore>,
    pub(super) router: Router,
    pub(super) counts: Counts,
    pub(super) replays: Replays,
    pub(super) payload_bytes_max: Option<u64>,
    turns: Semaphore,
}

impl Managed {
    pub(crate) fn new(parts: Parts<'_>) -> Self {
        Self {
            name: parts.name.into(),
            layout: parts.layout.clone(),
            broker: parts.broker.into(),
            health: parts.relay.health(),
            monitor: parts.relay.monitor(),
            replays: Replays::new(parts.store.clone(), parts.router.clone(), parts.publisher),
            router: parts.router,
            store: parts.store,
            counts: Counts::default(),
            payload_bytes_max: parts.payload_bytes_max,
            turns: Semaphore::new(limits::QUESTIONS_MAX),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What the relay's store knows to be wrong, without a question to the database.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = self.store.findings();
        findings.truncate(limits::FINDINGS_MAX);
        findings
    }

    /// Puts a question to the database, when it is its turn and within 10 seconds.
    pub(super) async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Refused> {
        self.ask_within(limits::ANSWER_TIMEOUT, question).await
    }

    pub(super) async fn ask_within<T>(
        &self,
        patience: Duration,
        question: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Refused> {
        let answer = async {
            // Never closed; a turn that could not be had would be one too many, not a reason to fail.
            let _turn = self.turns.acquire().await.ok();
            question.await
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Refused::unavailable(format!(
                "the database of outbox {} gave no answer within {patience:?}; try again, or ask for less",
                self.name
            ))),
        }
    }
}

/// The outbox that the path names.
pub(super) struct OfOutbox(pub(super) Arc<Managed>);

/// The outbox and the record that the path names. Whether there is such a record, only the database knows.
pub(super) struct OfRecord(pub(super) Arc<Managed>, pub(super) RecordId);

impl FromRequestParts<Admin> for OfOutbox {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut RequestParts, admin: &Admin) -> Result<Self, Refused> {
        let name = parameter(parts, admin, "outbox").await?;
        admin.outbox(&name).map(Self)
    }
}

impl FromRequestParts<Admin> for OfRecord {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut RequestParts, admin: &Admin) -> Result<Self, Refused> {
        let OfOutbox(outbox) = OfOutbox::from_request_parts(parts, admin).await?;
        let id = parameter(parts, admin, "id").await?;
        Ok(Self(outbox, RecordId::Text(text("id", id)?.into())))
    }
}

async fn parameter(parts: &mut RequestParts, admin: &Admin, name: &str) -> Result<String, Refused> {
    let parameters = RawPathParams::from_request_parts(parts, admin)
        .await
        .map_err(|_| Refused::bad("the path is not UTF-8"))?;
    let found = parameters.iter().find(|(key, _)| *key == name);
    found
        .map(|(_, value)| value.to_owned())
        .ok_or_else(|| Refused::not_found("there is no such resource"))
}
