//! The partitions that are ours now. The lock is held for moments only; nothing here talks to Kafka.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use postrider_core::Topic;
use rdkafka::error::KafkaResult;
use rdkafka::statistics::Statistics;
use rdkafka::{Offset, TopicPartitionList};

use super::progress::Progress;
use crate::queue::Lot;

#[derive(Default)]
pub(super) struct Assignment {
    topics: HashMap<String, BTreeMap<i32, Partition>>,
}

#[derive(Clone)]
pub(super) struct Partition {
    pub(super) topic: Topic,
    pub(super) lot: Lot,
    pub(super) progress: Arc<Progress>,
    pub(super) paused: bool,
    /// From librdkafka's last statistics.
    marks: Option<Marks>,
}

#[derive(Clone, Copy)]
struct Marks {
    high: i64,
    /// Where the group goes on as long as nothing was fetched.
    begin: i64,
}

impl Partition {
    /// Every assignment is another lot, also of the same partition.
    fn new(topic: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            topic: topic.into(),
            lot: Lot(NEXT.fetch_add(1, Ordering::Relaxed)),
            progress: Arc::default(),
            paused: false,
            marks: None,
        }
    }

    fn lag(&self) -> Option<u64> {
        let marks = self.marks?;
        let position = self.progress.position().unwrap_or(marks.begin);
        Some(u64::try_from(marks.high - position).unwrap_or(0))
    }
}

impl Assignment {
    /// The lots of the partitions, which are new.
    pub(super) fn add(&mut self, partitions: &TopicPartitionList) -> Vec<Lot> {
        let mut lots = Vec::new();
        for element in partitions.elements() {
            let partition = Partition::new(element.topic());
            lots.push(partition.lot);
            self.topics
                .entry(element.topic().to_owned())
                .or_default()
                .insert(element.partition(), partition);
        }
        lots
    }

    pub(super) fn lots_of(&self, partitions: &TopicPartitionList) -> Vec<Lot> {
        let elements = partitions.elements();
        let ours = elements
            .iter()
            .filter_map(|element| self.get(element.topic(), element.partition()));
        ours.map(|partition| partition.lot).collect()
    }

    /// Gives those that were paused.
    pub(super) fn remove(&mut self, partitions: &TopicPartitionList) -> TopicPartitionList {
        let mut paused = TopicPartitionList::new();
        for element in partitions.elements() {
            let topic = self.topics.get_mut(element.topic());
            let removed = topic.and_then(|topic| topic.remove(&element.partition()));
            if removed.is_some_and(|partition| partition.paused) {
                paused.add_partition(element.topic(), element.partition());
            }
        }
        paused
    }

    pub(super) fn clear(&mut self) {
        self.topics.clear();
    }

    pub(super) fn get(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.get(&partition)
    }

    pub(super) fn is_any_paused(&self) -> bool {
        self.topics
            .values()
            .flat_map(BTreeMap::values)
            .any(|partition| partition.paused)
    }

    /// Marks those partitions as paused or not for which `decide` says so, and gives them.
    pub(super) fn pause(
        &mut self,
        pause: bool,
        decide: impl Fn(&Partition) -> bool,
    ) -> TopicPartitionList {
        let mut changed = TopicPartitionList::new();
        for (topic, partitions) in &mut self.topics {
            for (number, partition) in partitions {
                if partition.paused != pause && decide(partition) {
                    partition.paused = pause;
                    changed.add_partition(topic, *number);
                }
            }
        }
        changed
    }

    /// What is done and not committed yet.
    pub(super) fn news(&self) -> KafkaResult<TopicPartitionList> {
        let mut news = TopicPartitionList::new();
        for (topic, partitions) in &self.topics {
            for (number, partition) in partitions {
                if let Some(position) = partition.progress.take_news() {
                    news.add_partition_offset(topic, *number, Offset::Offset(position))?;
                }
            }
        }
        Ok(news)
    }

    /// The same of these partitions only.
    pub(super) fn news_of(
        &self,
        partitions: &TopicPartitionList,
    ) -> KafkaResult<TopicPartitionList> {
        let mut news = TopicPartitionList::new();
        for element in partitions.elements() {
            let (topic, number) = (element.topic(), element.partition());
            let partition = self.get(topic, number);
            if let Some(position) = partition.and_then(|p| p.progress.take_news()) {
                news.add_partition_offset(topic, number, Offset::Offset(position))?;
            }
        }
        Ok(news)
    }

    pub(super) fn note_marks(&mut self, statistics: &Statistics) {
        for (topic, partitions) in &mut self.topics {
            let Some(seen) = statistics.topics.get(topic) else {
                continue;
            };
            for (number, partition) in partitions {
                let seen = seen.partitions.get(number);
                let Some(seen) = seen.filter(|seen| seen.hi_offset >= 0) else {
                    continue;
                };
                let begin = [seen.committed_offset, seen.next_offset, seen.lo_offset];
                partition.marks = Some(Marks {
                    high: seen.hi_offset,
                    begin: begin
                        .into_iter()
                        .find(|offset| *offset >= 0)
                        .unwrap_or(seen.hi_offset),
                });
            }
        }
    }

    /// None as long as no partition's end is known.
    pub(super) fn lag(&self) -> Option<u64> {
        let all = self.topics.values().flat_map(BTreeMap::values);
        all.filter_map(Partition::lag).reduce(u64::saturating_add)
    }
}
