//! The contract of a [`ManagedStore`] as tests. A store brings a [`StoreWorld`] and runs the
//! cases that its layout is for: `store_conformance!(world, records dead)`, with `order` where keys keep their
//! order, `overtaking` where they need not, `lease` where claims are leases, and `hold` where they are not.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

pub mod audit;
pub mod dead;
pub mod find;
pub mod hold;
pub mod lease;
pub mod order;
pub mod overtaking;
pub mod parked;
pub mod records;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{
    Actor, Claim, Fate, ManagedStore, OnDead, Record, RecordFilter, RecordId, Settled, Share,
    StoredRecord, Want,
};

use crate::eventually;

/// An empty outbox under test, and a way to look into its table.
#[async_trait]
pub trait StoreWorld: Send + Sync {
    /// The outbox as one relay opens it. Each call is another relay.
    fn relay(&self, settings: Settings) -> Arc<dyn ManagedStore>;

    /// Commits a record. Keys are short words; a world may map them to what its column holds. Types are PackFinderz'.
    async fn insert_like(
        &self,
        event_type: &str,
        topic: &str,
        key: Option<&str>,
        number: u32,
    ) -> RecordId;

    async fn insert(&self, key: Option<&str>, number: u32) -> RecordId {
        self.insert_like("order_created", "orders", key, number)
            .await
    }

    /// From now on the database refuses to update or delete a record or its troubles.
    async fn refuse_changes(&self);

    async fn drop_audit(&self);

    /// What the table says of a record.
    async fn look(&self, id: &RecordId) -> Seen;

    /// Makes a published record look as if that had been `ago`.
    async fn age(&self, id: &RecordId, ago: Duration);

    /// Whether published records stay until they are purged.
    fn keeps_published(&self) -> bool;

    /// Whether published records are purged one by one, and not a segment at a time.
    fn purges_single_records(&self) -> bool {
        true
    }

    /// Whether a dropped claim is free at once, and not only when its lease ends.
    fn frees_dropped_claims(&self) -> bool;
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub max_attempts: u32,
    pub on_dead: OnDead,
    pub lease: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        // Long enough to outlast a test: only tests of leases wait for their end.
        Self {
            max_attempts: 3,
            on_dead: OnDead::Park,
            lease: Duration::from_secs(300),
        }
    }
}

/// A record as its table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub state: State,
    pub attempts: u32,
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// To be published, now or later, or being published.
    Pending,
    Published,
    Dead,
    Gone,
}

/// Every preset that all databases know, ordered and not. `$world(preset, overrides)` makes a world.
#[macro_export]
macro_rules! preset_conformance {
    ($world:path) => { $crate::preset_conformance!(@presets $world,
        packfinderz "packfinderz" "none" overtaking hold;
        packfinderz_by_key "packfinderz" "key" order hold;
        talkie "talkie" "none" overtaking lease;
        talkie_by_key "talkie" "key" order lease;
        polyshop "polyshop" "none" overtaking hold;
        polyshop_by_key "polyshop" "key" order hold;
        gopipe "gopipe" "none" overtaking hold;
        debezium "debezium" "none" overtaking hold;
        debezium_by_key "debezium" "key" order hold;
    ); };
    (@presets $world:path, $($name:ident $preset:literal $ordering:literal $($suite:ident)+;)+) => { $(
        mod $name {
            $crate::store_conformance!(
                $world($preset, concat!("ordering = '", $ordering, "'")), records dead $($suite)+);
        }
    )+ };
}

