//! Where claims begin: they wade through nothing that is settled, and pass over nothing that is
//! not.

use std::time::Duration;

use postrider_core::{Actor, DeadLetters as _, Fate, OnDead, OutboxStore, Share, Want};
use postrider_stores::postgres::{Options, PostgresStore};
use postrider_testkit::eventually;
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;

use crate::world::{World, world};

pub(crate) const ALL: Want = Want {
    limit: 1000,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// Layouts that have a floor, and how a record is inserted with a key and a number.
const LAYOUTS: [(&str, &str, &str); 5] = [
    (
        "polyshop",
        "",
        "INSERT INTO outbox_events (aggregate_id, event_type, payload) SELECT {key}, 't', json_build_object('n', n)",
    ),
    (
        "talkie",
        "ordering = 'key'",
        "INSERT INTO outbox (topic, key, payload_json) SELECT 't', {key}, json_build_object('n', n)",
    ),
    (
        "talkie",
        "ordering = 'none'",
        "INSERT INTO outbox (topic, key, payload_json) SELECT 't', {key}, json_build_object('n', n)",
    ),
    (
        "gopipe",
        "",
        "INSERT INTO outbox (topic, event_type, data, attributes) SELECT 't', 't', json_build_object('n', n), '{}'",
    ),
    (
        "debezium",
        "",
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) \
                      SELECT gen_random_uuid(), 'a', {key}, 't', json_build_object('n', n)",
    ),
];

/// A store whose owner says that the database draws the order.
pub(crate) fn drawn(world: &World) -> PostgresStore {
    let options = Options {
        order_is_drawn: true,
        ..Options::new(world.layout.clone())
    };
    PostgresStore::new(world.database.pool.clone(), options)
}

fn insert(how: &str, key: &str, records: u32) -> String {
    format!(
        "{} FROM generate_series(1, {records}) AS n",
        how.replace("{key}", key)
    )
}

async fn run(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(connection)
        .await
        .unwrap();
}

async fn publish_all(store: &PostgresStore) -> usize {
    let mut published = 0;
    while let Some(claim) = store.claim(ALL).await.unwrap() {
        let fates = vec![Fate::Published; claim.records().len()];
        published += fates.len();
        claim.settle(&fates).await.unwrap();
        store.tend().await.unwrap();
    }
    published
}

/// Entries of the claims' index that one more claim of one record reads.
async fn entries_of_a_claim(world: &World, store: &PostgresStore, how: &str) -> i64 {
    let read = "SELECT coalesce(sum(idx_tup_read), 0)::int8 FROM pg_stat_user_indexes WHERE indexrelname LIKE '%postrider_claim' AND schemaname = current_schema()";
    let counted = async || {
        world
            .database
            .execute("SELECT pg_stat_clear_snapshot()")
            .await;
        world.database.number(read).await
    };
    world.database.execute(&insert(how, "'last'", 1)).await;
    let before = counted().await;
    let claim = store.claim(ALL).await.unwrap().unwrap();
    assert_eq!(claim.records().len(), 1);
    claim.settle(&[Fate::Published]).await.unwrap();
    let figures = eventually("the server has counted", async || match counted().await {
        now if now > before => Ok(now),
        now => Err(now),
    });
    figures.await - before
}

#[tokio::test]
async fn a_transaction_held_elsewhere_makes_no_claim_wade_through_what_is_settled() {
    for (preset, overrides, how) in LAYOUTS {
        let world = world(preset, overrides).await;
        let store = drawn(&world);
        let mut held = world.database.pool.begin().await.unwrap();
        run(
            &mut held,
            "CREATE TEMP TABLE elsewhere (n int); SELECT txid_current()",
        )
        .await;
        world.database.execute(&insert(how, "n::text", 3000)).await;
        assert_eq!(publish_all(&store).await, 3000, "{preset}");
        // The floor is raised beside the claims, some time after what they have seen.
        eventually("claims begin behind what is settled", async || {
            world.database.execute(&insert(how, "'more'", 1)).await;
            publish_all(&store).await;
            store.tend().await.unwrap();
            match entries_of_a_claim(&world, &store, how).await {
                few if few < 1000 => Ok(()),
                many => Err(format!("{preset} {overrides}: {many} entries")),
            }
        })
        .await;
        held.rollback().await.unwrap();
    }
}

