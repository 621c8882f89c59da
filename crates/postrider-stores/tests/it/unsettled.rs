//! What tables do about single records: they refuse that one is claimed or settled, and the others go on.

use postrider_core::{Fate, OutboxStore as _, StoreError};

use crate::poison::{ALL, claim, dead, emit, is, settle};
use crate::world::{World, world};

/// Makes every change of the seventh record fail from now on, with this code. Where `claims`, being claimed too.
async fn refuse_seven(world: &World, when: &str, code: &str, claims: bool) {
    let table = world.layout.table.quoted();
    let payload = world.layout.columns.payload.as_str();
    let but_claims = match claims {
        true => "",
        false => "AND NOT coalesce(to_jsonb(NEW)->>'status' = 'publishing', false)",
    };
    let (constraint, timing) = match when {
        "deferred" => ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED"),
        _ => ("", ""),
    };
    let moment = if constraint.is_empty() {
        "BEFORE"
    } else {
        "AFTER"
    };
    let sql = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF coalesce(to_jsonb(OLD)->'{payload}'->>'n', to_jsonb(OLD)->'{payload}'->'data'->>'n') = '7' {but_claims} \
         THEN RAISE EXCEPTION 'seven is refused' USING ERRCODE = '{code}'; END IF; RETURN coalesce(NEW, OLD); END $$; \
         CREATE {constraint} TRIGGER refuse {moment} UPDATE OR DELETE ON {table} {timing} \
         FOR EACH ROW EXECUTE FUNCTION refuse()"
    );
    world.database.execute(&sql).await;
}

/// Settles thirty as published, of which the table refuses one.
async fn settle_but_seven(world: &World, about: &str) {
    let store = world.store();
    let claim = claim(&store).await;
    assert_eq!(claim.records().len(), 30, "{about}");
    let settled = settle(claim, |_| Fate::Published).await;
    assert_eq!((settled.lapsed, settled.refused.len()), (0, 1), "{about}");
    let reason = &settled.refused[0].reason;
    assert!(reason.contains("seven is refused"), "{about}: {reason}");
    assert_eq!(store.backlog().await.unwrap().pending, 1, "{about}");
    assert!(store.claim(ALL).await.unwrap().is_none(), "{about}");
}

const LAYOUTS: [(&str, &str); 4] = [
    ("polyshop", ""),
    ("debezium", ""),
    ("talkie", "ordering = 'key'"),
    ("gopipe", ""),
];

/// A constraint that is looked at when the transaction commits would take all of a claim with it.
#[tokio::test]
async fn a_deferred_constraint_refuses_its_record_alone() {
    for (preset, overrides) in LAYOUTS {
        let world = world(preset, overrides).await;
        emit(&world, 0..30).await;
        refuse_seven(&world, "deferred", "P0001", false).await;
        settle_but_seven(&world, preset).await;
    }
}

/// A trigger may fail with any code, also with one that would otherwise tell of the table or of the server.
#[tokio::test]
async fn a_trigger_refuses_its_record_alone_whatever_the_code() {
    for code in [
        "42P01", "42703", "0A000", "42501", "40001", "40P01", "55000", "08006", "25006",
    ] {
        for (preset, overrides) in [("polyshop", ""), ("talkie", "ordering = 'key'")] {
            let world = world(preset, overrides).await;
            emit(&world, 0..30).await;
            refuse_seven(&world, "at once", code, false).await;
            settle_but_seven(&world, &format!("{preset} {code}")).await;
        }
    }
}

#[tokio::test]
async fn a_column_that_is_gone_is_no_fault_of_the_records() {
    let world = world("talkie", "").await;
    emit(&world, 0..3).await;
    let store = world.store();
    for (rename, fate) in [("last_error", dead()), ("published_at", Fate::Published)] {
        let claim = claim(&store).await;
        let there = format!("ALTER TABLE outbox RENAME COLUMN {rename} TO gone");
        world.database.execute(&there).await;
        let fates = vec![fate; claim.records().len()];
        let error = claim.settle(&fates).await.unwrap_err();
        assert!(matches!(error, StoreError::Mismatch(_)), "{error}");
        assert_eq!(store.findings().len(), 0);
        let back = format!(
            "ALTER TABLE outbox RENAME COLUMN gone TO {rename}; UPDATE outbox SET status = 'pending'"
        );
        world.database.execute(&back).await;
    }
}

/// Otherwise one record would stop an outbox that is claimed by lease, for everybody.
#[tokio::test]
async fn a_record_that_the_table_lets_nobody_claim_is_told_and_the_others_flow() {
    for (ordering, others) in [("key", 29), ("none", 30)] {
        for how in ["check", "23514", "42P01", "40001"] {
            let world = world("talkie", &format!("ordering = '{ordering}'")).await;
            emit(&world, 0..7).await;
            let mut seven = world.event(Some("k7"), 7);
            seven.topic = Some("a long topic".into());
            world.emit(seven).await;
            emit(&world, 8..30).await;
            world.emit(world.event(Some("k7"), 30)).await;
            match how {
                "check" => {
                    let check = "ALTER TABLE outbox ADD CHECK (length(topic) < 10) NOT VALID";
                    world.database.execute(check).await;
                }
                code => refuse_seven(&world, "at once", code, true).await,
            }
            let about = format!("{ordering} {how}");
            let store = world.store();
            let claim = claim(&store).await;
            let has_seven = claim.records().iter().any(|record| is(record, 7));
            assert!(!has_seven, "{about}");
            assert_eq!(claim.records().len(), others, "{about}");
            let settled = settle(claim, |_| Fate::Published).await;
            assert_eq!((settled.lapsed, settled.refused), (0, vec![]), "{about}");
            let findings = store.findings();
            assert_eq!(findings.len(), 1, "{about}");
            assert!(
                findings[0].message.contains("cannot be claimed"),
                "{findings:?}"
            );
            assert!(store.claim(ALL).await.unwrap().is_none(), "{about}");
        }
    }
}

