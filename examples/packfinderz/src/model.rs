//! A row of `outbox_events`, exactly as the table has it, for programs that read rows: an admin page, a report. The
//! publisher reads them through its layout, and [`Outbox::emit`](postrider::stores::postgres::Outbox::emit) writes them.

use serde::Serialize;
use sqlx::types::time::OffsetDateTime;
use uuid::Uuid;

use crate::catalogue::{AggregateType, EventType};

/// Append-only: the first six fields never change. The publisher writes the last three.
#[derive(Debug, Clone, PartialEq, Serialize, sqlx::FromRow)]
pub struct OutboxEvent {
    pub id: Uuid,
    pub event_type: EventType,
    pub aggregate_type: AggregateType,
    pub aggregate_id: Uuid,
    /// The envelope: `version`, `eventId`, `occurredAt`, perhaps `actor`, and the payload as `data`.
    pub payload_json: serde_json::Value,
    pub created_at: OffsetDateTime,
    /// When Pub/Sub accepted it.
    pub published_at: Option<OffsetDateTime>,
    pub attempt_count: i32,
    pub last_error: Option<String>,
}
