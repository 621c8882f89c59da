//! `compliance-consumer`: a license that was uploaded is told to the admins, a decision to its store. It never touches
//! the outbox.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use postrider::Consumer;
use postrider::Metrics;
use postrider::brokers::pubsub::{PubSubSubscription, PubSubSubscriptionConfig};
use postrider::consumer::middleware::{Ack, RedisIdempotency, Retry, Trace, Transaction};
use postrider::consumer::{Context, Handlers};
use postrider::core::{Event, HandlerError, Ordering};
use postrider::stores::postgres::{self, PgTransactions, Tx};
use postrider::stores::redis;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::catalogue::EventType;
use crate::payloads::{LicenseStatus, LicenseStatusChanged};
use crate::{endpoints, settings};

/// Part of the Redis keys, so it must stay the same.
pub const CONSUMER: &str = "compliance";
/// One per worker, and one to spare.
const CONNECTIONS: u32 = 9;
/// An event that is in another's hands is asked for again after so long. Each time counts as a delivery towards the
/// subscription's dead-letter policy, and a consumer that was killed keeps its events for half a minute.
const DEFERRED: Duration = Duration::from_secs(2);

/// Runs until told to stop.
pub async fn run(settings: settings::Consumer, shutdown: CancellationToken) -> anyhow::Result<()> {
    let metrics = Metrics::new();
    let consumer = consumer(&settings, &metrics)?;
    let watching = endpoints::watching(consumer.health(), metrics, shutdown.clone());
    let serving = endpoints::serve(settings.health_listen, watching, shutdown.clone());
    endpoints::beside(consumer.run(shutdown.clone()), serving, &shutdown).await
}

fn consumer(settings: &settings::Consumer, metrics: &Metrics) -> anyhow::Result<Consumer> {
    let mut from = PubSubSubscriptionConfig::new(&settings.project, &settings.domain_subscription);
    from.ordering = Ordering::None;
    let subscription = PubSubSubscription::new(from)?;
    let store = redis::RedisIdempotency::connect(&settings.redis_url);
    let store = store.context(settings::REDIS_URL)?;
    let pool = postgres::connect(&settings.database_url, CONNECTIONS)?;
    Ok(Consumer::builder(CONSUMER, Arc::new(subscription))
        .metrics(metrics)
        .with(Ack {
            deferred: DEFERRED,
            ..Ack::default()
        })
        .with(Trace)
        .with(Retry::default())
        .with(RedisIdempotency::new(store).ttl(settings.idempotency_ttl))
        .with(Transaction::new(PgTransactions::new(pool)))
        .handle(handlers()))
}

/// Every other event of the domain topic is none of this consumer's business. One that the catalogue does not know is a
/// failure, and not acknowledged.
fn handlers() -> Handlers<Tx> {
    let others = EventType::ALL
        .iter()
        .filter(|of| **of != EventType::LicenseStatusChanged);
    others.fold(Handlers::new().on(notify), |handlers, other| {
        handlers.ignore(other.label())
    })
}

/// Writes one notification, in the transaction of the delivery.
async fn notify(
    ctx: &mut Context<Tx>,
    event: Event<LicenseStatusChanged>,
) -> Result<(), HandlerError> {
    let event_id: Uuid = event.id.as_str().parse().map_err(HandlerError::permanent)?;
    let changed = event.payload;
    let written = sqlx::query(
        "INSERT INTO notifications (id, type, audience, store_id, license_id, reason, message, event_id) \
         VALUES ($1, 'compliance', $2, $3, $4, $5, $6, $7) ON CONFLICT (type, event_id) DO NOTHING",
    )
    .bind(Uuid::now_v7())
    .bind(audience(changed.status))
    .bind(changed.store_id)
    .bind(changed.license_id)
    .bind(&changed.reason)
    .bind(message(&changed))
    .bind(event_id)
    .execute(&mut **ctx.tx())
    .await?;
    if written.rows_affected() == 0 {
        tracing::info!(%event_id, "notified of before, though Redis did not know");
    }
    Ok(())
}

fn audience(status: LicenseStatus) -> &'static str {
    match status {
        LicenseStatus::Pending => "admins",
        LicenseStatus::Verified | LicenseStatus::Rejected => "store",
    }
}

fn message(changed: &LicenseStatusChanged) -> String {
    let LicenseStatusChanged {
        license_id,
        store_id,
        ..
    } = changed;
    let told = match changed.status {
        LicenseStatus::Pending => format!("License {license_id} of store {store_id} awaits review"),
        LicenseStatus::Verified => format!("License {license_id} was verified"),
        LicenseStatus::Rejected => format!("License {license_id} was rejected"),
    };
    match &changed.reason {
        Some(reason) => format!("{told}: {reason}"),
        None => told,
    }
}
