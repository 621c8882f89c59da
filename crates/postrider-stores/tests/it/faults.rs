//! What happens to claims when the database or the table does not play along.

use std::time::{Duration, Instant};

use postrider_core::{
    Actor, Claim, DeadLetters as _, Event, Fate, OutboxStore, RecordFilter, Records as _, Share,
    StoreError, Want,
};
use postrider_stores::postgres::{InitOptions, Options, Outbox, PostgresStore, connect, init};
use postrider_testkit::eventually;
use sqlx::postgres::PgPoolOptions;

use crate::world::{World, layout, world, world_with};

const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

async fn claim_soon(store: &PostgresStore) -> Box<dyn Claim> {
    eventually("records can be claimed", async || {
        match store.claim(ALL).await {
            Ok(Some(claim)) => Ok(claim),
            other => Err(format!("{:?}", other.map(|_| "nothing"))),
        }
    })
    .await
}

fn is_unavailable<T>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unavailable { reason, .. }) => reason,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("succeeded"),
    }
}

#[tokio::test]
async fn a_database_that_is_down_is_unavailable_and_a_bad_url_is_not_shown() {
    let pool = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(200))
        .connect_lazy("postgres://postgres:secret@127.0.0.1:1/x")
        .unwrap();
    let store = PostgresStore::new(pool, Options::new(layout("gopipe", "")));
    is_unavailable(store.claim(ALL).await);
    is_unavailable(store.ping().await);
    for url in [
        "postgres://postgres:secret@localhost:port/x",
        "secret",
        "postgres://u:secret@h/x?sslmode=bogus",
    ] {
        if let Err(error) = connect(url, 1) {
            let text = format!("{error} {error:?}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_frees_its_claim_and_the_store_goes_on() {
    let world = world("polyshop", "")
        .await
        .with_session(&[("application_name", "cut_me")]);
    world.emit(world.event(Some("k"), 1)).await;
    let store = world.store();
    let claim = claim_soon(&store).await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction' \
                AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'outbox_events'::regclass)";
    assert_eq!(world.database.texts(kill).await.len(), 1);
    is_unavailable(claim.settle(&[Fate::Published]).await);
    let again = claim_soon(&store).await;
    assert_eq!(again.records()[0].attempts, 0);
    again.settle(&[Fate::Published]).await.unwrap();
}

#[tokio::test]
async fn a_read_only_database_is_unavailable() {
    for preset in ["gopipe", "native"] {
        let world = world(preset, "")
            .await
            .with_session(&[("default_transaction_read_only", "on")]);
        world.emit(world.event(Some("k"), 1)).await;
        is_unavailable(world.store().claim(ALL).await);
    }
}

#[tokio::test]
async fn a_lock_that_settling_would_meet_is_met_before_anything_is_published() {
    for (preset, table) in [
        ("packfinderz", "outbox_events"),
        ("polyshop", "outbox_events"),
        ("gopipe", "outbox"),
        ("debezium", "outbox"),
        ("native", "postrider_outbox_stream"),
        ("native", "postrider_outbox_troubles"),
    ] {
        let world = world(preset, "").await;
        world.emit(world.event(Some("k"), 1)).await;
        let store = world.store();
        store.backlog().await.unwrap();
        // What CREATE INDEX takes: it lets rows be locked, and keeps them from being changed.
        let mut other = world.database.pool.begin().await.unwrap();
        let lock = format!("LOCK TABLE {table} IN SHARE MODE");
        sqlx::query(sqlx::AssertSqlSafe(lock))
            .execute(&mut *other)
            .await
            .unwrap();
        let reason = is_unavailable(store.claim(ALL).await);
        assert!(reason.contains("lock"), "{reason}");
        other.rollback().await.unwrap();
        claim_soon(&store)
            .await
            .settle(&[Fate::Published])
            .await
            .unwrap();
    }
}

/// A role that may read and not write publishes nothing: it could not settle it.
#[tokio::test]
async fn a_right_that_settling_needs_is_missed_before_anything_is_published() {
    let world = world("native", "").await;
    world.emit(world.event(Some("k"), 1)).await;
    let role = format!("reader_{}", world.database.schema);
    let schema = &world.database.schema;
    world
        .database
        .execute(&format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; \
             GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}; \
             GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
        ))
        .await;
    let reader = world.with_session(&[("role", &role)]);
    let refused = reader.store().claim(ALL).await.map(drop).unwrap_err();
    assert!(
        refused.to_string().contains("permission denied"),
        "{refused}"
    );
    let rights = "DROP OWNED BY {role}; DROP ROLE {role}";
    reader
        .database
        .execute(&rights.replace("{role}", &role))
        .await;
}

#[tokio::test]
async fn a_claim_fires_no_trigger_of_the_teams() {
    let world = world("polyshop", "").await;
    world.database.execute(
        "CREATE TABLE fired (n int); CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO fired VALUES (1); RETURN NULL; END'; \
         CREATE TRIGGER fire AFTER UPDATE ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION fire()",
    ).await;
    let store = world.store();
    assert!(store.claim(ALL).await.unwrap().is_none());
    assert_eq!(world.database.count("fired").await, 0);
}

