//! Nothing that one record contains keeps the others of its claim from being settled, in a file as on a server.

use postrider_core::{Fate, OutboxStore as _};
use postrider_stores::sqlite::{InitOptions, ddl};
use postrider_testkit::eventually;

use super::world::{File, store, world, world_with};
use crate::poison::{ALL, claim, dead, emit, is, settle};
use crate::unsettled::UNTOUCHED;
use crate::world::{World, layout};

/// The preset's table as `init` makes it, but for this.
fn table_with(preset: &str, overrides: &str, from: &str, to: &str) -> String {
    let create = &ddl(&layout(preset, overrides), &InitOptions::default())[0];
    assert!(create.contains(from), "{create}");
    create.replacen(from, to, 1)
}

/// Refuses updates and deletes of rows for which this is true.
async fn refuse(world: &World<File>, when: &str) {
    for verb in ["UPDATE", "DELETE"] {
        let when = match verb {
            "DELETE" => when.split(" AND NEW").next().unwrap(),
            _ => when,
        };
        let trigger = format!(
            "CREATE TRIGGER \"refuse {verb}\" BEFORE {verb} ON {} WHEN {when} \
             BEGIN SELECT RAISE(ABORT, 'seven is refused'); END",
            world.layout.table.quoted()
        );
        world.database.file.execute(&trigger).await;
    }
}

fn is_seven(world: &World<File>) -> String {
    let payload = world.layout.columns.payload.quoted();
    format!("OLD.{payload} ->> 'n' = 7")
}

const LAYOUTS: [(&str, &str); 5] = [
    ("polyshop", ""),
    ("debezium", ""),
    ("talkie", "ordering = 'key'"),
    ("talkie", "ordering = 'none'"),
    ("gopipe", ""),
];

/// R2: what the error says is refused, and then left out.
#[tokio::test]
async fn an_error_text_that_the_table_refuses_is_left_out() {
    for (preset, column) in [("talkie", "last_error"), ("packfinderz", "last_error")] {
        let plain = format!("\"{column}\" text");
        let checked = format!("{plain} CHECK ({column} <> 'it is poison')");
        let table = table_with(preset, "", &plain, &checked);
        let world = world_with(preset, "", &table).await;
        emit(&world, 0..30).await;
        let store = store(&world);
        let settled = settle(claim(&store).await, |record| match is(record, 7) {
            true => dead(),
            false => Fate::Published,
        })
        .await;
        assert_eq!((settled.lapsed, settled.refused), (0, vec![]), "{preset}");
        assert!(store.claim(ALL).await.unwrap().is_none(), "{preset}");
        assert_eq!(store.backlog().await.unwrap().dead, 1, "{preset}");
    }
}

/// R2: what cannot be stored at all rests in memory, and is told until it is settled by hand.
#[tokio::test]
async fn a_mark_that_the_table_refuses_is_told_and_its_record_not_sent_again_at_once() {
    for (preset, overrides) in LAYOUTS {
        let world = world(preset, overrides).await;
        emit(&world, 0..30).await;
        let but_claims = match preset {
            "talkie" => " AND NEW.status <> 'publishing'",
            _ => "",
        };
        refuse(&world, &format!("{}{but_claims}", is_seven(&world))).await;
        let about = format!("{preset} {overrides}");
        let store = store(&world);
        let claim = claim(&store).await;
        assert_eq!(claim.records().len(), 30, "{about}");
        let settled = settle(claim, |_| Fate::Published).await;
        assert_eq!((settled.lapsed, settled.refused.len()), (0, 1), "{about}");
        assert_eq!(store.findings().len(), 1, "{about}");
        assert!(store.claim(ALL).await.unwrap().is_none(), "{about}");
        assert_eq!(store.backlog().await.unwrap().pending, 1, "{about}");
        let by_hand = format!(
            "DROP TRIGGER \"refuse UPDATE\"; DROP TRIGGER \"refuse DELETE\"; DELETE FROM {}",
            world.layout.table.quoted()
        );
        world.database.file.execute(&by_hand).await;
        eventually("the finding is gone", async || {
            store.claim(ALL).await.unwrap();
            match store.findings() {
                none if none.is_empty() => Ok(()),
                some => Err(some),
            }
        })
        .await;
    }
}