/// Makes a test of every case. The world is an expression that makes a new one each time.
#[macro_export]
macro_rules! store_conformance {
    ($world:expr, $($suite:ident)+) => { $($crate::store_conformance!(@suite $suite, $world);)+ };
    (@suite records, $world:expr) => { $crate::store_conformance!(@cases records, $world,
        records_come_oldest_first_and_no_more_than_asked_for
        a_claimed_record_is_invisible_to_a_second_relay
        a_published_record_is_never_claimed_again
        a_released_record_is_as_if_it_had_never_been_claimed
        what_a_claim_went_on_from_is_published_whatever_becomes_of_the_rest
        a_failed_record_waits_for_its_time
        a_record_that_waits_without_an_attempt_is_left_out_until_its_time
        attempts_add_up_over_claims
        every_fate_of_a_claim_is_written
        fates_must_match_the_records
        the_longest_error_is_stored
        an_empty_outbox_gives_no_claim
        the_backlog_is_what_the_table_holds
        purging_is_bounded_and_spares_what_is_not_published
        claims_of_many_workers_never_share_a_record
    ); $crate::store_conformance!(@cases find, $world,
        every_record_is_in_one_state_and_found_by_it
        a_record_tells_what_became_of_it
        a_record_in_flight_is_pending_and_found_without_waiting
        a_resent_record_is_pending_with_its_error_marked
        every_filter_finds_what_it_says_alone_and_with_others
        what_is_in_no_record_is_not_found
        what_cannot_be_asked_for_is_refused
        pages_neither_skip_nor_repeat_while_records_come_and_go
        the_last_page_says_that_it_is
        what_is_read_is_what_a_claim_gives
    ); };
    (@suite dead, $world:expr) => { $crate::store_conformance!(@cases dead, $world,
        a_dead_record_is_never_claimed_again
        dead_records_are_listed_oldest_first_and_by_filter
        a_resent_record_is_published_and_keeps_its_history
        a_discarded_record_is_gone
        only_dead_records_are_resent_or_discarded
        a_record_dies_once_its_attempts_are_used_up
    ); $crate::store_conformance!(@cases audit, $world,
        every_change_of_a_record_is_written_down
        what_changes_no_record_is_written_down_on_request
        a_change_that_fails_is_not_written_down
        without_an_audit_table_nothing_is_changed
        two_operators_at_once_count_a_record_once
    ); };
    (@suite order, $world:expr) => { $crate::store_conformance!(@cases order, $world,
        a_key_is_never_in_two_claims
        a_waiting_record_holds_back_its_own_key_only
        a_record_that_waits_without_an_attempt_holds_back_its_own_key_only
        a_dead_record_parks_its_own_key_only
        a_skipped_dead_record_lets_its_key_go_on
        resending_sets_a_parked_key_free_in_order
        discarding_sets_a_parked_key_free
        a_record_without_a_key_waits_for_nobody
        shares_split_the_keys_and_leave_none_out
        a_key_keeps_its_order_over_failures_and_crashes_of_several_relays
    ); $crate::store_conformance!(@cases parked, $world,
        keys_that_are_held_up_are_named_with_what_waits_behind
        a_key_with_several_dead_records_is_named_once_by_the_first
        a_resent_run_keeps_the_order_of_its_keys
    ); };
    (@suite overtaking, $world:expr) => { $crate::store_conformance!(@cases overtaking, $world,
        two_relays_hold_records_of_one_key_at_once
    ); $crate::store_conformance!(@suite unordered, $world); };
    // Where keys are held together even without order, as a stream's are.
    (@suite unordered, $world:expr) => { $crate::store_conformance!(@cases overtaking, $world,
        a_waiting_record_holds_nobody_back
        a_dead_record_parks_nothing
    ); $crate::store_conformance!(@cases parked, $world,
        without_order_no_key_is_held_up
    ); };
    (@suite hold, $world:expr) => { $crate::store_conformance!(@cases hold, $world,
        a_dropped_claim_is_free_at_once
        a_claim_that_is_cut_short_leaves_nothing_behind
    ); };
    (@suite lease, $world:expr) => { $crate::store_conformance!(@cases lease, $world,
        a_dropped_claim_is_free_when_its_lease_ends
        a_lapsed_claim_overwrites_nobody
        a_lapsed_claim_that_nobody_took_over_is_still_settled
        a_claim_lapses_before_its_lease_ends
    ); };
    (@cases $suite:ident, $world:expr, $($case:ident)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::conformance::store::$suite::$case(&$world.await).await;
        }
    )+ };
}

async fn insert_all(world: &dyn StoreWorld, keys: &[&str]) -> Vec<RecordId> {
    let mut ids = Vec::new();
    for (number, key) in (0..).zip(keys) {
        ids.push(world.insert(Some(key), number).await);
    }
    ids
}

fn want(limit: u32) -> Want {
    Want {
        limit,
        bytes: usize::MAX,
        share: Share::ALL,
    }
}

async fn claim(store: &dyn ManagedStore, limit: u32) -> Option<Box<dyn Claim>> {
    store.claim(want(limit)).await.expect("claims")
}

/// A claim that is there sooner or later.
async fn claim_soon(store: &dyn ManagedStore, limit: u32) -> Box<dyn Claim> {
    eventually("records can be claimed", async || {
        claim(store, limit).await.ok_or("nothing")
    })
    .await
}

async fn claim_now(store: &dyn ManagedStore, limit: u32) -> Box<dyn Claim> {
    claim(store, limit)
        .await
        .expect("there are records to claim")
}

fn ids(claim: &dyn Claim) -> Vec<RecordId> {
    claim
        .records()
        .iter()
        .map(|record| record.id.clone())
        .collect()
}

async fn settle(claim: Box<dyn Claim>, fate: impl Fn(&Record) -> Fate) -> Settled {
    let fates: Vec<Fate> = claim.records().iter().map(fate).collect();
    claim.settle(&fates).await.expect("settles")
}

/// Claims everything and gives it this fate.
async fn settle_all(store: &dyn ManagedStore, fate: impl Fn(&Record) -> Fate) -> Vec<RecordId> {
    let claim = claim_soon(store, 1000).await;
    let ids = ids(&*claim);
    settle(claim, fate).await;
    ids
}

fn retry(record: &Record, after: Duration) -> Fate {
    Fate::Retry {
        attempts: record.attempts + 1,
        after,
        error: "broker said no".into(),
    }
}

fn dead(record: &Record) -> Fate {
    Fate::Dead {
        attempts: record.attempts + 1,
        error: "can never work".into(),
    }
}

/// Who changes things in these tests.
fn operator() -> Actor {
    Actor("night shift".into())
}

async fn find(store: &dyn ManagedStore, filter: &RecordFilter) -> Vec<StoredRecord> {
    let page = store.find(filter, None, 1000).await.expect("finds");
    assert!(page.next.is_none(), "more than a test makes");
    page.items
}
