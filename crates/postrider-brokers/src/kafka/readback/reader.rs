//! A consumer of its own for one topic, with a beginning and an end for each partition. Blocks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::{KeptMessage, MessageKey, ReadbackError, Timestamp, Topic, text};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::super::log;
use super::super::subscription::headers;
use super::{REACH_TIMEOUT, TIMEOUT, unavailable};

/// Most messages of one call.
const CHUNK: usize = 2_000;
/// How long a call collects messages before it gives what it has.
const COLLECT: Duration = Duration::from_millis(200);

pub(super) struct Reader {
    consumer: BaseConsumer<Complaints>,
    /// Where the cluster was looked for.
    servers: String,
    topic: Topic,
    /// The partitions that are not read to their end.
    open: BTreeMap<i32, Extent>,
    total: u64,
    cut: bool,
}

/// The offsets of a partition that are read.
#[derive(Clone, Copy)]
struct Extent {
    first: i64,
    end: i64,
}

impl Reader {
    pub(super) fn open(
        config: &ClientConfig,
        topic: Topic,
        since: Timestamp,
        until: Option<Timestamp>,
    ) -> Result<Option<Self>, ReadbackError> {
        let consumer: BaseConsumer<Complaints> =
            BaseConsumer::from_config_and_context(config, Complaints::default())
                .map_err(|error| unavailable(&text::chain(&error)))?;
        let mut reader = Self {
            consumer,
            servers: config.get("bootstrap.servers").unwrap_or("?").into(),
            topic,
            open: BTreeMap::new(),
            total: 0,
            cut: false,
        };
        let Some(partitions) = reader.partitions()? else {
            return Ok(None);
        };
        let firsts = reader.offsets_at(&partitions, since, false)?;
        let ends = until
            .map(|until| reader.offsets_at(&partitions, until, true))
            .transpose()?;
        for partition in partitions {
            let marks = reader
                .consumer
                .fetch_watermarks(reader.topic.as_str(), partition, TIMEOUT);
            let (low, high) = marks.map_err(|error| reader.explain(&error))?;
            let at = |offsets: &BTreeMap<i32, i64>| offsets.get(&partition).copied();
            let extent = Extent {
                first: at(&firsts).unwrap_or(high).max(low),
                end: ends.as_ref().and_then(at).unwrap_or(high).min(high),
            };
            reader.cut |= low > 0 && extent.first == low;
            if extent.first < extent.end {
                reader.total += u64::try_from(extent.end - extent.first).unwrap_or(0);
                reader.open.insert(partition, extent);
            }
        }
        reader.assign()?;
        Ok(Some(reader))
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Some messages; none only at the end.
    pub(super) fn next(&mut self) -> Result<Vec<KeptMessage>, ReadbackError> {
        let Self {
            consumer,
            topic,
            open,
            ..
        } = self;
        let mut messages = Vec::new();
        let began = Instant::now();
        let enough = |messages: &Vec<KeptMessage>| {
            messages.len() >= CHUNK || (!messages.is_empty() && began.elapsed() > COLLECT)
        };
        while !open.is_empty() && !enough(&messages) {
            match consumer.poll(Duration::from_millis(50)) {
                Some(Ok(message)) => {
                    let (partition, offset) = (message.partition(), message.offset());
                    // Offsets have gaps, so the end may be passed without being met.
                    let Some(extent) = open.get(&partition) else {
                        continue;
                    };
                    if offset < extent.end {
                        messages.push(kept(&message));
                    }
                    if offset + 1 >= extent.end {
                        open.remove(&partition);
                        // What follows would be fetched for nothing. If this fails, it is, and thrown away above.
                        let mut read = TopicPartitionList::new();
                        read.add_partition(topic.as_str(), partition);
                        drop(consumer.pause(&read));
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    open.remove(&partition);
                }
                Some(Err(error)) if !is_passing(&error) => return Err(self.explain(&error)),
                _ if began.elapsed() > TIMEOUT => {
                    return Err(self.unavailable(&format!("no message within {TIMEOUT:?}")));
                }
                _ => {}
            }
        }
        Ok(messages)
    }

    /// All partitions, or `None` where there is no such topic.
    fn partitions(&self) -> Result<Option<Vec<i32>>, ReadbackError> {
        let name = self.topic.as_str();
        let metadata = self.consumer.fetch_metadata(Some(name), REACH_TIMEOUT);
        let metadata = metadata.map_err(|error| self.explain(&error))?;
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == name) else {
            return Ok(None);
        };
        match topic.error().map(RDKafkaErrorCode::from) {
            None => Ok(Some(
                topic.partitions().iter().map(|part| part.id()).collect(),
            )),
            Some(
                RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::InvalidTopic,
            ) => Ok(None),
            Some(code) => Err(self.explain(&KafkaError::MetadataFetch(code))),
        }
    }

    /// The first offset of each partition whose message has this time or a later one; none where all are earlier.
    fn offsets_at(
        &self,
        partitions: &[i32],
        time: Timestamp,
        round_up: bool,
    ) -> Result<BTreeMap<i32, i64>, ReadbackError> {
        // Kafka counts milliseconds; negative ones have a meaning of their own.
        let micros = time
            .as_micros()
            .max(0)
            .saturating_add(if round_up { 999 } else { 0 });
        let mut times = TopicPartitionList::new();
        for partition in partitions {
            times
                .add_partition_offset(
                    self.topic.as_str(),
                    *partition,
                    Offset::Offset(micros / 1_000),
                )
                .map_err(|error| self.explain(&error))?;
        }
        let found = self.consumer.offsets_for_times(times, TIMEOUT);
        let found = found.map_err(|error| self.explain(&error))?;
        let mut offsets = BTreeMap::new();
        for element in found.elements() {
            element.error().map_err(|error| self.explain(&error))?;
            if let Offset::Offset(offset) = element.offset() {
                offsets.insert(element.partition(), offset);
            }
        }
        Ok(offsets)
    }

    fn assign(&self) -> Result<(), ReadbackError> {
        let mut assignment = TopicPartitionList::new();
        for (partition, extent) in &self.open {
            assignment
                .add_partition_offset(
                    self.topic.as_str(),
                    *partition,
                    Offset::Offset(extent.first),
                )
                .map_err(|error| self.explain(&error))?;
        }
        self.consumer
            .assign(&assignment)
            .map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &KafkaError) -> ReadbackError {
        let refused = matches!(
            error.rdkafka_error_code(),
            Some(
                RDKafkaErrorCode::TopicAuthorizationFailed
                    | RDKafkaErrorCode::GroupAuthorizationFailed
                    | RDKafkaErrorCode::ClusterAuthorizationFailed
            )
        );
        match refused {
            true => ReadbackError::Refused {
                topic: self.topic.clone(),
                reason: text::chain(error),
            },
            false => self.unavailable(&text::chain(error)),
        }
    }

    fn unavailable(&self, what: &str) -> ReadbackError {
        let servers = &self.servers;
        match self.consumer.context().last() {
            Some(complaint) => unavailable(&format!("{servers}: {what}: {complaint}")),
            None => unavailable(&format!("{servers}: {what}")),
        }
    }
}

/// Whether librdkafka tries again by itself.
fn is_passing(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::RequestTimedOut
                | RDKafkaErrorCode::LeaderNotAvailable
                | RDKafkaErrorCode::NotLeaderForPartition
        )
    )
}

fn kept(message: &BorrowedMessage<'_>) -> KeptMessage {
    let millis = message.timestamp().to_millis();
    KeptMessage {
        partition: message.partition(),
        offset: message.offset(),
        time: millis.map(|millis| Timestamp::from_micros(millis.saturating_mul(1_000))),
        key: message.key().map(MessageKey::from),
        headers: message.headers().map(headers).unwrap_or_default(),
    }
}

/// What librdkafka complained about last.
#[derive(Default)]
struct Complaints(Mutex<Option<String>>);

impl Complaints {
    fn last(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ClientContext for Complaints {
    /// Why a connection failed is told here only.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log::log(level, facility, line);
        if facility == "FAIL" {
            let line = text::bounded(line, text::ERROR_BYTES_MAX);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        }
    }
}

impl ConsumerContext for Complaints {}
