//! The contract of [`IdempotencyStore`] as tests: `idempotency_conformance!(store)`, with a store that knows no event.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

use std::time::Duration;

use futures::future::join_all;
use postrider_core::{EventId, IdempotencyStore, Owner, Reservation};

use crate::eventually;

const CONSUMER: &str = "mailer";
/// Outlasts every test.
const LONG: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_millis(100);

/// Makes a test of every case. The store is an expression that makes a new one each time.
#[macro_export]
macro_rules! idempotency_conformance {
    ($store:expr) => { $crate::idempotency_conformance!(@cases $store,
        an_event_is_first_then_busy_then_done
        a_released_event_is_first_again
        a_reservation_that_ran_out_is_first_again
        a_renewed_reservation_outlives_its_lease
        who_lost_a_reservation_can_do_it_no_harm
        an_effect_whose_lease_ran_out_unnoticed_is_done
        what_is_done_stays_done_until_its_time_is_over
        of_many_at_once_exactly_one_is_first
        consumers_are_told_apart_whatever_their_names
    ); };
    (@cases $store:expr, $($case:ident)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::conformance::idempotency::$case(&$store.await).await;
        }
    )+ };
}

async fn reserve(store: &dyn IdempotencyStore, id: &EventId, lease: Duration) -> Reservation {
    store.reserve(CONSUMER, id, lease).await.unwrap()
}

async fn own(store: &dyn IdempotencyStore, id: &EventId, lease: Duration) -> Owner {
    match reserve(store, id, lease).await {
        Reservation::First(owner) => owner,
        other => panic!("{other:?}"),
    }
}

async fn own_soon(store: &dyn IdempotencyStore, id: &EventId) -> Owner {
    eventually("the event is free", async || {
        match reserve(store, id, LONG).await {
            Reservation::First(owner) => Ok(owner),
            other => Err(other),
        }
    })
    .await
}

pub async fn an_event_is_first_then_busy_then_done(store: &dyn IdempotencyStore) {
    let id = EventId::generate();
    let owner = own(store, &id, LONG).await;
    assert_eq!(reserve(store, &id, LONG).await, Reservation::Busy);
    assert!(store.renew(CONSUMER, &id, &owner, LONG).await.unwrap());
    assert!(store.confirm(CONSUMER, &id, &owner, LONG).await.unwrap());
    assert_eq!(reserve(store, &id, LONG).await, Reservation::Done);
}

pub async fn a_released_event_is_first_again(store: &dyn IdempotencyStore) {
    let id = EventId::generate();
    let owner = own(store, &id, LONG).await;
    store.release(CONSUMER, &id, &owner).await.unwrap();
    assert_ne!(own(store, &id, LONG).await, owner);
}

pub async fn a_reservation_that_ran_out_is_first_again(store: &dyn IdempotencyStore) {
    let id = EventId::generate();
    own(store, &id, SHORT).await;
    own_soon(store, &id).await;
}

pub async fn a_renewed_reservation_outlives_its_lease(store: &dyn IdempotencyStore) {
    let (renewed, lapsing) = (EventId::generate(), EventId::generate());
    let owner = own(store, &renewed, SHORT * 20).await;
    assert!(store.renew(CONSUMER, &renewed, &owner, LONG).await.unwrap());
    own(store, &lapsing, SHORT * 20).await;
    own_soon(store, &lapsing).await;
    assert_eq!(reserve(store, &renewed, LONG).await, Reservation::Busy);
}

pub async fn who_lost_a_reservation_can_do_it_no_harm(store: &dyn IdempotencyStore) {
    let id = EventId::generate();
    let late = own(store, &id, SHORT).await;
    let owner = own_soon(store, &id).await;
    assert!(!store.renew(CONSUMER, &id, &late, SHORT).await.unwrap());
    assert!(!store.confirm(CONSUMER, &id, &late, LONG).await.unwrap());
    store.release(CONSUMER, &id, &late).await.unwrap();
    assert_eq!(reserve(store, &id, LONG).await, Reservation::Busy);
    assert!(store.confirm(CONSUMER, &id, &owner, LONG).await.unwrap());
}

pub async fn an_effect_whose_lease_ran_out_unnoticed_is_done(store: &dyn IdempotencyStore) {
    let id = EventId::generate();
    let owner = own(store, &id, SHORT).await;
    let blink = Duration::from_millis(1);
    eventually("the lease runs out", async || {
        let held = store.renew(CONSUMER, &id, &owner, blink).await.unwrap();
        (!held).then_some(()).ok_or("held")
    })
    .await;
    assert!(store.confirm(CONSUMER, &id, &owner, LONG).await.unwrap());
    assert_eq!(reserve(store, &id, LONG).await, Reservation::Done);
}

pub async fn what_is_done_stays_done_until_its_time_is_over(store: &dyn IdempotencyStore) {
    let (kept, short) = (EventId::generate(), EventId::generate());
    let owner = own(store, &kept, LONG).await;
    assert!(store.confirm(CONSUMER, &kept, &owner, LONG).await.unwrap());
    assert!(!store.confirm(CONSUMER, &kept, &owner, SHORT).await.unwrap());
    assert!(!store.renew(CONSUMER, &kept, &owner, SHORT).await.unwrap());
    store.release(CONSUMER, &kept, &owner).await.unwrap();
    let owner = own(store, &short, LONG).await;
    assert!(
        store
            .confirm(CONSUMER, &short, &owner, SHORT)
            .await
            .unwrap()
    );
    own_soon(store, &short).await;
    assert_eq!(reserve(store, &kept, LONG).await, Reservation::Done);
}

pub async fn of_many_at_once_exactly_one_is_first(store: &dyn IdempotencyStore) {
    let id = EventId::generate();
    let reservations = join_all((0..100).map(|_| reserve(store, &id, LONG))).await;
    let busy = reservations.iter().filter(|r| **r == Reservation::Busy);
    assert_eq!(busy.count(), 99, "{reservations:?}");
    let first = |r: &Reservation| matches!(r, Reservation::First(_));
    assert!(reservations.iter().any(first));
}

pub async fn consumers_are_told_apart_whatever_their_names(store: &dyn IdempotencyStore) {
    for (consumer, id) in [
        ("a", "b:c"),
        ("a:b", "c"),
        ("a%3Ab", "c"),
        ("a%253Ab", "c"),
        ("", "a:b:c"),
        ("a b\r\n", "c"),
        ("a\0", "é"),
        ("*", "{a}"),
    ] {
        let reserved = store.reserve(consumer, &id.into(), LONG).await.unwrap();
        let first = matches!(reserved, Reservation::First(_));
        assert!(first, "{consumer:?} {id:?}: {reserved:?}");
    }
}