/// A writer that inserted before others and commits after them: plain, in a savepoint, and
/// prepared.
#[tokio::test]
async fn a_record_that_is_committed_late_is_claimed() {
    for (preset, overrides, how) in LAYOUTS {
        let world = world(preset, overrides).await;
        let store = drawn(&world);
        let name = format!(
            "late_{}",
            world
                .database
                .text("SELECT current_schema()")
                .await
                .unwrap()
        );
        let mut plain = world.database.pool.acquire().await.unwrap();
        run(&mut plain, &format!("BEGIN; {}", insert(how, "'plain'", 1))).await;
        let mut saved = world.database.pool.acquire().await.unwrap();
        let inner = insert(how, "'saved'", 1);
        run(
            &mut saved,
            &format!("BEGIN; SAVEPOINT s; {inner}; RELEASE s"),
        )
        .await;
        let mut prepared = world.database.pool.acquire().await.unwrap();
        let inner = insert(how, "'prepared'", 1);
        run(&mut prepared, &format!("BEGIN; {inner}")).await;
        churn(&world, &store, how, 5).await;
        // Its name in the table of locks changes after the others were first waited for.
        run(&mut prepared, &format!("PREPARE TRANSACTION '{name}'")).await;
        churn(&world, &store, how, 30).await;
        for (connection, end) in [
            (&mut plain, "COMMIT".to_owned()),
            (&mut saved, "COMMIT".to_owned()),
            (&mut prepared, format!("COMMIT PREPARED '{name}'")),
        ] {
            run(connection, &end).await;
            let claim = store.claim(ALL).await.unwrap();
            let claim = claim.unwrap_or_else(|| panic!("{preset} {overrides}: {end} is not seen"));
            assert_eq!(claim.records().len(), 1, "{preset} {overrides}");
            claim.settle(&[Fate::Published]).await.unwrap();
            churn(&world, &store, how, 5).await;
        }
    }
}

/// Records come and are published for so many tenths of a second, and the floor is raised where it
/// can be.
async fn churn(world: &World, store: &PostgresStore, how: &str, tenths: u32) {
    let until = std::time::Instant::now() + Duration::from_millis(100) * tenths;
    while std::time::Instant::now() < until {
        world.database.execute(&insert(how, "'churn'", 10)).await;
        publish_all(store).await;
        store.tend().await.unwrap();
    }
}

#[tokio::test]
async fn a_record_that_is_set_back_by_hand_is_found() {
    let (preset, overrides, how) = LAYOUTS[0];
    let world = world(preset, overrides).await;
    let store = drawn(&world);
    world.database.execute(&insert(how, "'first'", 1)).await;
    publish_all(&store).await;
    churn(&world, &store, how, 35).await;
    let back = "UPDATE outbox_events SET processed = false WHERE aggregate_id = 'first'";
    world.database.execute(back).await;
    eventually("it is claimed", async || {
        store.tend().await.unwrap();
        match store.claim(ALL).await.unwrap() {
            Some(claim) if claim.records().len() == 1 => Ok(()),
            _ => Err("nothing is claimed"),
        }
    })
    .await;
}

/// The keys of what can be claimed now, in order. Nothing is settled.
async fn claimable(store: &PostgresStore) -> Vec<String> {
    let Some(claim) = store.claim(ALL).await.unwrap() else {
        return Vec::new();
    };
    let texts = claim
        .records()
        .iter()
        .map(|record| String::from_utf8(record.payload.as_ref().unwrap().to_vec()).unwrap());
    texts.collect()
}

/// The floor is raised while one record is dead and another of its key waits behind it.
#[tokio::test]
async fn a_record_that_is_resent_is_not_overtaken_by_what_waited_behind_it() {
    for (preset, overrides, how) in ORDERED {
        let world = world(preset, overrides).await;
        draw_at_insert(&world).await;
        let store = drawn(&world);
        world.database.execute(&insert(how, "'k'", 2)).await;
        let claim = store.claim(ALL).await.unwrap().unwrap();
        let ids: Vec<_> = claim
            .records()
            .iter()
            .map(|record| record.id.clone())
            .collect();
        claim.settle(&[dead(), Fate::Released]).await.unwrap();
        churn(&world, &store, how, 35).await;
        assert_eq!(claimable(&store).await.len(), 0, "{preset}");
        let resent = store.resend(&ids[..1], &Actor("me".into())).await.unwrap();
        assert_eq!(resent, 1, "{preset}");
        eventually("both are claimable", async || {
            let claimed = claimable(&store).await;
            match claimed.first() {
                None => {
                    store.tend().await.unwrap();
                    Err("nothing yet")
                }
                Some(first) => {
                    let is_first = first.replace(' ', "").contains("\"n\":1");
                    assert!(is_first, "{preset}: {first} comes first");
                    Ok(())
                }
            }
        })
        .await;
    }
}

