//! Records as an operator finds, counts and reads them.

use std::collections::HashSet;
use std::time::Duration;

use postrider_core::{
    Cursor, Fate, ManagedStore, RecordFilter, RecordId, RecordState, StoreError, StoredRecord,
    Timestamp,
};

use super::{
    Settings, StoreWorld, claim_now, claim_soon, dead, find, insert_all, operator, retry, settle,
    settle_all,
};

const LATER: Duration = Duration::from_secs(300);

/// One record in each state, in this order: published (where they are kept), dead, waiting, pending.
async fn one_in_each_state(
    world: &dyn StoreWorld,
    store: &dyn ManagedStore,
) -> Vec<(RecordId, RecordState)> {
    let mut expected = Vec::new();
    for (key, state) in [
        ("a", RecordState::Published),
        ("b", RecordState::Dead),
        ("c", RecordState::Waiting),
    ] {
        let id = insert_all(world, &[key]).await.remove(0);
        settle_all(store, |record| match state {
            RecordState::Published => Fate::Published,
            RecordState::Dead => dead(record),
            _ => retry(record, LATER),
        })
        .await;
        if state != RecordState::Published || world.keeps_published() {
            expected.push((id, state));
        }
    }
    let id = insert_all(world, &["d"]).await.remove(0);
    expected.push((id, RecordState::Pending));
    expected
}

pub async fn every_record_is_in_one_state_and_found_by_it(world: &dyn StoreWorld) {
    let store = world.relay(Settings::default());
    let expected = one_in_each_state(world, &*store).await;
    let states = |records: &[StoredRecord]| -> Vec<(RecordId, RecordState)> {
        records
            .iter()
            .map(|record| (record.id.clone(), record.state))
            .collect()
    };
    let all = find(&*store, &RecordFilter::default()).await;
    assert_eq!(states(&all), expected);
    for state in RecordState::ALL {
        let mut of_state = expected.clone();
        of_state.retain(|(_, found)| *found == state);
        let filter = RecordFilter::in_state(state);
        assert_eq!(states(&find(&*store, &filter).await), of_state);
        let count = store.count(&filter).await.unwrap();
        assert_eq!(count, of_state.len() as u64, "{state:?}");
    }
    let backlog = store.backlog().await.unwrap();
    assert_eq!((backlog.pending, backlog.dead), (2, 1));
}

pub async fn a_record_tells_what_became_of_it(world: &dyn StoreWorld) {
    let store = world.relay(Settings::default());
    one_in_each_state(world, &*store).await;
    for record in find(&*store, &RecordFilter::default()).await {
        let failed = matches!(record.state, RecordState::Dead | RecordState::Waiting);
        assert_eq!(record.attempts > 0, failed, "{record:?}");
        assert_eq!(record.error.is_some(), failed, "{record:?}");
        // Not every table says when; those that do, say it of no other record.
        assert!(record.published_at.is_none() || record.state == RecordState::Published);
        assert!(record.retry_at.is_none() || record.state == RecordState::Waiting);
        let payload = store.read(&only(&record), None, 1).await.unwrap().items[0]
            .payload
            .clone();
        let bytes = payload.map(|payload| payload.len() as u64);
        assert_eq!(record.payload_bytes, bytes, "{record:?}");
    }
}

pub async fn a_record_in_flight_is_pending_and_found_without_waiting(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 1).await;
    let found = find(&*store, &RecordFilter::in_state(RecordState::Pending)).await;
    assert_eq!(found[0].id, inserted[0]);
    settle(claim, |_| Fate::Released).await;
}

pub async fn a_resent_record_is_pending_with_its_error_marked(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings::default());
    settle_all(&*store, dead).await;
    store.resend(&inserted, &operator()).await.unwrap();
    let found = find(&*store, &RecordFilter::default()).await;
    assert_eq!(found[0].state, RecordState::Pending);
    assert!(found[0].error.as_ref().unwrap().starts_with("resent "));
}

fn only(record: &StoredRecord) -> RecordFilter {
    RecordFilter {
        ids: vec![record.id.clone()],
        ..RecordFilter::default()
    }
}

/// What a filter means, apart from SQL.
fn matches(filter: &RecordFilter, record: &StoredRecord) -> bool {
    let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
    let contains = |part: &String| {
        let error = record.error.as_ref().map(|error| error.to_lowercase());
        error.is_some_and(|error| error.contains(&part.to_lowercase()))
    };
    filter.state.is_none_or(|state| state == record.state)
        && (filter.ids.is_empty() || filter.ids.contains(&record.id))
        && is(&filter.event_type, &record.event_type)
        && is(&filter.key, &record.key)
        && is(&filter.topic, &record.topic)
        && filter.error.as_ref().is_none_or(contains)
        && filter.since.is_none_or(|since| record.created_at >= since)
        && filter.until.is_none_or(|until| record.created_at < until)
}

