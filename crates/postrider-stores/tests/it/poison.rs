//! Nothing that one record contains keeps the others of its claim from being settled.

use postrider_core::{Claim, Fate, OutboxStore, Record, Settled, Share, Want};
use postrider_testkit::eventually;
use std::time::Duration;

use crate::world::{Backend, World, world, world_with};

pub(crate) const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// A text that no compression makes shorter.
fn incompressible(chars: usize) -> String {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + u8::try_from(state % 90).unwrap())
    };
    (0..chars).map(|_| next()).filter(|c| *c != '\'').collect()
}

pub(crate) async fn claim(store: &impl OutboxStore) -> Box<dyn Claim> {
    eventually("records can be claimed", async || {
        match store.claim(ALL).await {
            Ok(Some(claim)) => Ok(claim),
            other => Err(format!("{:?}", other.map(|_| "nothing"))),
        }
    })
    .await
}

pub(crate) async fn settle(claim: Box<dyn Claim>, fate: impl Fn(&Record) -> Fate) -> Settled {
    let fates: Vec<Fate> = claim.records().iter().map(fate).collect();
    claim.settle(&fates).await.unwrap()
}

pub(crate) fn dead() -> Fate {
    Fate::Dead {
        attempts: 1,
        error: "it is poison".into(),
    }
}

fn retry() -> Fate {
    Fate::Retry {
        attempts: 1,
        after: Duration::from_secs(3600),
        error: "it is poison".into(),
    }
}

fn payload(record: &Record) -> &str {
    std::str::from_utf8(record.payload.as_ref().unwrap()).unwrap()
}

pub(crate) fn is(record: &Record, number: u32) -> bool {
    let n: serde_json::Value = serde_json::from_str(payload(record)).unwrap();
    n["n"] == number || n["data"]["n"] == number
}

pub(crate) async fn emit(world: &World<impl Backend>, numbers: std::ops::Range<u32>) {
    for n in numbers {
        world.emit(world.event(Some(&format!("k{n}")), n)).await;
    }
}

const LAYOUTS: [(&str, &str); 5] = [
    ("polyshop", ""),
    ("debezium", ""),
    ("talkie", "ordering = 'key'"),
    ("talkie", "ordering = 'none'"),
    ("gopipe", ""),
];

/// R1: a btree takes entries of up to 2,704 bytes.
#[tokio::test]
async fn a_key_that_fits_no_index_is_dead_alone() {
    for preset in ["polyshop", "talkie"] {
        for fate in [dead, retry] {
            let world = world(preset, "ordering = 'key'").await;
            let key = incompressible(3_900);
            emit(&world, 0..20).await;
            world.emit(world.event(Some(&key), 20)).await;
            world.emit(world.event(Some(&key), 21)).await;
            let store = world.store();
            let settled = settle(claim(&store).await, |record| match record.key.as_ref() {
                Some(k) if k.as_str() == Some(&key) && is(record, 20) => fate(),
                Some(k) if k.as_str() == Some(&key) => Fate::Released,
                _ => Fate::Published,
            })
            .await;
            assert_eq!((settled.lapsed, settled.refused), (0, vec![]), "{preset}");
            assert!(
                store.claim(ALL).await.unwrap().is_none(),
                "{preset}: the key waits"
            );
        }
    }
}

/// R2: what the error says is refused, and then left out.
#[tokio::test]
async fn an_error_text_that_the_table_refuses_is_left_out() {
    for (preset, column, table) in [
        ("talkie", "last_error", "outbox"),
        ("packfinderz", "last_error", "outbox_events"),
        ("gopipe", "last_error", "postrider_troubles"),
    ] {
        let world = world(preset, "").await;
        let check = format!("ALTER TABLE {table} ADD CHECK ({column} <> 'it is poison')");
        world.database.execute(&check).await;
        emit(&world, 0..30).await;
        let store = world.store();
        let settled = settle(claim(&store).await, |record| {
            if is(record, 7) {
                dead()
            } else {
                Fate::Published
            }
        })
        .await;
        assert_eq!((settled.lapsed, settled.refused), (0, vec![]), "{preset}");
        assert!(store.claim(ALL).await.unwrap().is_none(), "{preset}");
        assert_eq!(store.backlog().await.unwrap().dead, 1, "{preset}");
    }
}

/// R2: what cannot be stored at all rests in memory, and is told.
#[tokio::test]
async fn a_fate_that_the_table_refuses_is_told_and_not_tried_again_at_once() {
    for fate in [dead, || Fate::Published] {
        for (preset, overrides) in LAYOUTS {
            let world = world(preset, overrides).await;
            emit(&world, 0..30).await;
            let table = world.layout.table.quoted();
            world
                .database
                .execute(&format!(
                    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                     IF (to_jsonb(OLD)->'{p}'->>'n') = '7' AND NOT coalesce(to_jsonb(NEW)->>'status' = 'publishing', false) \
                     THEN RAISE EXCEPTION 'seven is refused'; END IF; \
                     RETURN coalesce(NEW, OLD); END $$; \
                     CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse(); \
                     CREATE FUNCTION refuse_beside() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                     IF NEW.attempts = 1 THEN RAISE EXCEPTION 'seven is refused'; END IF; RETURN NEW; END $$",
                    p = world.layout.columns.payload.as_str(),
                ))
                .await;
            if world.layout.needs_troubles() {
                let beside = "CREATE TRIGGER refuse BEFORE INSERT ON postrider_troubles FOR EACH ROW \
                              EXECUTE FUNCTION refuse_beside()";
                world.database.execute(beside).await;
            }
            let store = world.store();
            let claim = claim(&store).await;
            assert_eq!(claim.records().len(), 30, "{preset}");
            let settled = settle(claim, |record| match is(record, 7) {
                true => fate(),
                false => Fate::Published,
            })
            .await;
            let about = format!("{preset} {overrides} {settled:?}");
            assert_eq!((settled.lapsed, settled.refused.len()), (0, 1), "{about}");
            assert!(
                settled.refused[0].reason.contains("seven is refused"),
                "{about}"
            );
            assert_eq!(
                settled.refused[0].published,
                fate() == Fate::Published,
                "{about}"
            );
            let findings = store.findings();
            assert_eq!(findings.len(), 1, "{about}");
            assert!(
                findings[0].message.contains("seven is refused"),
                "{findings:?}"
            );
            assert!(store.claim(ALL).await.unwrap().is_none(), "{about}");
            assert_eq!(store.backlog().await.unwrap().pending, 1, "{about}");
        }
    }
}

