//! Who did what, written down with what they did.

use futures::future::join;
use postrider_core::{Act, Actor, Audited, ManagedStore, RecordFilter, RecordId, Timestamp};

use super::{Settings, State, StoreWorld, dead, find, insert_all, operator, settle_all};

async fn audited(store: &dyn ManagedStore, record: Option<&RecordId>) -> Vec<Audited> {
    store.audited(record, 100).await.unwrap()
}

/// Who, what and to which record, the latest first.
fn figures(acts: &[Audited]) -> Vec<(&str, &str, Option<&RecordId>)> {
    acts.iter()
        .map(|audited| {
            let Audited { by, act, .. } = audited;
            (by.0.as_str(), act.action.as_str(), act.record.as_ref())
        })
        .collect()
}

pub async fn every_change_of_a_record_is_written_down(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b", "c"]).await;
    let store = world.relay(Settings::default());
    settle_all(&*store, dead).await;
    assert_eq!(audited(&*store, None).await.len(), 0);
    store.resend(&inserted[..1], &operator()).await.unwrap();
    let second = Actor("day shift".into());
    store.discard(&inserted, &second).await.unwrap();
    let acts = audited(&*store, None).await;
    let mut discarded = figures(&acts);
    assert_eq!(
        discarded.pop(),
        Some(("night shift", "resend", Some(&inserted[0])))
    );
    discarded.sort_by_key(|(_, _, record)| inserted.iter().position(|id| Some(id) == *record));
    let expected: Vec<_> = inserted[1..]
        .iter()
        .map(|id| ("day shift", "discard", Some(id)))
        .collect();
    assert_eq!(discarded, expected, "the first was not dead any more");
    let day = 24 * 60 * 60 * 1_000_000;
    let ago = Timestamp::now().as_micros() - acts[0].at.as_micros();
    assert!(ago.abs() < day, "{ago} µs ago");
    // Of a record that is gone, too.
    let of_one = audited(&*store, Some(&inserted[1])).await;
    assert_eq!(figures(&of_one), expected[..1]);
    assert_eq!(store.audited(None, 2).await.unwrap().len(), 2);
}

pub async fn what_changes_no_record_is_written_down_on_request(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings::default());
    let act = |record: Option<RecordId>| Act {
        action: "read payload".into(),
        record,
        detail: Some("because\0 ".to_owned() + &"x".repeat(5_000)),
    };
    store.note(&operator(), &act(None)).await.unwrap();
    let by = Actor("who\0".to_owned() + &"o".repeat(5_000));
    let of_one = act(Some(inserted[0].clone()));
    store.note(&by, &of_one).await.unwrap();
    let acts = audited(&*store, None).await;
    assert_eq!(acts.len(), 2);
    assert_eq!(acts[0].act.record.as_ref(), Some(&inserted[0]));
    assert!(acts[0].by.0.starts_with("who") && acts[0].by.0.len() <= 256);
    let detail = acts[1].act.detail.as_ref().unwrap();
    assert!(detail.starts_with("because") && detail.len() <= 1024);
    assert_eq!(audited(&*store, Some(&inserted[0])).await.len(), 1);
}

pub async fn a_change_that_fails_is_not_written_down(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b"]).await;
    let store = world.relay(Settings::default());
    settle_all(&*store, dead).await;
    world.refuse_changes().await;
    store.resend(&inserted, &operator()).await.unwrap_err();
    store.discard(&inserted, &operator()).await.unwrap_err();
    assert_eq!(audited(&*store, None).await.len(), 0);
    assert_eq!(store.count(&RecordFilter::dead()).await.unwrap(), 2);
}

pub async fn without_an_audit_table_nothing_is_changed(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings::default());
    settle_all(&*store, dead).await;
    world.drop_audit().await;
    let note = Act {
        action: "replay".into(),
        record: None,
        detail: None,
    };
    for refused in [
        store.resend(&inserted, &operator()).await.map(drop),
        store.discard(&inserted, &operator()).await.map(drop),
        store.note(&operator(), &note).await,
        store.audited(None, 1).await.map(drop),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("`postrider init`"), "{error}");
    }
    assert_eq!(world.look(&inserted[0]).await.state, State::Dead);
    // Looking needs no audit.
    assert_eq!(find(&*store, &RecordFilter::dead()).await.len(), 1);
}

pub async fn two_operators_at_once_count_a_record_once(world: &dyn StoreWorld) {
    let keys: Vec<String> = (0..20).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let inserted = insert_all(world, &keys).await;
    settle_all(&*world.relay(Settings::default()), dead).await;
    let (one, other) = (
        world.relay(Settings::default()),
        world.relay(Settings::default()),
    );
    let by = operator();
    let backwards: Vec<RecordId> = inserted.iter().rev().cloned().collect();
    let (a, b) = join(one.resend(&inserted, &by), other.resend(&backwards, &by)).await;
    assert_eq!(a.unwrap() + b.unwrap(), 20);
    settle_all(&*one, dead).await;
    let (a, b) = join(one.resend(&inserted, &by), other.discard(&backwards, &by)).await;
    assert_eq!(a.unwrap() + b.unwrap(), 20);
    assert_eq!(one.audited(None, 100).await.unwrap().len(), 40);
}