/// Every field of a filter alone, from the values of this record.
fn filters_like(record: &StoredRecord) -> Vec<RecordFilter> {
    let none = RecordFilter::default;
    let error = record
        .error
        .as_ref()
        .map(|error| error[1..error.len() - 1].to_uppercase());
    vec![
        RecordFilter::in_state(record.state),
        only(record),
        RecordFilter {
            event_type: record.event_type.clone(),
            ..none()
        },
        RecordFilter {
            key: record.key.clone(),
            ..none()
        },
        RecordFilter {
            topic: record.topic.clone(),
            ..none()
        },
        RecordFilter { error, ..none() },
        RecordFilter {
            since: Some(record.created_at),
            ..none()
        },
        RecordFilter {
            until: Some(record.created_at),
            ..none()
        },
    ]
}

/// All that two filters ask for.
fn both(a: &RecordFilter, b: &RecordFilter) -> RecordFilter {
    let ids = if a.ids.is_empty() { &b.ids } else { &a.ids };
    RecordFilter {
        state: a.state.or(b.state),
        ids: ids.clone(),
        event_type: a.event_type.clone().or(b.event_type.clone()),
        key: a.key.clone().or(b.key.clone()),
        topic: a.topic.clone().or(b.topic.clone()),
        error: a.error.clone().or(b.error.clone()),
        since: a.since.or(b.since),
        until: a.until.or(b.until),
    }
}

pub async fn every_filter_finds_what_it_says_alone_and_with_others(world: &dyn StoreWorld) {
    let store = world.relay(Settings::default());
    one_in_each_state(world, &*store).await;
    world
        .insert_like("order_canceled", "returns", Some("d"), 9)
        .await;
    let all = find(&*store, &RecordFilter::default()).await;
    let check = async |filter: RecordFilter| {
        let wanted: Vec<&RecordId> = all
            .iter()
            .filter(|record| matches(&filter, record))
            .map(|record| &record.id)
            .collect();
        let found = find(&*store, &filter).await;
        let found: Vec<&RecordId> = found.iter().map(|record| &record.id).collect();
        assert_eq!(found, wanted, "{filter:?}");
        let read = store.read(&filter, None, 100).await.unwrap();
        let read: Vec<&RecordId> = read.items.iter().map(|record| &record.id).collect();
        assert_eq!(read, wanted, "{filter:?}");
        let count = store.count(&filter).await.unwrap();
        assert_eq!(count, wanted.len() as u64, "{filter:?}");
    };
    for record in &all {
        let alone = filters_like(record);
        for filter in &alone {
            check(filter.clone()).await;
        }
        let together = alone[..7]
            .iter()
            .fold(RecordFilter::default(), |all, one| both(&all, one));
        assert_eq!(store.count(&together).await.unwrap(), 1, "{together:?}");
        check(together).await;
    }
    for one in filters_like(&all[0]) {
        for other in filters_like(all.last().unwrap()) {
            check(both(&one, &other)).await;
        }
    }
}

pub async fn what_is_in_no_record_is_not_found(world: &dyn StoreWorld) {
    insert_all(world, &["a"]).await;
    let store = world.relay(Settings::default());
    let odd = ["no such", "", "'; --", "%", "\\", "a\u{301}"];
    for text in odd.map(str::to_owned) {
        let none = RecordFilter::default;
        for filter in [
            RecordFilter {
                event_type: Some(text.clone()),
                ..none()
            },
            RecordFilter {
                key: Some(text.clone()),
                ..none()
            },
            RecordFilter {
                topic: Some(text.clone()),
                ..none()
            },
            RecordFilter {
                error: Some(text.clone()),
                ..none()
            },
        ] {
            assert_eq!(store.count(&filter).await.unwrap(), 0, "{filter:?}");
            assert!(find(&*store, &filter).await.is_empty(), "{filter:?}");
        }
    }
    for (since, until) in [(Some(i64::MAX), None), (None, Some(i64::MIN))] {
        let filter = RecordFilter {
            since: since.map(Timestamp::from_micros),
            until: until.map(Timestamp::from_micros),
            ..RecordFilter::default()
        };
        // Times that no calendar has may be refused, but never found.
        assert!(matches!(
            store.count(&filter).await,
            Ok(0) | Err(StoreError::Unfit { .. })
        ));
    }
}

