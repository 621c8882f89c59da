//! The contract of [`Subscription`] as tests. A broker brings a [`SubscriptionWorld`] and runs every case:
//! `subscription_conformance!(world)`, and `subscription_outage_conformance!(world)` with a server of its own.

mod bounds;
mod closing;
mod content;
mod order;
mod outage;
mod redelivery;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::{Delivery, Message, Publisher, SubscribeError, Subscription, Topic};

pub use bounds::*;
pub use closing::*;
pub use content::*;
pub use order::*;
pub use outage::*;
pub use redelivery::*;

use super::publisher::{Seen, first_occurrences, numbered, publish_until_taken};

/// How long deliveries may take: a group that settles, a lease that runs out, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between an error and the next call.
const PAUSE: Duration = Duration::from_millis(20);
/// How long nothing must come where nothing may come.
const QUIET: Duration = Duration::from_millis(700);
/// For closing with nothing in hand, or with what is settled soon.
const CLOSE_DEADLINE: Duration = Duration::from_secs(20);
/// How much longer than its deadline closing may take: the broker is told, and the machine is busy.
const CLOSE_OVERRUN_MAX: Duration = Duration::from_secs(8);
/// A bound that no case but one reaches.
const ROOMY: usize = 1_000;

/// A broker under test.
#[async_trait]
pub trait SubscriptionWorld: Send + Sync {
    /// An empty topic of the test's own, with a group that begins at its first message.
    async fn fresh_topic(&self) -> Topic;

    fn publisher(&self) -> Arc<dyn Publisher>;

    /// One more member of the topic's group, with order per key and this bound for what is in flight.
    async fn subscribe(&self, topic: &Topic, in_flight_max: usize) -> Box<dyn Subscription>;

    /// Whether a message without a body is something else than one with an empty body.
    fn has_tombstones(&self) -> bool;

    /// Whether keys and header values may be any bytes.
    fn keeps_any_bytes(&self) -> bool;

    /// Whether `attempt` counts up after a nack.
    fn counts_attempts(&self) -> bool;
}

/// A world whose server can be taken away.
#[async_trait]
pub trait SubscriptionOutageWorld: SubscriptionWorld {
    /// Ends the server at once.
    async fn stop(&mut self);

    /// Starts it again, with its topics and groups.
    async fn start(&mut self);

    /// Whether it then has the messages that it had.
    fn keeps_messages(&self) -> bool;
}

/// Messages of a key arrive in this order.
async fn publish(world: &impl SubscriptionWorld, messages: Vec<Message>) {
    publish_until_taken(&*world.publisher(), messages).await;
}

/// Messages that do not wait for each other, each with a key of its own.
pub fn independent(topic: &Topic, numbers: Range<usize>) -> Vec<Message> {
    numbers
        .map(|number| numbered(topic, &format!("key-{number}"), number))
        .collect()
}

/// The next deliveries, after as many errors as it takes.
async fn take(subscription: &dyn Subscription, max: usize) -> Vec<Delivery> {
    let start = Instant::now();
    loop {
        let left = PATIENCE.saturating_sub(start.elapsed());
        match tokio::time::timeout(left, subscription.next(max)).await {
            Ok(Ok(batch)) => {
                assert!(!batch.is_empty() && batch.len() <= max, "{}", batch.len());
                return batch;
            }
            Ok(Err(SubscribeError::Closed)) => panic!("closed before its time"),
            // As a consumer does after an error.
            Ok(Err(_)) if start.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
            Ok(Err(error)) => panic!("no delivery within {PATIENCE:?}: {error}"),
            Err(_) => panic!("no delivery within {PATIENCE:?}"),
        }
    }
}

/// Takes until `count` independent deliveries are in hand.
async fn take_exactly(subscription: &dyn Subscription, count: usize) -> Vec<Delivery> {
    let mut held = Vec::new();
    while held.len() < count {
        held.extend(take(subscription, count - held.len()).await);
    }
    held
}

