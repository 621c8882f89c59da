//! Which partitions take no writes, and so where a message may go.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::{Message, PublishError, Topic};

use super::cluster::TopicState;
use crate::parts::{Part, Parts};

/// Of so many topics we remember how many partitions they have.
const TOPICS_MAX: usize = 10_000;

/// The parts of a cluster that are in trouble.
#[derive(Debug)]
pub(super) struct Places {
    parts: Parts,
    /// How many partitions topics have of which one was in trouble.
    partitions: Mutex<HashMap<Topic, i32>>,
    /// Whether keys choose their partitions in the way that we know. Else a partition cannot be told from its topic.
    knows_partitioner: bool,
}

/// Where a message may go.
#[derive(Debug)]
pub(super) enum Place {
    /// librdkafka chooses.
    Anywhere,
    /// It has no key, and some partitions are closed.
    At(i32),
    Closed(Part, PublishError),
}

impl Places {
    pub(super) fn new(knows_partitioner: bool) -> Self {
        Self {
            parts: Parts::default(),
            partitions: Mutex::default(),
            knows_partitioner,
        }
    }

    pub(super) fn all_open(&self) -> bool {
        self.parts.is_well()
    }

    /// `index` spreads messages without a key over the partitions that are left.
    pub(super) fn of(&self, index: usize, message: &Message) -> Place {
        if self.all_open() {
            return Place::Anywhere;
        }
        match self.through(Part::topic(&message.topic)) {
            Place::Anywhere => {}
            closed => return closed,
        }
        let Some(count) = self.counts().get(&message.topic).copied() else {
            return Place::Anywhere;
        };
        match &message.key {
            Some(key) => self.through(partition(
                &message.topic,
                partition_of(key.as_bytes(), count),
            )),
            None => self.around(index, &message.topic, count),
        }
    }

    fn through(&self, part: Part) -> Place {
        match self.parts.closed(&part) {
            None => Place::Anywhere,
            Some(error) => Place::Closed(part, error),
        }
    }

    fn around(&self, index: usize, topic: &Topic, count: i32) -> Place {
        let closed = self.parts.in_trouble(|part| part.topic == *topic);
        let Some(first) = closed.first() else {
            return Place::Anywhere;
        };
        let is_open = |number: &i32| closed.iter().all(|part| part.partition != Some(*number));
        let open: Vec<i32> = (0..count).filter(is_open).collect();
        if open.is_empty() {
            return self.through(first.clone());
        }
        Place::At(open[index % open.len()])
    }

    pub(super) fn is_closed(&self, topic: &Topic, number: i32) -> bool {
        let parts = [Part::topic(topic), partition(topic, number)];
        parts.iter().any(|part| self.parts.closed(part).is_some())
    }

    /// The part that a message is to try again, and for how long, if one is due. Without a key that may be any
    /// partition of its topic.
    pub(super) fn try_again(&self, index: usize, message: &Message) -> Option<(Part, Duration)> {
        let closed = match self.of(index, message) {
            Place::Anywhere => return None,
            Place::Closed(part, _) if part.partition.is_none() || message.key.is_some() => {
                vec![part]
            }
            Place::At(_) | Place::Closed(..) => {
                self.parts.in_trouble(|part| part.topic == message.topic)
            }
        };
        let mut closed = closed.into_iter();
        closed.find_map(|part| self.parts.try_again(&part).map(|time| (part, time)))
    }

    /// Remembers what is needed to know a partition's messages by their keys.
    pub(super) fn learn(&self, state: &TopicState) {
        if self.knows_partitioner && state.partitions > 0 {
            let mut counts = self.counts();
            if counts.len() >= TOPICS_MAX {
                counts.clear();
            }
            counts.insert(state.topic.clone(), state.partitions);
        }
    }

    /// A partition whose topic is not known well enough closes the topic.
    pub(super) fn failed(&self, topic: &Topic, number: Option<i32>, reason: &str) -> PublishError {
        let is_known = self.counts().contains_key(topic);
        match number {
            Some(number) if is_known => self.parts.failed(&partition(topic, number), reason),
            Some(number) => {
                let reason = format!("partition {number}: {reason}");
                self.parts.failed(&Part::topic(topic), &reason)
            }
            None => self.parts.failed(&Part::topic(topic), reason),
        }
    }