pub async fn what_cannot_be_asked_for_is_refused(world: &dyn StoreWorld) {
    insert_all(world, &["a", "b"]).await;
    let store = world.relay(Settings::default());
    let everything = RecordFilter::default();
    let page = store.find(&everything, None, 1).await.unwrap();
    let good = page.next.expect("there is a second page").0;
    for garbage in [
        "",
        "nonsense",
        "[]",
        "[\"x\"]",
        "[\"x\",\"y\"]",
        "[null,null]",
        "[\"\\u0000\",\"\\u0000\"]",
        &good.replace('[', "[\"x\","),
    ] {
        let from = Cursor(garbage.into());
        let found = store.find(&everything, Some(&from), 1).await;
        // Where the order columns are text, any text is a place in the order.
        let text = found.is_ok() && garbage.starts_with("[\"x\"");
        assert!(
            text || matches!(found, Err(StoreError::Unfit { .. })),
            "{garbage}: {found:?}"
        );
    }
}

pub async fn pages_neither_skip_nor_repeat_while_records_come_and_go(world: &dyn StoreWorld) {
    let store = world.relay(Settings::default());
    let keys: Vec<String> = (0..9).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let inserted = insert_all(world, &keys).await;
    settle_all(&*store, dead).await;
    let (mut seen, mut from, mut gone) = (Vec::new(), None::<Cursor>, HashSet::new());
    loop {
        let page = store
            .find(&RecordFilter::dead(), from.as_ref(), 2)
            .await
            .unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|record| record.id.clone()));
        let Some(next) = page.next else { break };
        // The record that the page ended with goes, and with it one that was not seen yet; another one comes.
        let last = page.items.last().unwrap().id.clone();
        let unseen = inserted.iter().filter(|id| !seen.contains(id)).nth(1);
        let leaving: Vec<RecordId> = [Some(last), unseen.cloned()]
            .into_iter()
            .flatten()
            .collect();
        store.discard(&leaving, &operator()).await.unwrap();
        gone.extend(leaving);
        insert_all(world, &["new"]).await;
        from = Some(next);
    }
    let distinct: HashSet<&RecordId> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "seen twice: {seen:?}");
    let mut sorted = seen.clone();
    sorted.sort_by_key(|id| inserted.iter().position(|other| other == id));
    assert_eq!(seen, sorted, "in the outbox's order");
    for id in inserted.iter().filter(|id| !gone.contains(*id)) {
        assert!(seen.contains(id), "{id} was skipped");
    }
}

pub async fn the_last_page_says_that_it_is(world: &dyn StoreWorld) {
    insert_all(world, &["a", "b"]).await;
    let store = world.relay(Settings::default());
    let everything = RecordFilter::default();
    for limit in [2, 3, u32::MAX] {
        let page = store.find(&everything, None, limit).await.unwrap();
        assert_eq!((page.items.len(), page.next), (2, None));
    }
    let first = store.read(&everything, None, 1).await.unwrap();
    let second = store.read(&everything, first.next.as_ref(), 1).await;
    let second = second.unwrap();
    assert_eq!((second.items.len(), second.next), (1, None));
    assert_ne!(first.items[0].id, second.items[0].id);
}

pub async fn what_is_read_is_what_a_claim_gives(world: &dyn StoreWorld) {
    let store = world.relay(Settings::default());
    insert_all(world, &["a", "b", "c"]).await;
    world.insert(None, 7).await;
    settle(claim_now(&*store, 2).await, |record| {
        retry(record, Duration::ZERO)
    })
    .await;
    let claim = claim_soon(&*store, 10).await;
    assert_eq!(claim.records().len(), 4);
    let read = store.read(&RecordFilter::default(), None, 10).await;
    let read = read.unwrap().items;
    let found = find(&*store, &RecordFilter::default()).await;
    for ((read, claimed), found) in read.iter().zip(claim.records()).zip(&found) {
        assert_eq!(format!("{read:?}"), format!("{claimed:?}"));
        assert_eq!(found.id, claimed.id);
        assert_eq!(found.event_id, claimed.event_id);
        assert_eq!(found.event_type.as_deref(), claimed.event_type.as_deref());
        assert_eq!(
            found.key.as_deref(),
            claimed.key.as_ref().and_then(|key| key.as_str())
        );
        assert_eq!(found.topic.as_deref(), claimed.topic.as_deref());
        assert_eq!(found.attempts, claimed.attempts);
        assert_eq!(found.created_at, claimed.created_at);
    }
    settle(claim, |_| Fate::Released).await;
}