/// Otherwise one record would stop an outbox that is claimed by lease, for everybody.
#[tokio::test]
async fn a_record_that_the_table_lets_nobody_claim_is_told_and_the_others_flow() {
    for (ordering, others) in [("key", 29), ("none", 30)] {
        let world = world("talkie", &format!("ordering = '{ordering}'")).await;
        emit(&world, 0..30).await;
        world.emit(world.event(Some("k7"), 30)).await;
        refuse(&world, &is_seven(&world)).await;
        let store = store(&world);
        let claim = claim(&store).await;
        assert_eq!(claim.records().len(), others, "{ordering}");
        let settled = settle(claim, |_| Fate::Published).await;
        assert_eq!((settled.lapsed, settled.refused), (0, vec![]), "{ordering}");
        let findings = store.findings();
        assert_eq!(findings.len(), 1, "{ordering}");
        assert!(
            findings[0].message.contains("cannot be claimed"),
            "{findings:?}"
        );
        assert!(store.claim(ALL).await.unwrap().is_none(), "{ordering}");
    }
}

/// What was published is not sent again because another record cannot be given back.
#[tokio::test]
async fn a_record_that_cannot_be_given_back_keeps_no_other_from_being_settled() {
    let world = world("talkie", "").await;
    emit(&world, 0..30).await;
    let refused = format!("{} AND NEW.status <> 'publishing'", is_seven(&world));
    refuse(&world, &refused).await;
    let store = store(&world);
    let settled = settle(claim(&store).await, |record| match is(record, 7) {
        true => Fate::Released,
        false => Fate::Published,
    })
    .await;
    assert_eq!((settled.lapsed, settled.refused), (0, vec![]));
    assert_eq!(store.backlog().await.unwrap().pending, 1);
}

/// R3: what has an id twice while a relay runs. To mark both would lose the one that was never sent.
#[tokio::test]
async fn nothing_is_settled_where_an_id_is_there_twice() {
    for (preset, untouched) in &UNTOUCHED[..3] {
        for fate in [Fate::Published, dead()] {
            let table = table_with(preset, "", " PRIMARY KEY", "");
            let name = layout(preset, "").table.quoted();
            let guarded = format!("{table}; CREATE UNIQUE INDEX ids ON {name} (id)");
            let world = world_with(preset, "", &guarded).await;
            let store = store(&world);
            assert!(store.claim(ALL).await.unwrap().is_none());
            world.database.file.execute("DROP INDEX ids").await;
            emit(&world, 0..1).await;
            let claim = claim(&store).await;
            let twice = format!("INSERT INTO {name} SELECT * FROM {name}");
            world.database.file.execute(&twice).await;
            let error = claim.settle(std::slice::from_ref(&fate)).await.unwrap_err();
            assert!(
                error.to_string().contains("not unique"),
                "{preset}: {error}"
            );
            let left = format!("{name} WHERE {untouched}");
            let left = world.database.file.count(&left).await;
            assert_eq!(left, 2, "{preset} {fate:?}");
        }
    }
}

/// Attempts belong to a record, not to an id that was given again.
#[tokio::test]
async fn attempts_of_an_emptied_table_are_no_new_records() {
    let world = world("gopipe", "").await;
    emit(&world, 0..5).await;
    let store = store(&world);
    settle(claim(&store).await, |_| Fate::Retry {
        attempts: 9,
        after: std::time::Duration::ZERO,
        error: "it is poison".into(),
    })
    .await;
    let empty = "DELETE FROM outbox; DELETE FROM sqlite_sequence";
    world.database.file.execute(empty).await;
    emit(&world, 0..5).await;
    let claim = claim(&store).await;
    let attempts: Vec<u32> = claim
        .records()
        .iter()
        .map(|record| record.attempts)
        .collect();
    assert_eq!(attempts, [0; 5]);
}
