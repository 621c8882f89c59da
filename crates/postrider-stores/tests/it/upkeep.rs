//! Counting and cleaning up, in the source systems' own words.

use std::time::Duration;

use postrider_core::{Fate, OutboxStore, Purge as _, Share, Want};
use postrider_stores::postgres::{Options, PostgresStore};

use crate::world::world;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// A packfinderz row with these values for `created_at`, `published_at` and `attempt_count`.
fn row(created_at: &str, published_at: &str, attempts: u32) -> String {
    format!(
        "INSERT INTO outbox_events VALUES (gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), '{{}}', \
         {created_at}, {published_at}, {attempts})"
    )
}

#[tokio::test]
async fn only_what_was_published_long_ago_is_purged() {
    // A0-13
    let world = world("packfinderz", "").await;
    let ago = |days: u32| format!("now() - interval '{days} days'");
    for insert in [
        row(&ago(60), &ago(31), 0),
        row(&ago(60), &ago(29), 0),
        row(&ago(60), "NULL", 0),
        row(&ago(60), "NULL", 25),
    ] {
        world.database.execute(&insert).await;
    }
    let store = world.store();
    assert_eq!(store.purge(30 * DAY, 1000).await.unwrap(), 1);
    assert_eq!(store.purge(30 * DAY, 1000).await.unwrap(), 0);
    assert_eq!(world.database.count("outbox_events").await, 3);
    assert_eq!(
        world
            .database
            .count("outbox_events WHERE published_at < now() - interval '30 days'")
            .await,
        0
    );
}

#[tokio::test]
async fn attempts_up_to_the_maximum_are_tried_and_no_more() {
    // A0-06
    let world = world("packfinderz", "").await;
    for attempts in [2, 3, 24, 25] {
        world
            .database
            .execute(&row("now()", "NULL", attempts))
            .await;
    }
    let claimable = async |max_attempts: Option<u32>| {
        let mut options = Options::new(world.layout.clone());
        options.max_attempts = max_attempts.unwrap_or(options.max_attempts);
        let store = PostgresStore::new(world.database.pool.clone(), options);
        let claim = store.claim(ALL).await.unwrap().unwrap();
        let attempts: Vec<u32> = claim
            .records()
            .iter()
            .map(|record| record.attempts)
            .collect();
        claim
            .settle(&vec![Fate::Released; attempts.len()])
            .await
            .unwrap();
        attempts
    };
    assert_eq!(claimable(None).await, [2, 3, 24]);
    assert_eq!(claimable(Some(3)).await, [2]);
}

#[tokio::test]
async fn the_backlog_equals_what_sql_says() {
    // A0-14
    let world = world("packfinderz", "").await;
    for n in 0..7 {
        let attempts = if n < 2 { 25 } else { n };
        let insert = row(&format!("now() - interval '{n} hours'"), "NULL", attempts);
        world.database.execute(&insert).await;
    }
    world
        .database
        .execute(&row("now() - interval '9 days'", "now()", 1))
        .await;
    let backlog = world.store().backlog().await.unwrap();
    let waiting = "outbox_events WHERE published_at IS NULL AND attempt_count < 25";
    assert_eq!(backlog.pending as i64, world.database.count(waiting).await);
    let dead = "outbox_events WHERE published_at IS NULL AND attempt_count >= 25";
    assert_eq!(backlog.dead as i64, world.database.count(dead).await);
    let age = format!("SELECT extract(epoch FROM now() - min(created_at)) FROM {waiting}");
    let truth = world.database.number(&age).await;
    assert!(backlog.oldest_age.unwrap().as_secs().abs_diff(truth as u64) <= 2);
}

#[tokio::test]
async fn talkies_operational_queries_run_as_they_are_written() {
    // A2-12
    let world = world("talkie", "").await;
    for n in 0..4 {
        world.emit(world.event(Some("k"), n)).await;
    }
    let store = world.store();
    let claim = store
        .claim(Want {
            limit: 3,
            bytes: usize::MAX,
            share: Share::ALL,
        })
        .await
        .unwrap()
        .unwrap();
    let error = "no".to_owned();
    let fates = [
        Fate::Published,
        Fate::Retry {
            attempts: 1,
            after: Duration::ZERO,
            error: error.clone(),
        },
        Fate::Dead { attempts: 1, error },
    ];
    claim.settle(&fates).await.unwrap();
    let troubled = world.database.texts(
        "SELECT * FROM outbox WHERE status IN ('failed', 'dead_lettered') ORDER BY next_attempt_at",
    );
    assert_eq!(troubled.await.len(), 2);
    let due = "SELECT * FROM outbox WHERE status = 'failed' AND next_attempt_at <= now()";
    assert_eq!(world.database.texts(due).await.len(), 1);
}