    /// Whether the cluster says that the part takes no writes, which is remembered. Where we do not know which
    /// partition a message would go to, each of them needs a leader.
    pub(super) fn has_failed(&self, part: &Part, state: &TopicState) -> bool {
        let leaderless = state.leaderless().first().copied();
        let number = part
            .partition
            .or(leaderless.filter(|_| !self.knows_partitioner));
        let trouble = state.trouble(number);
        if let Some(reason) = &trouble {
            self.failed(&part.topic, number, reason);
        }
        trouble.is_some()
    }

    pub(super) fn recovered(&self, part: &Part) {
        self.parts.recovered(part);
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Topic, i32>> {
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn partition(topic: &Topic, number: i32) -> Part {
    Part {
        topic: topic.clone(),
        partition: Some(number),
    }
}

/// As librdkafka's `murmur2_random` and Java's default do it.
fn partition_of(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & 0x7fff_ffff).cast_signed() % partitions
}

fn murmur2(key: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    // Lengths wrap in the original too, which has 32 bits.
    let mut hash = SEED ^ key.len() as u32;
    let mut chunks = key.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        k = k.wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use postrider_core::MessageKey;

    use super::*;

    fn message(key: Option<&str>) -> Message {
        Message {
            topic: Topic::from("orders"),
            key: key.map(MessageKey::from),
            ordered: true,
            payload: None,
            headers: vec![],
        }
    }

    fn places(knows_partitioner: bool) -> Places {
        let places = Places::new(knows_partitioner);
        places.learn(&TopicState::of(Topic::from("orders"), 3));
        places.failed(&Topic::from("orders"), Some(1), "no leader");
        places
    }

    #[test]
    fn hashes_are_those_of_javas_client() {
        // From the tests of Kafka's own Utils.murmur2.
        let known: [(&str, i32); 4] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("abc", 479_470_107),
        ];
        for (key, expected) in known {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
    }

    #[test]
    fn a_closed_partition_closes_its_keys_only() {
        let places = places(true);
        for number in 0..100 {
            let key = number.to_string();
            let found = places.of(0, &message(Some(&key)));
            match partition_of(key.as_bytes(), 3) {
                1 => assert!(matches!(found, Place::Closed(..)), "{found:?}"),
                _ => assert!(matches!(found, Place::Anywhere), "{found:?}"),
            }
        }
        for index in 0..10 {
            let found = places.of(index, &message(None));
            assert!(matches!(found, Place::At(0 | 2)), "{found:?}");
        }
        let other = Message {
            topic: Topic::from("others"),
            ..message(Some("a"))
        };
        assert!(matches!(places.of(0, &other), Place::Anywhere));
    }

    #[test]
    fn with_a_partitioner_of_ones_own_a_partition_is_its_topic() {
        let (places, topic) = (places(false), Topic::from("orders"));
        for key in [Some("a"), None] {
            match places.of(0, &message(key)) {
                Place::Closed(part, error) => {
                    assert_eq!(part, Part::topic(&topic));
                    let told = "topic orders takes no writes: partition 1: no leader";
                    assert_eq!(error.to_string(), told);
                }
                found => panic!("{found:?}"),
            }
        }
        assert!(places.is_closed(&topic, 1) && places.is_closed(&topic, 2));
        let part = Part::topic(&topic);
        let well = TopicState::of(topic, 3);
        assert!(places.has_failed(&part, &well.clone().without_leader(2)));
        assert!(!places.has_failed(&part, &well));
    }

    #[test]
    fn a_topic_with_one_partition_left_is_worth_a_try() {
        let (places, topic) = (places(true), Topic::from("orders"));
        let part = Part::topic(&topic);
        let mut state = TopicState::of(topic, 2).without_leader(0);
        assert!(!places.has_failed(&part, &state));
        state = state.without_leader(1);
        assert!(places.has_failed(&part, &state));
    }
}