/// A table that lets nobody claim anything is no reason to ask it record by record without an end.
#[tokio::test]
async fn a_claim_asks_so_often_and_no_more() {
    let world = world("talkie", "").await;
    emit(&world, 0..300).await;
    world
        .database
        .execute(
            "CREATE SEQUENCE asked; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM nextval('asked'); RAISE EXCEPTION 'no'; END $$; \
             CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    let store = world.store();
    let want = postrider_core::Want { limit: 300, ..ALL };
    assert!(store.claim(want).await.unwrap().is_none());
    let asked = world.database.number("SELECT last_value FROM asked").await;
    assert!((10..=120).contains(&asked), "{asked}");
    assert!(!store.findings().is_empty());
}

/// Attempts belong to a record, not to an id that was given again.
#[tokio::test]
async fn attempts_of_an_emptied_table_are_no_new_records() {
    let world = world("gopipe", "").await;
    emit(&world, 0..5).await;
    let store = world.store();
    settle(claim(&store).await, |_| Fate::Retry {
        attempts: 9,
        after: std::time::Duration::ZERO,
        error: "it is poison".into(),
    })
    .await;
    world
        .database
        .execute("TRUNCATE outbox RESTART IDENTITY")
        .await;
    emit(&world, 0..5).await;
    let claim = claim(&store).await;
    let attempts: Vec<u32> = claim
        .records()
        .iter()
        .map(|record| record.attempts)
        .collect();
    assert_eq!(attempts, [0; 5]);
}

/// The finding says to mark or to delete the record by hand.
#[tokio::test]
async fn a_refusal_ends_when_the_record_is_settled_by_hand() {
    for (preset, by_hand) in [
        ("polyshop", "UPDATE outbox_events SET processed = true"),
        ("gopipe", "DELETE FROM outbox"),
        (
            "packfinderz",
            "UPDATE outbox_events SET published_at = now()",
        ),
        (
            "talkie",
            "UPDATE outbox SET status = 'published', published_at = now()",
        ),
    ] {
        let world = world(preset, "").await;
        emit(&world, 0..30).await;
        refuse_seven(&world, "at once", "P0001", false).await;
        let store = world.store();
        settle(claim(&store).await, |_| Fate::Published).await;
        assert_eq!(store.findings().len(), 1, "{preset}");
        let table = world.layout.table.quoted();
        let by_hand = format!("DROP TRIGGER refuse ON {table}; {by_hand}");
        world.database.execute(&by_hand).await;
        postrider_testkit::eventually("the finding is gone", async || {
            store.claim(ALL).await.unwrap();
            match store.findings() {
                none if none.is_empty() => Ok(()),
                some => Err(some),
            }
        })
        .await;
    }
}

/// Layouts, and what is true of a record that was claimed and not settled.
pub(crate) const UNTOUCHED: [(&str, &str); 4] = [
    ("polyshop", "NOT processed AND error_message IS NULL"),
    ("packfinderz", "published_at IS NULL AND attempt_count = 0"),
    ("talkie", "status = 'publishing'"),
    ("gopipe", "NOT published"),
];

/// R3: what has an id twice while a relay runs. To mark both would lose the one that was never sent.
#[tokio::test]
async fn nothing_is_settled_where_an_id_is_there_twice() {
    for (preset, untouched) in UNTOUCHED {
        for fate in [Fate::Published, dead()] {
            // A failure that is kept aside changes no row of this table.
            if preset == "gopipe" && fate != Fate::Published {
                continue;
            }
            let world = world(preset, "").await;
            let store = world.store();
            assert!(store.claim(ALL).await.unwrap().is_none());
            let table = world.layout.table.quoted();
            let unguard = format!(
                "DO $$ DECLARE c name; BEGIN \
                 FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype IN ('p', 'u') \
                 LOOP EXECUTE format('ALTER TABLE {table} DROP CONSTRAINT %I', c); END LOOP; END $$"
            );
            world.database.execute(&unguard).await;
            emit(&world, 0..1).await;
            let claim = claim(&store).await;
            let twice =
                format!("INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {table}");
            world.database.execute(&twice).await;
            let error = claim.settle(std::slice::from_ref(&fate)).await.unwrap_err();
            assert!(
                error.to_string().contains("not unique"),
                "{preset}: {error}"
            );
            let left = format!("{table} WHERE {untouched}");
            assert_eq!(world.database.count(&left).await, 2, "{preset} {fate:?}");
        }
    }
}