/// Takes and acknowledges until each key was seen up to the number before `until`, and gives all that came.
async fn drain(subscription: &dyn Subscription, keys: &[&str], until: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let last = |seen: &[Seen], key: &str| {
        let by_key = first_occurrences(seen);
        by_key
            .get(key)
            .is_some_and(|numbers| numbers.contains(&(until - 1)))
    };
    while !keys.iter().all(|key| last(&seen, key)) {
        for mut delivery in take(subscription, 100).await {
            seen.push(Seen::of(&delivery.message));
            delivery.ack();
        }
    }
    seen
}

/// Takes and acknowledges what still comes, until nothing does for a while.
async fn take_the_rest(subscription: &dyn Subscription) {
    while let Ok(Ok(mut batch)) = tokio::time::timeout(QUIET, subscription.next(100)).await {
        batch.iter_mut().for_each(Delivery::ack);
    }
}

/// That nothing is given for a while. An error is not a delivery.
async fn assert_silent(subscription: &dyn Subscription, why: &str) {
    if let Ok(Ok(batch)) = tokio::time::timeout(QUIET, subscription.next(100)).await {
        panic!("{why}: {batch:?}");
    }
}

/// That the topic's group has nothing left: what is published now is all that comes.
async fn assert_nothing_is_left(world: &impl SubscriptionWorld, topic: &Topic) {
    let subscription = world.subscribe(topic, ROOMY).await;
    publish(world, vec![numbered(topic, "marker", 0)]).await;
    let mut batch = take(&*subscription, 100).await;
    let keys: Vec<_> = batch.iter().map(key_of).collect();
    assert_eq!(keys, ["marker"], "only what was published now");
    batch.iter_mut().for_each(Delivery::ack);
    assert_silent(&*subscription, "only what was published now").await;
    subscription.close(CLOSE_DEADLINE).await;
}

fn key_of(delivery: &Delivery) -> String {
    let key = delivery.message.key.as_ref();
    key.map(ToString::to_string).unwrap_or_default()
}

fn number_of(delivery: &Delivery) -> usize {
    let header = delivery
        .message
        .headers
        .iter()
        .find(|header| &*header.name == "number");
    let number = header.and_then(|header| header.text());
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

/// The numbers of each key in the order in which they came, repetitions included.
fn numbers_by_key(deliveries: &[Delivery]) -> HashMap<String, Vec<usize>> {
    let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
    for delivery in deliveries {
        let numbers = by_key.entry(key_of(delivery)).or_default();
        numbers.push(number_of(delivery));
    }
    by_key
}

/// One test per case, each with a world from `$world().await`.
#[macro_export]
macro_rules! subscription_conformance {
    ($world:path) => {
        $crate::subscription_cases! { $world:
            deliveries_of_a_key_come_in_order_within_and_across_batches
            a_key_is_in_one_batch_at_a_time
            a_key_is_in_one_hand_at_a_time_with_concurrent_callers
            a_nacked_delivery_holds_back_its_key_and_no_other
            two_members_share_the_work_and_lose_nothing
            a_nacked_delivery_comes_again_but_not_before_its_time
            dropped_deliveries_come_again_in_order
            what_a_crash_leaves_unacknowledged_comes_to_the_next_member
            out_of_order_acknowledgements_and_a_crash_lose_nothing
            what_was_acknowledged_before_a_clean_close_does_not_come_again
            work_in_flight_is_bounded_by_count
            close_waits_for_what_is_in_hand
            close_returns_at_its_deadline_and_gives_back_the_rest
            a_closed_subscription_stays_closed
            cancelling_next_loses_nothing
            bodies_keys_and_headers_arrive_unchanged
            a_subscription_answers_a_ping
        }
    };
}

/// The cases that take the server away.
#[macro_export]
macro_rules! subscription_outage_conformance {
    ($world:path) => {
        $crate::subscription_cases! { $world:
            deliveries_go_on_after_an_outage_without_loss
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! subscription_cases {
    ($world:path: $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::conformance::subscription::$case($world().await).await;
        }
    )*};
}
