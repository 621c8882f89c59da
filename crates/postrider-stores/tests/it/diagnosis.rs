//! What holds a backlog up is named: each situation is made on a real server.

use std::time::Duration;

use postrider_core::layout::PRESETS;
use postrider_core::{Diagnosis as _, Fate, Finding, Level, Limits, OutboxStore as _, Share, Want};
use postrider_stores::postgres::{Options, PostgresStore, connect, connect_relay};

use crate::check::role;
use crate::world::{World, world};

const RELAY_RUNS: Limits = Limits {
    payload_bytes_max: None,
    relay_runs: true,
};

const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// A store to which every transaction is a long one.
fn impatient(world: &World) -> PostgresStore {
    let options = Options {
        name: "orders".into(),
        overdue: Duration::ZERO,
        ..Options::new(world.layout.clone())
    };
    PostgresStore::new(connect(&world.database.url, 2).unwrap(), options)
}

/// Without what other tests do to the server at the same time.
fn own(mut findings: Vec<Finding>) -> Vec<Finding> {
    let shared = |subject: &str| subject.starts_with("session ") || subject == "connections";
    findings.retain(|finding| !shared(&finding.subject));
    findings
}

fn about<'a>(findings: &'a [Finding], subject: &str) -> Option<&'a Finding> {
    findings
        .iter()
        .find(|finding| finding.subject.contains(subject))
}

#[tokio::test]
async fn an_outbox_in_good_order_has_no_findings() {
    for preset in PRESETS {
        let world = world(preset, "").await;
        world.emit(world.event(Some("a"), 1)).await;
        // Not the impatient one: other tests' transactions are in this database too.
        let limits = Limits {
            payload_bytes_max: Some(1_000_000),
            ..RELAY_RUNS
        };
        assert_eq!(
            own(world.store().diagnose(&limits).await.unwrap()),
            [],
            "{preset}"
        );
    }
}

#[tokio::test]
async fn a_missing_relay_is_named_until_it_is_connected() {
    let world = world("polyshop", "").await;
    let name = world.database.schema.clone();
    let options = Options {
        name: name.clone(),
        ..Options::new(world.layout.clone())
    };
    let store = PostgresStore::new(connect(&world.database.url, 2).unwrap(), options);
    let level = async || {
        let findings = store.diagnose(&Limits::default()).await.unwrap();
        about(&findings, "relay").map(|finding| finding.level)
    };
    assert_eq!(level().await, Some(Level::Note), "nothing waits for it");
    let id = world.emit(world.event(Some("a"), 1)).await;
    assert_eq!(level().await, Some(Level::Warning));
    let age =
        format!("UPDATE outbox_events SET created_at = now() - interval '2 min' WHERE id = '{id}'");
    world.database.execute(&age).await;
    assert_eq!(level().await, Some(Level::Error));
    let relay = connect_relay(&world.database.url, 1, &name).unwrap();
    let session = relay.acquire().await.unwrap();
    assert_eq!(level().await, None);
    drop(session);
    relay.close().await;
    assert_eq!(own(store.diagnose(&RELAY_RUNS).await.unwrap()), []);
}

#[tokio::test]
async fn a_parked_key_is_named_with_its_first_error_and_what_waits() {
    let world = world("polyshop", "").await;
    let store = world.store();
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(world.emit(world.event(Some("a"), n)).await);
    }
    let want = Want {
        limit: 1,
        bytes: usize::MAX,
        share: Share::ALL,
    };
    let claim = store.claim(want).await.unwrap().unwrap();
    let dead = Fate::Dead {
        attempts: 1,
        error: "too sour".into(),
    };
    claim.settle(&[dead]).await.unwrap();
    let findings = store.diagnose(&RELAY_RUNS).await.unwrap();
    let key = about(&findings, "key a").unwrap();
    assert_eq!(key.level, Level::Error);
    for part in ["records behind it: 2", &ids[0].to_string(), "too sour"] {
        assert!(key.message.contains(part), "{}", key.message);
    }
    let remedy = key.remedy.as_ref().unwrap();
    assert!(
        remedy.contains(&format!("dead resend --id {}", ids[0])),
        "{remedy}"
    );
}

