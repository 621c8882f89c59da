//! The contract of [`InboxStore`] as tests: `inbox_conformance!(world)`.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

use async_trait::async_trait;
use futures::future::join_all;
use postrider_core::Admission::{Duplicate, First};
use postrider_core::{Admission, Arrival, EventId, InboxStore, Transactions};

use crate::eventually;

/// An empty inbox under test, and a way to look into its table.
#[async_trait]
pub trait InboxWorld: Send + Sync {
    type Transactions: Transactions;
    type Inbox: InboxStore<<Self::Transactions as Transactions>::Tx>;

    fn transactions(&self) -> &Self::Transactions;
    fn inbox(&self) -> &Self::Inbox;

    /// Whether consumers that share the inbox are told apart.
    fn tells_consumers_apart(&self) -> bool;

    /// How many events are entered, in committed transactions.
    async fn entries(&self) -> u64;

    /// How many statements wait for another transaction at the moment.
    async fn waiting(&self) -> u64;
}

type Tx<W> = <<W as InboxWorld>::Transactions as Transactions>::Tx;

const CONSUMER: &str = "billing";

/// Makes a test of every case. The world is an expression that makes a new one each time.
#[macro_export]
macro_rules! inbox_conformance {
    ($world:expr) => { $crate::inbox_conformance!(@cases $world,
        an_event_is_first_once_and_a_duplicate_spoils_nothing
        a_transaction_that_was_rolled_back_or_dropped_has_entered_nothing
        an_event_that_comes_twice_in_one_call_is_first_once
        admissions_stand_in_the_order_of_their_arrivals
        a_rival_waits_for_the_open_transaction_and_loses_when_it_commits
        a_rival_waits_for_the_open_transaction_and_wins_when_it_ends_otherwise
        of_many_transactions_at_once_exactly_one_is_first
        calls_that_share_events_in_any_order_do_not_lock_each_other
        consumers_are_told_apart_where_the_table_can
        no_arrivals_are_no_admissions
    ); };
    (@cases $world:expr, $($case:ident)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::conformance::inbox::$case(&$world.await).await;
        }
    )+ };
}

async fn begin<W: InboxWorld>(world: &W) -> Tx<W> {
    world.transactions().begin().await.unwrap()
}

async fn commit<W: InboxWorld>(world: &W, tx: Tx<W>) {
    world.transactions().commit(tx).await.unwrap();
}

async fn admit<W: InboxWorld>(
    world: &W,
    tx: &mut Tx<W>,
    consumer: &str,
    ids: &[&EventId],
) -> Vec<Admission> {
    let arrivals: Vec<Arrival<'_>> = ids
        .iter()
        .map(|event_id| Arrival {
            event_id,
            event_type: Some("order_created"),
            source: Some("shop"),
        })
        .collect();
    world.inbox().admit(tx, consumer, &arrivals).await.unwrap()
}

/// In a transaction of its own.
async fn admitted<W: InboxWorld>(world: &W, consumer: &str, ids: &[&EventId]) -> Vec<Admission> {
    let mut tx = begin(world).await;
    let admissions = admit(world, &mut tx, consumer, ids).await;
    commit(world, tx).await;
    admissions
}

async fn somebody_waits<W: InboxWorld>(world: &W) {
    eventually("the rival waits", async || {
        (world.waiting().await > 0).then_some(()).ok_or("nobody")
    })
    .await;
}

pub async fn an_event_is_first_once_and_a_duplicate_spoils_nothing<W: InboxWorld>(world: &W) {
    let (old, new) = (EventId::generate(), EventId::generate());
    assert_eq!(admitted(world, CONSUMER, &[&old]).await, [First]);
    let mut tx = begin(world).await;
    assert_eq!(admit(world, &mut tx, CONSUMER, &[&old]).await, [Duplicate]);
    assert_eq!(admit(world, &mut tx, CONSUMER, &[&new]).await, [First]);
    assert_eq!(admit(world, &mut tx, CONSUMER, &[&new]).await, [Duplicate]);
    commit(world, tx).await;
    assert_eq!(world.entries().await, 2);
}

pub async fn a_transaction_that_was_rolled_back_or_dropped_has_entered_nothing<W: InboxWorld>(
    world: &W,
) {
    let id = EventId::generate();
    let mut tx = begin(world).await;
    assert_eq!(admit(world, &mut tx, CONSUMER, &[&id]).await, [First]);
    world.transactions().rollback(tx).await.unwrap();
    let mut tx = begin(world).await;
    assert_eq!(admit(world, &mut tx, CONSUMER, &[&id]).await, [First]);
    drop(tx);
    assert_eq!(admitted(world, CONSUMER, &[&id]).await, [First]);
}