#[tokio::test]
async fn a_migration_under_a_running_relay_is_noticed_both_ways() {
    let world = world("polyshop", "").await;
    world.emit(world.event(Some("k"), 1)).await;
    let store = world.store();
    drop(claim_soon(&store).await);
    let rename =
        |from: &str, to: &str| format!("ALTER TABLE outbox_events RENAME COLUMN {from} TO {to}");
    world.database.execute(&rename("payload", "body")).await;
    assert!(matches!(
        store.claim(ALL).await,
        Err(StoreError::Mismatch(_))
    ));
    match store.claim(ALL).await {
        Err(StoreError::Mismatch(text)) => {
            assert!(text.contains("column payload (as payload)"), "{text}")
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    world.database.execute(&rename("body", "payload")).await;
    drop(claim_soon(&store).await);
    world
        .database
        .execute("ALTER TABLE outbox_events ALTER payload TYPE jsonb")
        .await;
    let claim = claim_soon(&store).await;
    assert_eq!(
        claim.records()[0].payload.as_deref(),
        Some(&b"{\"n\": 1}"[..])
    );
    claim.settle(&[Fate::Published]).await.unwrap();
}

/// A column is gone that only settling names: the claim after it looks at the table anew, and refuses before anything is published
/// once more.
#[tokio::test]
async fn a_migration_that_settling_meets_is_noticed_by_the_next_claim() {
    let retry = Fate::Retry {
        attempts: 1,
        after: Duration::ZERO,
        error: "no".into(),
    };
    for (preset, table, column, fate) in [
        ("polyshop", "outbox_events", "processed_at", Fate::Published),
        ("packfinderz", "outbox_events", "last_error", retry.clone()),
        ("talkie", "outbox", "last_error", retry),
    ] {
        let world = world(preset, "").await;
        world.emit(world.event(Some("k"), 1)).await;
        let store = world.store();
        let known = claim_soon(&store).await;
        known.settle(&[Fate::Released]).await.unwrap();
        let rename = format!("ALTER TABLE {table} RENAME COLUMN {column} TO renamed");
        world.database.execute(&rename).await;
        let claim = claim_soon(&store).await;
        let settled = claim.settle(std::slice::from_ref(&fate)).await;
        assert!(
            matches!(settled, Err(StoreError::Mismatch(_))),
            "{preset}: {settled:?}"
        );
        let Err(StoreError::Mismatch(text)) = store.claim(ALL).await.map(drop) else {
            panic!("{preset}: claimed again")
        };
        assert!(text.contains(&format!("column {column}")), "{text}");
    }
}

/// Values of `char(n)` have blanks at their end, or none, by how they are read.
#[tokio::test]
async fn ids_of_a_fixed_width_find_their_records() {
    const TABLE: &str = "CREATE TABLE own (id char(40) PRIMARY KEY DEFAULT gen_random_uuid()::text, k char(9), p json, \
                         at timestamptz NOT NULL DEFAULT clock_timestamp(), done boolean NOT NULL DEFAULT false)";
    const LAYOUT: &str = "table = 'own'\nclaim = 'hold'\norder = ['at', 'id']\nordering = 'key'\ntopic = 't'\n\
                          [columns]\nid = 'id'\nkey = 'k'\npayload = 'p'\ncreated_at = 'at'\n\
                          [state]\nkind = 'flag'\npublished = 'done'";
    let world = world_with("custom", LAYOUT, TABLE).await;
    world
        .database
        .execute("INSERT INTO own (k, p) VALUES ('a', '{}'), ('b', '{}')")
        .await;
    let store = world.store();
    let retry = |attempts| Fate::Retry {
        attempts,
        after: Duration::ZERO,
        error: "no".into(),
    };
    for (attempts, fates) in [
        (0, vec![Fate::Published, retry(1)]),
        (1, vec![Fate::Published]),
    ] {
        let claim = claim_soon(&store).await;
        let found: Vec<u32> = claim
            .records()
            .iter()
            .map(|record| record.attempts)
            .collect();
        assert_eq!(found, vec![attempts; fates.len()]);
        assert_eq!(claim.settle(&fates).await.unwrap().lapsed, 0);
    }
    assert!(store.claim(ALL).await.unwrap().is_none());
}

#[tokio::test]
async fn a_row_that_makes_no_sense_is_a_defect_of_its_own() {
    let world = world("gopipe", "").await;
    world.emit(world.event(None, 1)).await;
    let insert =
        "INSERT INTO outbox (topic, event_type, data, attributes) VALUES ('t', 'e', '{}', '[1]')";
    world.database.execute(insert).await;
    world.emit(world.event(None, 2)).await;
    let claim = claim_soon(&world.store()).await;
    let defects: Vec<bool> = claim
        .records()
        .iter()
        .map(|record| record.defect.is_some())
        .collect();
    assert_eq!(defects, [false, true, false]);
    assert_eq!(
        claim.records()[1].event_id.as_str(),
        "2",
        "the record's id where there is no other"
    );
}

#[tokio::test]
async fn a_record_that_was_set_back_or_deleted_by_hand_blocks_nothing() {
    let polyshop = world("polyshop", "").await;
    let first = polyshop.emit(polyshop.event(Some("k"), 1)).await;
    polyshop.emit(polyshop.event(Some("k"), 2)).await;
    let store = polyshop.store();
    kill_first(&store).await;
    assert!(store.claim(ALL).await.unwrap().is_none(), "parked");
    let reset = format!(
        "UPDATE outbox_events SET processed = false, error_message = NULL WHERE id = '{first}'"
    );
    polyshop.database.execute(&reset).await;
    assert_eq!(claim_soon(&store).await.records().len(), 2);
    let debezium = world("debezium", "").await;
    let first = debezium.emit(debezium.event(Some("k"), 1)).await;
    debezium.emit(debezium.event(Some("k"), 2)).await;
    let store = debezium.store();
    kill_first(&store).await;
    debezium
        .database
        .execute(&format!("DELETE FROM outbox WHERE id = '{first}'"))
        .await;
    assert_eq!(store.backlog().await.unwrap().dead, 0);
    assert_eq!(claim_soon(&store).await.records().len(), 1);
}

async fn kill_first(store: &PostgresStore) {
    let claim = claim_soon(store).await;
    claim
        .settle(&[
            Fate::Dead {
                attempts: 1,
                error: "no".into(),
            },
            Fate::Released,
        ])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_held_claim_says_when_it_lapses() {
    let world: World = world("gopipe", "").await;
    world.emit(world.event(None, 1)).await;
    let options = Options {
        hold_max: Duration::from_secs(30),
        ..Options::new(world.layout.clone())
    };
    let before = Instant::now();
    let store = PostgresStore::new(world.database.pool.clone(), options);
    let claim = store.claim(ALL).await.unwrap().unwrap();
    let lapses_at = claim.lapses_at().unwrap();
    assert!(
        lapses_at >= before + Duration::from_secs(30)
            && lapses_at <= Instant::now() + Duration::from_secs(30)
    );
    let timeout = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%outbox%'";
    assert!(world.database.number(timeout).await >= 1);
}

/// S2: a read that takes longer than a claim may be held must not leave a claim that has lapsed, again and again.
#[tokio::test]
async fn a_claim_has_its_time_from_when_its_records_are_in_hand() {
    for (preset, table) in [("gopipe", "outbox"), ("native", "postrider_outbox_0")] {
        let world = world(preset, "").await;
        let store = world.store();
        // What a first claim does beside claiming is done by then.
        assert!(store.claim(ALL).await.unwrap().is_none());
        world.emit(world.event(None, 1)).await;
        let mut elsewhere = world.database.pool.begin().await.unwrap();
        let lock = format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock))
            .execute(&mut *elsewhere)
            .await
            .unwrap();
        let lets_go = async {
            let waiting = format!(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass"
            );
            eventually("the claim waits", async || {
                match world.database.number(&waiting).await {
                    0 => Err(()),
                    _ => Ok(()),
                }
            })
            .await;
            let now = Instant::now();
            elsewhere.rollback().await.unwrap();
            now
        };
        let (claim, read_at) = tokio::join!(store.claim(ALL), lets_go);
        let lapses_at = claim.unwrap().unwrap().lapses_at().unwrap();
        let hold_max = Options::new(world.layout.clone()).hold_max;
        assert!(lapses_at >= read_at + hold_max, "{preset}");
    }
}

#[tokio::test]
async fn two_outboxes_share_the_side_table_and_nothing_else() {
    let uuids = world("polyshop", "").await;
    let numbers = layout("gopipe", "");
    init(&uuids.database.pool, &numbers, &InitOptions::default())
        .await
        .unwrap();
    let outbox = Outbox::new(numbers.clone());
    let mut tx = uuids.database.pool.begin().await.unwrap();
    for n in 0..2 {
        let event = Event::raw("t", format!("{n}")).topic("t");
        outbox.emit(&mut tx, event).await.unwrap();
        uuids
            .outbox
            .emit(&mut tx, uuids.event(Some("k"), n))
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    let numbers = PostgresStore::new(uuids.database.pool.clone(), Options::new(numbers));
    for store in [&numbers, &uuids.store()] {
        kill_first(store).await;
        assert_eq!(store.backlog().await.unwrap().dead, 1);
        let dead = store
            .find(&RecordFilter::dead(), None, 10)
            .await
            .unwrap()
            .items;
        assert_eq!(dead.len(), 1);
        assert_eq!(
            store
                .resend(&[dead[0].id.clone()], &Actor("me".into()))
                .await
                .unwrap(),
            1
        );
        kill_first(store).await;
        assert_eq!(
            store
                .discard(&[dead[0].id.clone()], &Actor("me".into()))
                .await
                .unwrap(),
            1
        );
        assert_eq!(store.backlog().await.unwrap().pending, 1);
    }
    assert_eq!(uuids.database.count("postrider_troubles").await, 0);
}