#[tokio::test]
async fn a_long_transaction_is_named_by_what_it_holds_and_without_its_values() {
    let world = world("polyshop", "").await;
    let id = world.emit(world.event(Some("a"), 1)).await;
    let mut tx = world.database.pool.begin().await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    let touch =
        "UPDATE outbox_events SET error_message = 'a secret' WHERE error_message = 'a secret'";
    sqlx::query(touch).execute(&mut *tx).await.unwrap();
    let store = impatient(&world);
    let findings = store.diagnose(&RELAY_RUNS).await.unwrap();
    let session = about(&findings, &format!("session {pid}")).unwrap();
    assert_eq!(session.level, Level::Warning);
    for part in [
        "idle in transaction",
        "RowExclusiveLock",
        "error_message = ?",
    ] {
        assert!(session.message.contains(part), "{}", session.message);
    }
    assert!(!session.message.contains("secret"), "{}", session.message);
    let remedy = session.remedy.as_ref().unwrap();
    assert!(
        remedy.contains(&format!("pg_terminate_backend({pid})")),
        "{remedy}"
    );

    // It locks a record that a claim waits for.
    let lock = format!("SELECT FROM outbox_events WHERE id = '{id}' FOR UPDATE");
    sqlx::query(sqlx::AssertSqlSafe(lock))
        .execute(&mut *tx)
        .await
        .unwrap();
    let relay = world.store();
    let want = Want {
        limit: 1,
        bytes: usize::MAX,
        share: Share::ALL,
    };
    let waiting = tokio::spawn(async move { relay.claim(want).await.map(drop) });
    postrider_testkit::eventually("the claim waits", async || {
        let findings = store.diagnose(&RELAY_RUNS).await.unwrap();
        let session = about(&findings, &format!("session {pid}")).cloned();
        session
            .filter(|session| {
                session.level == Level::Error && session.message.contains("makes 1 sessions wait")
            })
            .ok_or(findings)
    })
    .await;
    tx.rollback().await.unwrap();
    waiting.await.unwrap().unwrap();
    let findings = store.diagnose(&RELAY_RUNS).await.unwrap();
    assert_eq!(about(&findings, &format!("session {pid}")), None);
}

#[tokio::test]
async fn a_locked_table_is_named_and_not_waited_for() {
    let world = world("polyshop", "").await;
    let mut tx = world.database.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE outbox_events")
        .execute(&mut *tx)
        .await
        .unwrap();
    let findings = impatient(&world)
        .diagnose(&Limits::default())
        .await
        .unwrap();
    assert!(
        about(&findings, "outbox_events")
            .unwrap()
            .message
            .contains("locked the table")
    );
    let holder = findings
        .iter()
        .find(|finding| finding.message.contains("AccessExclusiveLock"));
    assert_eq!(holder.unwrap().level, Level::Error, "{findings:#?}");
}

#[tokio::test]
async fn a_table_that_is_not_cleaned_up_is_named() {
    let world = world("polyshop", "").await;
    let off = "ALTER TABLE outbox_events SET (autovacuum_enabled = off)";
    world.database.execute(off).await;
    let insert = "INSERT INTO outbox_events (id, event_type, aggregate_id, payload) \
                  SELECT gen_random_uuid(), 't', 'k', '{}' FROM generate_series(1, 12000)";
    world.database.execute(insert).await;
    // Whoever reads a page tidies it up, unless somebody may still want to see what was there.
    let mut reader = world.database.pool.begin().await.unwrap();
    for look in [
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SELECT count(*) FROM outbox_events",
    ] {
        sqlx::query(look).execute(&mut *reader).await.unwrap();
    }
    world.database.execute("DELETE FROM outbox_events").await;
    // The server counts them a little later.
    let findings = postrider_testkit::eventually("dead rows are counted", async || {
        let findings = world.store().diagnose(&RELAY_RUNS).await.unwrap();
        match about(&findings, "outbox_events") {
            Some(_) => Ok(findings),
            None => Err(findings),
        }
    })
    .await;
    let bloat = about(&findings, "outbox_events").unwrap();
    assert!(
        bloat.message.contains("12000 dead rows"),
        "{}",
        bloat.message
    );
    assert!(
        bloat.message.contains("last autovacuum never"),
        "{}",
        bloat.message
    );
    reader.rollback().await.unwrap();
    let autovacuum = about(&findings, "autovacuum").unwrap();
    let remedies = [&autovacuum.remedy, &Some("VACUUM outbox_events".into())]
        .map(|remedy| remedy.clone().unwrap());
    for remedy in remedies {
        world.database.execute(&remedy).await;
    }
    postrider_testkit::eventually("it is cleaned up", async || {
        let findings = own(world.store().diagnose(&RELAY_RUNS).await.unwrap());
        if findings.is_empty() {
            Ok(())
        } else {
            Err(findings)
        }
    })
    .await;
}

