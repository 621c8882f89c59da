//! Idempotency in Redis, while it works and while it does not.

use std::time::{Duration, Instant};

use futures::future::join_all;
use postrider_core::{EventId, IdempotencyStore as _, Reservation, StoreError};
use postrider_stores::redis::{DEFAULT_PREFIX, RedisIdempotency, ttl_from_env};
use postrider_testkit::redis::{Redis, fresh_prefix};
use postrider_testkit::services::{Kind, PrivateServer};
use postrider_testkit::{eventually, idempotency_conformance};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const LEASE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A call may take as long as the timeout, and a busy machine a little longer.
const TIMEOUT: Duration = Duration::from_millis(500);
const BOUND: Duration = Duration::from_secs(4);

async fn store() -> RedisIdempotency {
    RedisIdempotency::connect(&Redis::shared().url())
        .unwrap()
        .with_prefix(fresh_prefix())
}

mod conformance {
    use super::*;
    idempotency_conformance!(store());
}

/// A server of the test's own, and a store that does not wait for it for long.
async fn private() -> (PrivateServer, Redis, RedisIdempotency) {
    let server = PrivateServer::start(Kind::Redis).await;
    let redis = Redis::at(server.address());
    let store = RedisIdempotency::connect(&redis.url()).unwrap();
    (server, redis, store.with_timeout(TIMEOUT))
}

/// Every step says that Redis is unavailable, and none says so late.
async fn is_unavailable(store: &RedisIdempotency, id: &EventId) -> String {
    let owner = postrider_core::Owner("nobody".into());
    let start = Instant::now();
    let answers = [
        store.reserve("c", id, LEASE).await.map(drop),
        store.confirm("c", id, &owner, DAY).await.map(drop),
        store.check_and_mark_processed("c", id, DAY).await.map(drop),
    ];
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    let reasons = answers.map(|answer| match answer {
        Err(StoreError::Unavailable { reason, .. }) => reason,
        other => panic!("{other:?}"),
    });
    reasons.into_iter().next().unwrap()
}

