//! How often the publisher asks, as Postgres' own log of statements has it.

use std::time::Duration;

use example_packfinderz::migrations;
use example_packfinderz::settings::DATABASE_URL;
use postrider::stores::postgres;
use postrider_testkit::services::{Kind, PrivateServer};
use postrider_testkit::{eventually, eventually_within};

use crate::world::{PUBLISHER, World};

/// How late a timer may be on a busy machine.
const LATE: Duration = Duration::from_millis(400);
const OUTAGE_MAX: Duration = Duration::from_secs(10);

/// When claims were made, in time since midnight. A line begins with `2026-11-18 02:03:04.567 UTC`.
fn claims(server: &PrivateServer) -> Vec<Duration> {
    let log = std::fs::read_to_string(server.dir().join("log")).unwrap();
    let lines = log
        .lines()
        .filter(|line| line.contains("execute ") && line.contains(r#""payload_json" AS c4"#));
    lines
        .map(|line| {
            let time: Vec<&str> = line[11..23].split([':', '.']).collect();
            let number = |at: usize| time[at].parse::<u64>().unwrap();
            let secs = number(0) * 3600 + number(1) * 60 + number(2);
            Duration::from_secs(secs) + Duration::from_millis(number(3))
        })
        .collect()
}

fn gaps(claims: &[Duration]) -> Vec<Duration> {
    let day = Duration::from_secs(24 * 3600);
    // Over midnight too.
    let gap = |pair: &[Duration]| (pair[1] + day - pair[0]).as_nanos() % day.as_nanos();
    let gaps = claims.windows(2).map(gap);
    gaps.map(|nanos| Duration::from_nanos(nanos.try_into().unwrap()))
        .collect()
}

/// Waits until the gaps between claims are as wanted.
async fn until_gaps(server: &PrivateServer, wanted: impl Fn(&[Duration]) -> bool) -> Vec<Duration> {
    let patience = Duration::from_secs(60);
    eventually_within(patience, "claims", async || match gaps(&claims(server)) {
        found if wanted(&found) => Ok(found),
        found => Err(found),
    })
    .await
}

/// A1-12: the real publisher on an empty table polls at gaps of 250 to 1000 ms with jitter. While the broker fails,
/// the gaps between its tries grow, up to 10 s and no more.
#[tokio::test(flavor = "multi_thread")]
async fn polls_are_paced_and_grow_apart_while_the_broker_fails() {
    let server = PrivateServer::start(Kind::Postgres).await;
    // It answers pings, and refuses whatever is published.
    let refuses = vec![("PUBSUB_REFUSES_PUBLISH", "1".to_owned())];
    let broker = PrivateServer::start_with(Kind::PubSub, refuses).await;
    let base = format!("postgres://postgres@{}/postgres", server.address());
    let pool = postgres::connect(&base, 1).unwrap();
    migrations::up(&pool).await.unwrap();
    let world = World::without_topics(broker.address()).await;
    let url = format!("{base}?options=-clog_statement%3Dall");
    let publisher = world.ready(PUBLISHER, &[(DATABASE_URL, &url)]).await;
    let idle = until_gaps(&server, |gaps| gaps.len() >= 11).await;
    for gap in &idle {
        let allowed = Duration::from_millis(250)..=Duration::from_millis(1000) + LATE;
        assert!(allowed.contains(gap), "{idle:?}");
    }
    let (least, most) = (
        idle[4..].iter().min().unwrap(),
        idle[4..].iter().max().unwrap(),
    );
    assert!(
        *most - *least > Duration::from_millis(5),
        "no jitter: {idle:?}"
    );

    let before = claims(&server).len() - 1;
    sqlx::raw_sql(
        "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) SELECT id, \
         'ad_expired', 'ad', id, jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', now(), 'data', \
         jsonb_build_object('adId', id, 'storeId', id)) FROM gen_random_uuid() id",
    )
    .execute(&pool)
    .await
    .unwrap();
    eventually("the publisher notices", async || {
        match publisher.get("/readyz").await {
            (503, _) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    // Tries come after 0.25, 0.5, 1, 2, 4, 8 and 10 s, each up to a fifth sooner: only the last can be longer than 8 s.
    let at_cap = OUTAGE_MAX.mul_f64(0.8);
    let is_at_cap = |gaps: &[Duration]| gaps.last().is_some_and(|gap| *gap > at_cap);
    let tries = until_gaps(&server, is_at_cap).await.split_off(before);
    let grows = |gap: &Duration| *gap > Duration::from_millis(600);
    let growing = &tries[tries.iter().position(grows).unwrap()..];
    assert!(growing.len() >= 4 && growing.is_sorted(), "{tries:?}");
    assert!(
        growing.iter().all(|gap| *gap <= OUTAGE_MAX + LATE),
        "{tries:?}"
    );
}