pub async fn an_event_that_comes_twice_in_one_call_is_first_once<W: InboxWorld>(world: &W) {
    let (a, b) = (EventId::generate(), EventId::generate());
    let admissions = admitted(world, CONSUMER, &[&b, &a, &b, &b, &a]).await;
    assert_eq!(admissions, [First, First, Duplicate, Duplicate, Duplicate]);
    assert_eq!(world.entries().await, 2);
}

pub async fn admissions_stand_in_the_order_of_their_arrivals<W: InboxWorld>(world: &W) {
    let ids: Vec<EventId> = (0..100).map(|_| EventId::generate()).collect();
    let known: Vec<&EventId> = ids.iter().step_by(3).collect();
    admitted(world, CONSUMER, &known).await;
    let backwards: Vec<&EventId> = ids.iter().rev().collect();
    let admissions = admitted(world, CONSUMER, &backwards).await;
    for (id, admission) in backwards.into_iter().zip(admissions) {
        let expected = if known.contains(&id) {
            Duplicate
        } else {
            First
        };
        assert_eq!(admission, expected);
    }
}

pub async fn a_rival_waits_for_the_open_transaction_and_loses_when_it_commits<W: InboxWorld>(
    world: &W,
) {
    let id = EventId::generate();
    let mut tx = begin(world).await;
    admit(world, &mut tx, CONSUMER, &[&id]).await;
    let first_commits = async {
        somebody_waits(world).await;
        commit(world, tx).await;
    };
    let ids = [&id];
    let (rival, ()) = tokio::join!(admitted(world, CONSUMER, &ids), first_commits);
    assert_eq!(rival, [Duplicate]);
}

pub async fn a_rival_waits_for_the_open_transaction_and_wins_when_it_ends_otherwise<
    W: InboxWorld,
>(
    world: &W,
) {
    for dropped in [false, true] {
        let id = EventId::generate();
        let mut tx = begin(world).await;
        admit(world, &mut tx, CONSUMER, &[&id]).await;
        let first_gives_up = async {
            somebody_waits(world).await;
            if dropped {
                drop(tx);
            } else {
                world.transactions().rollback(tx).await.unwrap();
            }
        };
        let ids = [&id];
        let (rival, ()) = tokio::join!(admitted(world, CONSUMER, &ids), first_gives_up);
        assert_eq!(rival, [First]);
    }
}

pub async fn of_many_transactions_at_once_exactly_one_is_first<W: InboxWorld>(world: &W) {
    let id = EventId::generate();
    let ids = [&id];
    let rivals = (0..12).map(|_| admitted(world, CONSUMER, &ids));
    let admissions = join_all(rivals).await.concat();
    let first = admissions.iter().filter(|admission| **admission == First);
    assert_eq!(first.count(), 1, "{admissions:?}");
    assert_eq!(world.entries().await, 1);
}

pub async fn calls_that_share_events_in_any_order_do_not_lock_each_other<W: InboxWorld>(world: &W) {
    for _ in 0..10 {
        let ids: Vec<EventId> = (0..50).map(|_| EventId::generate()).collect();
        let forwards: Vec<&EventId> = ids.iter().collect();
        let backwards: Vec<&EventId> = ids.iter().rev().collect();
        let calls = [&forwards, &backwards, &forwards, &backwards]
            .map(|ids| admitted(world, CONSUMER, ids));
        let admissions = join_all(calls).await.concat();
        let first = admissions.iter().filter(|admission| **admission == First);
        assert_eq!(first.count(), ids.len());
    }
}

pub async fn consumers_are_told_apart_where_the_table_can<W: InboxWorld>(world: &W) {
    // A4-05
    let id = EventId::generate();
    assert_eq!(admitted(world, CONSUMER, &[&id]).await, [First]);
    let expected = if world.tells_consumers_apart() {
        First
    } else {
        Duplicate
    };
    assert_eq!(admitted(world, "shipping", &[&id]).await, [expected]);
}

pub async fn no_arrivals_are_no_admissions<W: InboxWorld>(world: &W) {
    assert_eq!(admitted(world, CONSUMER, &[]).await, []);
}