async fn is_soon_first(store: &RedisIdempotency, id: &EventId) {
    eventually("Redis is there again", async || {
        match store.reserve("c", id, LEASE).await {
            Ok(Reservation::First(_)) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

/// Reserves and confirms.
async fn finish(store: &RedisIdempotency, consumer: &str, id: &EventId, ttl: Duration) {
    let Reservation::First(owner) = store.reserve(consumer, id, LEASE).await.unwrap() else {
        panic!("not first")
    };
    assert!(store.confirm(consumer, id, &owner, ttl).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_checks_at_once_exactly_one_is_told_that_it_is_not_processed() {
    // A1-13
    let store = store().await;
    let id = EventId::generate();
    let checks = (0..100).map(|_| store.check_and_mark_processed("billing", &id, DAY));
    let answers: Vec<bool> = join_all(checks)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(answers.iter().filter(|processed| !**processed).count(), 1);
    let other = store.check_and_mark_processed("shipping", &id, DAY).await;
    assert!(!other.unwrap());
}

#[tokio::test]
async fn a_confirmed_key_lives_as_long_as_the_environment_says() {
    // A1-14, S0-42
    let hour = 60 * 60 * 1000;
    let variable =
        |name: &str| (name == "PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS").then(|| "168".to_owned());
    let ttl = ttl_from_env(variable).unwrap();
    let redis = Redis::shared();
    let store = RedisIdempotency::connect(&redis.url()).unwrap();
    let id = EventId::generate();
    finish(&store, "billing", &id, ttl).await;
    let key = format!("{DEFAULT_PREFIX}billing:{id}");
    let left = redis.command(&["PTTL", &key]).await.unwrap();
    let left: i64 = left.parse().unwrap();
    assert!(left > 167 * hour && left <= 168 * hour, "{left}");
    redis.command(&["DEL", &key]).await;
}

#[tokio::test]
async fn both_ways_of_use_know_of_each_other() {
    // S1-80: only what is done is processed; what is reserved may yet fail.
    let store = store().await;
    let (marked, reserved, finished) = (
        EventId::generate(),
        EventId::generate(),
        EventId::generate(),
    );
    assert!(
        !store
            .check_and_mark_processed("c", &marked, DAY)
            .await
            .unwrap()
    );
    assert_eq!(
        store.reserve("c", &marked, LEASE).await.unwrap(),
        Reservation::Done
    );
    store.delete("c", &marked).await.unwrap();
    store.delete("c", &marked).await.unwrap();
    assert!(
        !store
            .check_and_mark_processed("c", &marked, DAY)
            .await
            .unwrap()
    );
    finish(&store, "c", &finished, DAY).await;
    assert!(
        store
            .check_and_mark_processed("c", &finished, DAY)
            .await
            .unwrap()
    );
    store.reserve("c", &reserved, LEASE).await.unwrap();
    let busy = store.check_and_mark_processed("c", &reserved, DAY).await;
    assert!(
        matches!(busy, Err(StoreError::Unavailable { .. })),
        "{busy:?}"
    );
}

#[tokio::test]
async fn a_key_that_another_program_has_set_is_done() {
    let (store, redis) = (store().await, Redis::shared());
    let prefix = fresh_prefix();
    let store = store.with_prefix(&prefix);
    redis.command(&["SET", &format!("{prefix}c:1"), "1"]).await;
    let reserved = store.reserve("c", &"1".into(), LEASE).await.unwrap();
    assert_eq!(reserved, Reservation::Done);
    redis
        .command(&["RPUSH", &format!("{prefix}c:2"), "1"])
        .await;
    let refused = store.reserve("c", &"2".into(), LEASE).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
    for id in ["1", "2"] {
        store.delete("c", &id.into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_redis_that_is_not_there_is_no_error_until_it_is_needed() {
    let store = RedisIdempotency::connect("redis://:secret@127.0.0.1:1").unwrap();
    assert!(!format!("{store:?}").contains("secret"));
    is_unavailable(&store.with_timeout(TIMEOUT), &EventId::generate()).await;
    for url in [
        "secret",
        "http://secret@h",
        "redis://:secret@h:port",
        "redis://:secret@h/db",
    ] {
        let error = RedisIdempotency::connect(url).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn a_redis_that_stands_still_is_unavailable_in_time_and_then_there_again() {
    let (server, _, store) = private().await;
    let (held, id) = (EventId::generate(), EventId::generate());
    finish(&store, "c", &held, DAY).await;
    server.pause();
    for _ in 0..2 {
        is_unavailable(&store, &EventId::generate()).await;
    }
    server.resume();
    is_soon_first(&store, &id).await;
    assert_eq!(
        store.reserve("c", &held, LEASE).await.unwrap(),
        Reservation::Done
    );
}

#[tokio::test]
async fn a_redis_that_was_restarted_without_its_data_has_forgotten() {
    // S1-85: a duplicate needs the loss of Redis' data.
    let (mut server, _, store) = private().await;
    let id = EventId::generate();
    finish(&store, "c", &id, DAY).await;
    server.kill();
    is_unavailable(&store, &EventId::generate()).await;
    server.restart().await;
    is_soon_first(&store, &id).await;
}

/// A way to the server. At a word, the connections on it fall silent: nothing comes through them any more, not even
/// their end. Later ones work.
async fn way_to(address: String) -> (String, watch::Sender<()>) {
    let (silence, word) = watch::channel(());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = TcpStream::connect(&address).await.unwrap();
            let mut word = word.clone();
            word.mark_unchanged();
            tokio::spawn(async move {
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                    Ok(()) = word.changed() => std::future::pending().await,
                }
            });
        }
    });
    (url, silence)
}

#[tokio::test]
async fn a_connection_that_fell_silent_is_replaced() {
    let (server, _, _) = private().await;
    let (url, silence) = way_to(server.address()).await;
    let store = RedisIdempotency::connect(&url).unwrap();
    let store = store.with_timeout(TIMEOUT);
    let (held, id) = (EventId::generate(), EventId::generate());
    finish(&store, "c", &held, DAY).await;
    silence.send(()).unwrap();
    let silent = store.reserve("c", &held, LEASE).await;
    assert!(
        matches!(silent, Err(StoreError::Unavailable { .. })),
        "{silent:?}"
    );
    is_soon_first(&store, &id).await;
}

#[tokio::test]
async fn scripts_that_redis_has_forgotten_are_sent_again() {
    let (_server, redis, store) = private().await;
    for _ in 0..2 {
        let id = EventId::generate();
        finish(&store, "c", &id, DAY).await;
        redis.command(&["SCRIPT", "FLUSH"]).await;
    }
}

#[tokio::test]
async fn a_redis_that_is_full_refuses_and_never_says_first() {
    let (_server, redis, store) = private().await;
    let (held, id) = (EventId::generate(), EventId::generate());
    finish(&store, "c", &held, DAY).await;
    let owner = match store.reserve("c", &id, LEASE).await.unwrap() {
        Reservation::First(owner) => owner,
        other => panic!("{other:?}"),
    };
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let reason = is_unavailable(&store, &EventId::generate()).await;
    assert!(reason.contains("maxmemory"), "{reason}");
    // What needs no memory goes on.
    let known = store.reserve("c", &held, LEASE).await.unwrap();
    assert_eq!(known, Reservation::Done);
    store.release("c", &id, &owner).await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    is_soon_first(&store, &id).await;
}

#[tokio::test]
async fn a_redis_that_may_only_be_read_is_unavailable() {
    let (_server, redis, store) = private().await;
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let id = EventId::generate();
    is_unavailable(&store, &id).await;
    redis.command(&["REPLICAOF", "NO", "ONE"]).await;
    is_soon_first(&store, &id).await;
}

#[tokio::test]
async fn a_password_that_is_wrong_is_unavailable() {
    let (_server, redis, _) = private().await;
    redis
        .command(&["CONFIG", "SET", "requirepass", "right"])
        .await;
    for login in ["", ":wrong@"] {
        let url = redis.url().replace("redis://", &format!("redis://{login}"));
        let store = RedisIdempotency::connect(&url).unwrap();
        is_unavailable(&store, &EventId::generate()).await;
    }
    let url = redis.url().replace("redis://", "redis://:right@");
    let store = RedisIdempotency::connect(&url).unwrap();
    is_soon_first(&store, &EventId::generate()).await;
}