#[tokio::test]
async fn indexes_that_are_missing_or_invalid_are_named() {
    let world = world("polyshop", "").await;
    let invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = \
                   (SELECT indexrelid FROM pg_index WHERE indrelid = 'outbox_events'::regclass AND indpred IS NOT NULL LIMIT 1)";
    world.database.execute(invalid).await;
    let findings = world.store().diagnose(&RELAY_RUNS).await.unwrap();
    let index = about(&findings, "index ").unwrap();
    let remedy = index.remedy.as_ref().unwrap().clone();
    assert!(remedy.contains("REINDEX INDEX CONCURRENTLY"), "{remedy}");
    let missing = findings.iter().find(|finding| {
        let remedy = finding.remedy.as_deref().unwrap_or_default();
        remedy.starts_with("CREATE INDEX CONCURRENTLY")
    });
    assert!(missing.is_some(), "{findings:#?}");
    let reindex = remedy.split(": ").nth(1).unwrap();
    world.database.execute(reindex).await;
    assert_eq!(own(world.store().diagnose(&RELAY_RUNS).await.unwrap()), []);
}

#[tokio::test]
async fn records_over_the_brokers_limit_are_counted_and_the_first_is_named() {
    for preset in PRESETS {
        let world = world(preset, "").await;
        world.emit(world.event(Some("a"), 1)).await;
        let first = world.emit(world.event(Some("b"), 1_000_000_000)).await;
        world.emit(world.event(Some("c"), 1_000_000_001)).await;
        let size = world.store();
        let limits = Limits {
            // More than the first has, less than the others have, in any envelope.
            payload_bytes_max: Some(payload_bytes(&size).await + 3),
            relay_runs: true,
        };
        let findings = world.store().diagnose(&limits).await.unwrap();
        let payloads = about(&findings, "payloads").unwrap();
        let message = &payloads.message;
        assert!(message.starts_with("2 records"), "{preset}: {message}");
        assert!(message.ends_with(&first.to_string()), "{preset}: {message}");
    }
}

/// Of the oldest record.
async fn payload_bytes(store: &PostgresStore) -> u64 {
    use postrider_core::{RecordFilter, Records as _};
    let page = store.find(&RecordFilter::default(), None, 1).await.unwrap();
    page.items[0].payload_bytes.unwrap()
}

/// Somebody's row lock holds claims up, or makes them pass the record over: neither shows in the log of the server.
#[tokio::test]
async fn whoever_holds_a_record_that_claims_want_is_named_with_it() {
    for (preset, ordering, lock) in [
        ("polyshop", "key", "FOR UPDATE"),
        ("polyshop", "none", "FOR UPDATE"),
        ("polyshop", "key", "FOR KEY SHARE"),
        ("talkie", "key", "FOR UPDATE"),
        ("talkie", "none", "FOR KEY SHARE"),
    ] {
        let world = world(preset, &format!("ordering = '{ordering}'")).await;
        let table = world.layout.table.quoted();
        world.emit(world.event(Some("a"), 1)).await;
        let id = world.emit(world.event(Some("b"), 2)).await;
        let mut holder = world.database.pool.begin().await.unwrap();
        // A savepoint has a number of its own, and locks by that.
        for sql in [
            "SET LOCAL application_name = 'a forgotten window'",
            "SAVEPOINT s",
            &format!("SELECT FROM {table} WHERE id = '{id}' AND 'a secret' <> '' {lock}"),
        ] {
            let query = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()));
            query.execute(&mut *holder).await.unwrap();
        }
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
            .fetch_one(&mut *holder)
            .await
            .unwrap();
        let findings = impatient(&world).diagnose(&RELAY_RUNS).await.unwrap();
        let session = about(&findings, &format!("session {pid}"))
            .unwrap_or_else(|| panic!("{preset} {ordering} {lock}: {findings:#?}"));
        assert_eq!(session.level, Level::Error, "{session:?}");
        for part in [
            "a forgotten window",
            "idle in transaction",
            &format!("record {id}"),
        ] {
            assert!(session.message.contains(part), "{}", session.message);
        }
        assert!(!session.message.contains("secret"), "{}", session.message);
        let remedy = session.remedy.as_ref().unwrap();
        assert!(
            remedy.contains(&format!("pg_terminate_backend({pid})")),
            "{remedy}"
        );
        holder.rollback().await.unwrap();
        let findings = impatient(&world).diagnose(&RELAY_RUNS).await.unwrap();
        assert_eq!(about(&findings, &format!("session {pid}")), None);
    }
}

