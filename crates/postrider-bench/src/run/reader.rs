//! Reading a topic: its length without its content, and its content in a thread that costs little.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use super::arrivals::Arrivals;
use super::event::Events;
use super::lab::PARTITIONS;

const TIMEOUT: Duration = Duration::from_secs(5);

/// What counts as the time of an arrival.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    /// When the broker appended it, in its milliseconds: exact even when it is read later.
    Append,
    /// When this reader got it, counted from here.
    Receipt(Instant),
}

/// Reads a topic from its beginning until it is dropped.
pub(crate) struct Reader {
    arrivals: Arc<Mutex<Arrivals>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    pub(crate) fn start(
        kafka: &str,
        topic: &str,
        events: Events,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let consumer = consumer(kafka)?;
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            partitions.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&partitions)?;
        let arrivals = Arc::new(Mutex::new(Arrivals::new(events)));
        let stop = Arc::new(AtomicBool::new(false));
        let (noted, stopped) = (arrivals.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("reader".into())
            .spawn(move || follow(&consumer, clock, &noted, &stopped))?;
        Ok(Self {
            arrivals,
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&Arrivals) -> T) -> T {
        look(&self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the reader panicked");
        }
    }
}

fn follow(consumer: &BaseConsumer, clock: Clock, arrivals: &Mutex<Arrivals>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let message = match consumer.poll(Duration::from_millis(100)) {
            None => continue,
            Some(Ok(message)) => message,
            // A broker that is down, as a rule; the client tries again by itself. Anything else would look like a loss.
            Some(Err(error)) => {
                eprintln!("reading what arrives: {error}");
                continue;
            }
        };
        let at = match clock {
            Clock::Receipt(start) => start.elapsed().as_micros() as u64,
            Clock::Append => message.timestamp().to_millis().unwrap_or(0) as u64 * 1000,
        };
        let payload = message.payload().unwrap_or_default();
        let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.note(message.key(), payload, at);
    }
}

/// How many messages a topic holds.
pub(crate) struct Length {
    consumer: Arc<BaseConsumer>,
    topic: String,
}

impl Length {
    pub(crate) fn new(kafka: &str, topic: &str) -> anyhow::Result<Self> {
        Ok(Self {
            consumer: Arc::new(consumer(kafka)?),
            topic: topic.to_owned(),
        })
    }

    pub(crate) async fn now(&self) -> anyhow::Result<u64> {
        let (consumer, topic) = (self.consumer.clone(), self.topic.clone());
        tokio::task::spawn_blocking(move || {
            let mut length = 0;
            for partition in 0..PARTITIONS {
                let (_, end) = consumer.fetch_watermarks(&topic, partition, TIMEOUT)?;
                length += u64::try_from(end)?;
            }
            Ok(length)
        })
        .await?
    }
}

fn consumer(kafka: &str) -> anyhow::Result<BaseConsumer> {
    let consumer = ClientConfig::new()
        .set("bootstrap.servers", kafka)
        .set("group.id", "postrider-bench")
        .set("enable.auto.commit", "false")
        .set("allow.auto.create.topics", "false")
        .set("fetch.error.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "500")
        .set_log_level(RDKafkaLogLevel::Critical)
        .create()?;
    Ok(consumer)
}
