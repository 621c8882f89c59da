//! An inbox consumer with captured follow-up events and an embedded relay: a service that confirms orders.
//!
//! ```sh
//! DATABASE_URL=postgres://localhost/confirmations BROKER=kafka KAFKA=127.0.0.1:9092 TOPIC=orders \
//!   GROUP=confirmations cargo run -p postrider --all-features --example consumer
//! ```
//!
//! | `MODE` | an order's effects happen | by |
//! |---|---|---|
//! | `inbox` | once | an inbox entry in the transaction of the effects |
//! | `redis` | once, unless Redis loses data or the process dies in the middle | a reservation |
//! | `unprotected` | at least once | nothing but the broker |

#[path = "../shop/mod.rs"]
mod shop;
mod subscription;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider::Consumer;
use postrider::consumer::middleware::{
    Ack, CaptureOutbox, Inbox, RedisIdempotency, Retry, Trace, Transaction,
};
use postrider::consumer::{Config, Context, Middleware, Next};
use postrider::core::{Event, Handled, HandlerError};
use postrider::stores::postgres::{
    self, InboxLayout, InitOptions, Outbox, PgInbox, PgPool, PgTransactions, Tx,
};
use postrider::stores::redis;
use shop::{Broker, Failure, OrderConfirmed, OrderPlaced, setting, setting_or};
use sqlx::PgConnection;
use subscription::subscribe;
use tokio::sync::Notify;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    shop::log();
    let shutdown = shop::shutdown()?;
    let (pool, broker) = (
        postgres::connect(&setting("DATABASE_URL")?, 16)?,
        Broker::from_settings()?,
    );
    init(&pool).await?;

    // A captured event leaves at once: the commit wakes the relay.
    let wake = Arc::new(Notify::new());
    let relay = shop::relay(pool.clone(), &broker, wake.clone())?;
    let consumer = consumer(&pool, &broker, wake)?;

    // One shutdown for both; if one of them ends, so does the other.
    let consume = async {
        let ended = consumer.run(shutdown.clone()).await;
        shutdown.cancel();
        ended
    };
    let relay = async {
        let ended = relay.run(shutdown.clone()).await;
        shutdown.cancel();
        ended
    };
    let (consumed, relayed) = tokio::join!(consume, relay);
    consumed?;
    Ok(relayed?)
}

fn consumer(pool: &PgPool, broker: &Broker, wake: Arc<Notify>) -> Result<Consumer, Failure> {
    let config = Config {
        workers: setting_or("WORKERS", 8)?,
        ..Config::default()
    };
    let chain = Consumer::builder(setting("GROUP")?, subscribe(broker)?)
        .config(config)
        .with(Ack::default())
        .with(Trace)
        .with(NoteDuplicates(pool.clone()))
        .with(Retry::default());
    let transaction = Transaction::new(PgTransactions::new(pool.clone()));
    let transaction = transaction.batch(setting_or("BATCH", 1)?);
    let capture = CaptureOutbox::new(Outbox::new(shop::layout()?)).wake(wake);
    Ok(match &*setting_or("MODE", "inbox".to_owned())? {
        "inbox" => chain
            .with(transaction)
            .with(Inbox::new(PgInbox::new(InboxLayout::gopipe())))
            .with(capture)
            .handle(confirm),
        "redis" => {
            let pool = pool.clone();
            let outside = move |_: &mut Context, event| confirm_outside(pool.clone(), event);
            chain.with(idempotency()?).handle(outside)
        }
        "unprotected" => chain.with(transaction).with(capture).handle(confirm),
        other => return Err(format!("MODE is inbox, redis or unprotected, not {other}").into()),
    })
}

/// The effect and the confirmation are committed together, or not at all.
async fn confirm(ctx: &mut Context<Tx>, event: Event<OrderPlaced>) -> Result<Event, HandlerError> {
    write_effect(ctx.tx(), &event).await?;
    work().await?;
    let OrderPlaced { customer, number } = event.payload;
    let confirmed = OrderConfirmed { customer, number };
    Ok(Event::typed(&confirmed)?.aggregate_id(confirmed.customer))
}

/// An effect that no transaction of the consumer's covers, such as a call to another service.
async fn confirm_outside(pool: PgPool, event: Event<OrderPlaced>) -> Result<(), HandlerError> {
    work().await?;
    write_effect(&mut *pool.acquire().await?, &event).await
}

async fn write_effect(
    connection: &mut PgConnection,
    event: &Event<OrderPlaced>,
) -> Result<(), HandlerError> {
    let sql = "INSERT INTO effects (event_id, customer, number, process) VALUES ($1, $2, $3, $4)";
    sqlx::query(sql)
        .bind(event.id.as_str())
        .bind(&event.payload.customer)
        .bind(event.payload.number)
        .bind(i64::from(std::process::id()))
        .execute(connection)
        .await?;
    Ok(())
}

/// Stands for whatever else a handler does, which takes up to `WORK_MS`.
async fn work() -> Result<(), HandlerError> {
    let most = setting_or("WORK_MS", 0).map_err(HandlerError::temporary)?;
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..=most))).await;
    Ok(())
}

/// A middleware of one's own: keeps a list of the deliveries whose effects were there already.
struct NoteDuplicates(PgPool);

#[async_trait]
impl Middleware for NoteDuplicates {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let handled = next.run(ctx).await?;
        if handled == Handled::Duplicate {
            sqlx::query("INSERT INTO duplicates (event_id) VALUES ($1)")
                .bind(ctx.event_id().map(|id| id.as_str()))
                .execute(&self.0)
                .await?;
        }
        Ok(handled)
    }
}

fn idempotency() -> Result<RedisIdempotency, Failure> {
    let prefix = setting_or("REDIS_PREFIX", redis::DEFAULT_PREFIX.to_owned())?;
    let store = redis::RedisIdempotency::connect(&setting("REDIS_URL")?)?.with_prefix(prefix);
    let lease = Duration::from_secs(setting_or("RESERVATION_SECS", 30)?);
    Ok(RedisIdempotency::new(store).lease(lease))
}

/// Safe from any number of processes at once.
async fn init(pool: &PgPool) -> Result<(), Failure> {
    let options = InitOptions {
        claim_index: true,
        notify: false,
    };
    postgres::init(pool, &shop::layout()?, &options).await?;
    postgres::inbox::init(pool, &InboxLayout::gopipe()).await?;
    sqlx::raw_sql(include_str!("../shop/schema.sql"))
        .execute(pool)
        .await?;
    Ok(())
}