/// A claim that a relay works on is no stall, whatever its sessions are called.
#[tokio::test]
async fn a_relay_that_holds_its_records_is_not_named_for_it() {
    for ordering in ["key", "none"] {
        let world = world("polyshop", &format!("ordering = '{ordering}'")).await;
        world.emit(world.event(Some("a"), 1)).await;
        let relay = connect_relay(&world.database.url, 1, "orders").unwrap();
        let options = Options::new(world.layout.clone());
        let claim = PostgresStore::new(relay.clone(), options)
            .claim(ALL)
            .await
            .unwrap()
            .unwrap();
        let findings = impatient(&world).diagnose(&RELAY_RUNS).await.unwrap();
        let held = |finding: &&Finding| finding.message.contains("holds record");
        assert_eq!(findings.iter().find(held), None, "{ordering}");
        claim.settle(&[Fate::Published]).await.unwrap();
        relay.close().await;
    }
}

/// Two that share a row leave no number there that tells who they are; whoever waits for them does.
#[tokio::test]
async fn whoever_a_claim_waits_for_is_named_after_seconds_not_minutes() {
    let world = world("polyshop", "").await;
    let id = world.emit(world.event(Some("a"), 1)).await;
    let mut holders = Vec::new();
    for _ in 0..2 {
        let mut holder = world.database.pool.begin().await.unwrap();
        let lock = format!("SELECT FROM outbox_events WHERE id = '{id}' FOR SHARE");
        let lock = sqlx::query(sqlx::AssertSqlSafe(lock));
        lock.execute(&mut *holder).await.unwrap();
        holders.push(holder);
    }
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut *holders[0])
        .await
        .unwrap();
    let relay = world.store();
    let claiming = tokio::spawn(async move {
        loop {
            // The lanes of a claim that gave up are free a moment later; until then there is nothing to claim.
            let claimed = relay.claim(ALL).await;
            assert!(!matches!(claimed, Ok(Some(_))), "claimed");
        }
    });
    let found = postrider_testkit::eventually("who is waited for is named", async || {
        let findings = world.store().diagnose(&RELAY_RUNS).await.unwrap();
        let session = about(&findings, &format!("session {pid}")).cloned();
        session.ok_or(findings)
    })
    .await;
    claiming.abort();
    assert_eq!(found.level, Level::Error);
    assert!(found.message.contains("makes 1 sessions wait"), "{found:?}");
}

/// The relay's role is often another than the service's, and may not see what that does.
#[tokio::test]
async fn who_holds_a_record_is_named_by_a_role_that_may_see_little() {
    let world = world("polyshop", "").await;
    let id = world.emit(world.event(Some("a"), 1)).await;
    let grants = "GRANT SELECT, UPDATE ON outbox_events TO ROLE; \
                  GRANT SELECT, INSERT, UPDATE, DELETE ON postrider_troubles TO ROLE";
    let role = role(&world.database, grants).await;
    let mut holder = world.database.pool.begin().await.unwrap();
    let lock = format!("SELECT FROM outbox_events WHERE id = '{id}' FOR UPDATE");
    let lock = sqlx::query(sqlx::AssertSqlSafe(lock));
    lock.execute(&mut *holder).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut *holder)
        .await
        .unwrap();
    let store = PostgresStore::new(role.pool.clone(), Options::new(world.layout.clone()));
    let findings = store.diagnose(&RELAY_RUNS).await.unwrap();
    let session = about(&findings, &format!("session {pid}")).expect("is named");
    assert!(
        session.message.contains(&format!("record {id}")),
        "{session:?}"
    );
    holder.rollback().await.unwrap();
    role.end().await;
}
