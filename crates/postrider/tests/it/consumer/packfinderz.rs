//! PackFinderz: how long keys last, and what a consumer may not touch.

use postrider::consumer::middleware::Transaction;
use postrider::stores::postgres::{self, PgTransactions};
use postrider::stores::redis::ttl_from_env;
use postrider_testkit::services::services;
use uuid::Uuid;

use super::acting::{Act, Acting, apply};
use super::redis::{consumer, idempotency, ttl_secs};
use super::world::{Running, World};

/// A1-14: with `PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS=168` the confirmed key's TTL is in (167 h, 168 h].
#[tokio::test(flavor = "multi_thread")]
async fn the_confirmed_key_lasts_as_long_as_the_environment_says() {
    let world = World::new().await;
    let set =
        |name: &str| (name == "PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS").then(|| "168".to_owned());
    let (id, ttl) = (Uuid::now_v7(), ttl_from_env(set).unwrap());
    let acting = Acting::new(&world, |_, _| Act::Apply);
    world.publish(&[world.message(id, "k", 1)]).await;
    let running = Running::start(consumer(&world, idempotency().ttl(ttl), &acting));
    world.until_all_acknowledged().await;
    running.stop().await;
    let ttl = ttl_secs(id).await;
    assert!((167 * 3600 + 1..=168 * 3600).contains(&ttl), "{ttl}");
}

/// A0-15: a consumer whose role has no rights on `outbox_events` works.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_works_without_rights_on_the_outbox() {
    let world = World::new().await;
    let role = format!("role_{}", Uuid::now_v7().simple());
    let schema = &world.database.schema;
    world
        .database
        .execute(&format!(
            "CREATE TABLE outbox_events (id uuid); CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; \
             REVOKE ALL ON outbox_events, outbox FROM PUBLIC, {role}; \
             GRANT INSERT ON effects TO {role}; GRANT USAGE ON SEQUENCE effects_seq_seq TO {role}"
        ))
        .await;
    let url = world
        .database
        .url
        .replacen("postgres@", &format!("{role}@"), 1);
    assert!(url.contains(&role), "{}", services().postgres_url);
    let pool = postgres::connect(&url, 4).unwrap();
    assert!(
        sqlx::query("SELECT FROM outbox_events")
            .execute(&pool)
            .await
            .is_err()
    );
    let transactions = PgTransactions::new(pool.clone());
    let consumer = world
        .consumer()
        .with(idempotency())
        .with(Transaction::new(transactions))
        .handle(apply);
    let running = Running::start(consumer);
    world.place("k", [1, 2]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.effects().await, 2);
    pool.close().await;
    world
        .database
        .execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}