/// R12: ids that are given again belong to other records.
#[tokio::test]
async fn failures_of_an_emptied_table_harm_no_new_record() {
    let world = world("gopipe", "").await;
    emit(&world, 0..5).await;
    let store = world.store();
    settle(claim(&store).await, |_| dead()).await;
    world
        .database
        .execute("TRUNCATE outbox RESTART IDENTITY")
        .await;
    emit(&world, 0..8).await;
    eventually("all new records can be claimed", async || {
        match store.claim(ALL).await.unwrap() {
            Some(claim) if claim.records().len() == 8 => Ok(()),
            other => Err(other.map(|claim| claim.records().len())),
        }
    })
    .await;
}

/// R8: a record without an id could not be settled.
#[tokio::test]
async fn a_record_without_an_id_is_passed_over() {
    let table = "CREATE TABLE outbox (id bigint UNIQUE, created_at timestamptz NOT NULL DEFAULT clock_timestamp(), \
                 topic text, event_type text, data jsonb, attributes jsonb NOT NULL DEFAULT '{}', published boolean NOT NULL \
                 DEFAULT false)";
    let world = world_with("gopipe", "", table).await;
    let insert = "INSERT INTO outbox (id, topic, event_type, data) VALUES (1, 't', 'e', '{}'), (NULL, 't', 'e', '{}'), \
                  (2, 't', 'e', '{}')";
    world.database.execute(insert).await;
    let claim = claim(&world.store()).await;
    assert_eq!(claim.records().len(), 2);
}

#[tokio::test]
async fn a_claim_stops_at_its_bytes_and_one_record_is_always_taken() {
    for (preset, overrides) in LAYOUTS {
        let world = world(preset, overrides).await;
        for n in 0..5 {
            let mut event = world.event(Some(&format!("k{n}")), n);
            let text = incompressible(1_000_000).replace(['"', '\\'], "");
            event.payload = format!("{{\"n\":{n},\"text\":\"{text}\"}}").into();
            world.emit(event).await;
        }
        let store = world.store();
        for (bytes, records) in [(2_500_000, 2), (10, 1), (usize::MAX, 2)] {
            let want = Want { bytes, ..ALL };
            let claim = store.claim(want).await.unwrap().unwrap();
            let first = payload(&claim.records()[0]).to_owned();
            assert_eq!(claim.records().len(), records, "{preset} {overrides}");
            settle(claim, |_| Fate::Published).await;
            let before = if bytes == 10 { "{\"n\":2" } else { "" };
            assert!(first.replace(' ', "").starts_with(before), "{preset}");
        }
        assert!(
            store.claim(ALL).await.unwrap().is_none(),
            "{preset} {overrides}"
        );
    }
}

/// R11: a foreign key of another table locks rows so, and changes nothing about them.
#[tokio::test]
async fn a_row_that_others_only_refer_to_stalls_nobody() {
    for preset in ["polyshop", "packfinderz", "gopipe"] {
        let world = world(preset, "").await;
        emit(&world, 0..3).await;
        let mut tx = world.database.pool.begin().await.unwrap();
        let share = format!("SELECT FROM {} FOR KEY SHARE", world.layout.table.quoted());
        sqlx::query(sqlx::AssertSqlSafe(share))
            .execute(&mut *tx)
            .await
            .unwrap();
        let store = world.store();
        let claim = store.claim(ALL).await.unwrap().unwrap();
        assert_eq!(claim.records().len(), 3, "{preset}");
        settle(claim, |_| Fate::Published).await;
        tx.rollback().await.unwrap();
    }
}

/// R14: what is not settled is published again.
#[tokio::test]
async fn a_lease_is_settled_by_another_try_when_the_connection_is_cut() {
    let world = world("talkie", "ordering = 'key'").await;
    emit(&world, 0..10).await;
    let store = world.store();
    let claim = claim(&store).await;
    let mut lock = world.database.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE outbox IN EXCLUSIVE MODE")
        .execute(&mut *lock)
        .await
        .unwrap();
    let settled = tokio::spawn(settle(claim, |record| match is(record, 3) {
        true => dead(),
        false => Fate::Published,
    }));
    let kill = "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted)";
    eventually("the settle waits for the lock", async || {
        match world.database.texts(kill).await.len() {
            0 => Err("nobody waits"),
            _ => Ok(()),
        }
    })
    .await;
    lock.rollback().await.unwrap();
    assert_eq!(settled.await.unwrap(), Settled::default());
    assert!(store.claim(ALL).await.unwrap().is_none());
    assert_eq!(store.backlog().await.unwrap().dead, 1);
}