/// Nobody has said that the database draws the order, so a writer may bring a time of its own.
#[tokio::test]
async fn a_record_with_a_time_of_its_own_is_not_overtaken_unless_times_are_said_to_be_drawn() {
    let (preset, overrides, how) = LAYOUTS[0];
    let world = world(preset, overrides).await;
    let store = world.store();
    churn(&world, &store, how, 35).await;
    let own = "INSERT INTO outbox_events (aggregate_id, event_type, payload, created_at) \
               VALUES ('k', 't', '{\"n\":1}', clock_timestamp() - interval '3 seconds')";
    world.database.execute(own).await;
    let later = "INSERT INTO outbox_events (aggregate_id, event_type, payload) VALUES ('k', 't', '{\"n\":2}')";
    world.database.execute(later).await;
    assert_eq!(claimable(&store).await, ["{\"n\":1}", "{\"n\":2}"]);
}

/// Layouts with order per key and a floor, and how a record is inserted. Times of the second are
/// those of the begin of a transaction.
pub(crate) const ORDERED: [(&str, &str, &str); 4] = [
    LAYOUTS[0],
    (
        "packfinderz",
        "ordering = 'key'",
        "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
         SELECT gen_random_uuid(), 'ad_created', 'ad', md5({key})::uuid, json_build_object('n', n)::jsonb",
    ),
    LAYOUTS[4],
    LAYOUTS[1],
];

pub(crate) fn dead() -> Fate {
    Fate::Dead {
        attempts: 1,
        error: "never".into(),
    }
}

pub(crate) fn waits(after: Duration) -> Fate {
    Fate::Retry {
        attempts: 1,
        after,
        error: "not yet".into(),
    }
}

async fn fail_all(store: &PostgresStore, fate: impl Fn(usize) -> Fate) {
    while let Some(claim) = store.claim(ALL).await.unwrap() {
        let fates: Vec<Fate> = (0..claim.records().len()).map(&fate).collect();
        claim.settle(&fates).await.unwrap();
    }
}

/// Records that are inserted together share the time of the begin of their transaction, and a floor
/// of such times waits for all transactions that are open, those of other tests too.
async fn draw_at_insert(world: &World) {
    if world.layout.name == "packfinderz" {
        let alter =
            "ALTER TABLE outbox_events ALTER COLUMN created_at SET DEFAULT clock_timestamp()";
        world.database.execute(alter).await;
    }
}

/// Until the floor has passed over what is stuck, as one more claim shows.
async fn until_passed_over(world: &World, store: &PostgresStore, how: &str) {
    eventually("claims begin above what is stuck", async || {
        store.tend().await.unwrap();
        match entries_of_a_claim(world, store, how).await {
            few if few < 200 => Ok(()),
            many => Err(format!("{}: {many} entries", world.layout.name)),
        }
    })
    .await;
}

/// A third is dead, a third waits, and a third stands behind them.
#[tokio::test]
async fn what_is_stuck_costs_claims_nothing() {
    for (preset, overrides, how) in ORDERED {
        let world = world(preset, overrides).await;
        draw_at_insert(&world).await;
        let store = drawn(&world);
        world.database.execute(&insert(how, "n::text", 1000)).await;
        fail_all(&store, |n| match n % 2 {
            0 => dead(),
            _ => waits(Duration::from_secs(3600)),
        })
        .await;
        world.database.execute(&insert(how, "n::text", 500)).await;
        until_passed_over(&world, &store, how).await;
        // A relay that was started again claims nothing, and learns all the same. Where only memory
        // knows what waits, that is due at once then.
        if preset == "packfinderz" {
            continue;
        }
        let another = drawn(&world);
        until_passed_over(&world, &another, how).await;
    }
}

