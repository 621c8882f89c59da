//! The contract of [`Readback`] as tests: `readback_conformance!(world)`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use postrider_core::{KeptMessage, Readback, Timestamp, Topic};

use super::publisher::{PublisherWorld, interleaved, publish_until_taken};

/// A broker that can be read back, and whose publisher is under the same roof.
pub trait ReadbackWorld: PublisherWorld {
    fn readback(&self) -> Arc<dyn Readback>;
}

const BEGINNING: Timestamp = Timestamp::from_micros(0);
const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Everything of the range, and whether some of it is gone.
async fn read_all(
    world: &impl ReadbackWorld,
    topic: &Topic,
    since: Timestamp,
    until: Option<Timestamp>,
) -> Vec<KeptMessage> {
    let reading = world.readback().read_back(topic, since, until).await;
    let mut reading = reading.expect("broker answers").expect("topic exists");
    assert!(!reading.is_cut(), "nothing was deleted");
    let (total, mut all) = (reading.total(), Vec::new());
    loop {
        let messages = reading.next().await.expect("broker answers");
        if messages.is_empty() {
            assert_eq!(total, all.len() as u64);
            return all;
        }
        all.extend(messages);
    }
}

/// A time that no message before has, and a later one has again: brokers count milliseconds.
fn tick() -> Timestamp {
    let millis = |time: Timestamp| time.as_micros() / 1_000;
    let before = millis(Timestamp::now());
    loop {
        let now = Timestamp::now();
        if millis(now) > before {
            return Timestamp::from_micros(millis(now) * 1_000);
        }
        std::thread::yield_now();
    }
}

/// Numbers by key, in the order in which they came.
fn numbers(messages: &[KeptMessage]) -> BTreeMap<String, Vec<usize>> {
    let mut numbers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for message in messages {
        let key = message.key.as_ref().expect("a key").to_string();
        let number = message.header("number").expect("a number");
        numbers
            .entry(key)
            .or_default()
            .push(number.parse().expect("a number"));
    }
    numbers
}

fn each_key_has(numbers: std::ops::Range<usize>) -> BTreeMap<String, Vec<usize>> {
    let keys = KEYS.iter().map(|key| (*key).to_owned());
    keys.map(|key| (key, numbers.clone().collect())).collect()
}

pub async fn what_was_published_between_two_times_comes_back(world: impl ReadbackWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let mut times = Vec::new();
    for first in [0, 10, 20] {
        times.push(tick());
        publish_until_taken(&*publisher, interleaved(&topic, &KEYS, first, 10)).await;
    }
    times.push(tick());
    let all = read_all(&world, &topic, BEGINNING, None).await;
    assert_eq!(numbers(&all), each_key_has(0..30));
    let middle = read_all(&world, &topic, times[1], Some(times[2])).await;
    assert_eq!(numbers(&middle), each_key_has(10..20));
    let end = read_all(&world, &topic, times[2], None).await;
    assert_eq!(numbers(&end), each_key_has(20..30));
    let times_are_kept = middle.iter().all(|message| {
        let time = message.time.expect("a time");
        times[1] <= time && time < times[2]
    });
    assert!(times_are_kept, "{middle:?}");
    assert_eq!(read_all(&world, &topic, times[3], None).await, []);
}

pub async fn a_long_topic_comes_back_whole_and_once(world: impl ReadbackWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    for first in (0..2_000).step_by(500) {
        publish_until_taken(&*publisher, interleaved(&topic, &KEYS, first, 500)).await;
    }
    let all = read_all(&world, &topic, BEGINNING, None).await;
    assert_eq!(numbers(&all), each_key_has(0..2_000));
    let places: BTreeSet<_> = all
        .iter()
        .map(|kept| (kept.partition, kept.offset))
        .collect();
    assert_eq!(places.len(), all.len());
}

pub async fn a_topic_that_is_not_there_is_none(world: impl ReadbackWorld) {
    let (readback, topic) = (world.readback(), world.unknown_topic());
    let reading = readback.read_back(&topic, BEGINNING, None).await;
    assert!(reading.expect("broker answers").is_none());
}

/// One test per case, each with a world from `$world().await`.
#[macro_export]
macro_rules! readback_conformance {
    ($world:path) => {
        $crate::readback_cases! { $world:
            what_was_published_between_two_times_comes_back
            a_long_topic_comes_back_whole_and_once
            a_topic_that_is_not_there_is_none
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! readback_cases {
    ($world:path: $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::conformance::readback::$case($world().await).await;
        }
    )*};
}