/// One waits, and one behind it; the floor passes over both. When its time has come, both come
/// before a newer one.
#[tokio::test]
async fn what_is_tried_again_below_the_floor_is_not_overtaken() {
    for (preset, overrides, how) in ORDERED {
        let world = world(preset, overrides).await;
        let store = drawn(&world);
        world.database.execute(&insert(how, "'k'", 1)).await;
        fail_all(&store, |_| waits(Duration::from_secs(5))).await;
        world
            .database
            .execute(&insert(how, "'k'", 2).replace("(1, 2)", "(2, 2)"))
            .await;
        churn(&world, &store, how, 10).await;
        world
            .database
            .execute(&insert(how, "'k'", 3).replace("(1, 3)", "(3, 3)"))
            .await;
        let mut sent = Vec::new();
        eventually("all three are published", async || {
            store.tend().await.unwrap();
            if let Some(claim) = store.claim(ALL).await.unwrap() {
                let texts = claim.records().iter().map(|record| {
                    let payload = record.payload.as_ref().unwrap().to_vec();
                    String::from_utf8(payload).unwrap().replace(' ', "")
                });
                sent.extend(texts);
                let fates = vec![Fate::Published; claim.records().len()];
                claim.settle(&fates).await.unwrap();
            }
            if sent.len() == 3 {
                Ok(())
            } else {
                Err(sent.clone())
            }
        })
        .await;
        assert_eq!(sent, ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"], "{preset}");
    }
}

/// However many are due below the floor, a claim has room for what is new.
#[tokio::test]
async fn what_is_due_below_the_floor_and_what_is_new_come_in_one_claim() {
    for (preset, overrides, how) in ORDERED {
        let world = world(preset, overrides).await;
        draw_at_insert(&world).await;
        let store = drawn(&world);
        world.database.execute(&insert(how, "'k'", 1)).await;
        fail_all(&store, |_| waits(Duration::from_secs(4))).await;
        churn(&world, &store, how, 30).await;
        eventually("one claim has both", async || {
            store.tend().await.unwrap();
            world.database.execute(&insert(how, "n::text", 1)).await;
            let Some(claim) = store.claim(ALL).await.unwrap() else {
                return Err("nothing is claimed");
            };
            let keys = claim.records().iter().map(|record| record.key.clone());
            let keys: std::collections::HashSet<_> = keys.collect();
            let fates = vec![Fate::Released; claim.records().len()];
            claim.settle(&fates).await.unwrap();
            match keys.len() {
                2 => Ok(()),
                _ => Err("only one of them"),
            }
        })
        .await;
    }
}

/// Where the dead do not park their key, one below the floor is in nobody's way.
#[tokio::test]
async fn a_dead_record_that_is_skipped_blocks_no_key_from_below_the_floor() {
    for (preset, overrides, how) in ORDERED {
        let world = world(preset, overrides).await;
        draw_at_insert(&world).await;
        let options = Options {
            order_is_drawn: true,
            on_dead: OnDead::Skip,
            ..Options::new(world.layout.clone())
        };
        let store = PostgresStore::new(world.database.pool.clone(), options);
        world.database.execute(&insert(how, "'last'", 300)).await;
        fail_all(&store, |_| dead()).await;
        // Each of its claims is of the key of those that are dead.
        until_passed_over(&world, &store, how).await;
    }
}

/// Nothing has come for a while, so claims only look whether anything has. What comes, what is due
/// and what is resent is claimed all the same.
#[tokio::test]
async fn what_comes_to_an_idle_outbox_is_claimed() {
    for (preset, overrides, how) in ORDERED {
        let world = world(preset, overrides).await;
        let store = drawn(&world);
        world.database.execute(&insert(how, "n::text", 2)).await;
        let claim = store.claim(ALL).await.unwrap().unwrap();
        let first = claim.records()[0].id.clone();
        let fates = [dead(), waits(Duration::from_secs(4))];
        claim.settle(&fates).await.unwrap();
        for come in ["due", "new", "resent"] {
            if come != "due" {
                let idle_until = std::time::Instant::now() + Duration::from_secs(2);
                while std::time::Instant::now() < idle_until {
                    store.tend().await.unwrap();
                    assert!(store.claim(ALL).await.unwrap().is_none(), "{preset}");
                }
            }
            match come {
                "new" => world.database.execute(&insert(how, "'new'", 1)).await,
                "resent" => {
                    let me = Actor("me".into());
                    let resent = store.resend(std::slice::from_ref(&first), &me).await;
                    assert_eq!(resent.unwrap(), 1, "{preset}");
                }
                _ => {}
            }
            eventually("it is claimed", async || {
                store.tend().await.unwrap();
                match store.claim(ALL).await.unwrap() {
                    Some(claim) => {
                        claim.settle(&[Fate::Published]).await.unwrap();
                        Ok(())
                    }
                    None => Err(format!("{preset}: nothing is claimed of what is {come}")),
                }
            })
            .await;
        }
    }
}
