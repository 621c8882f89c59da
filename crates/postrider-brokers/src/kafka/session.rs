//! A producer and what is outstanding on it. A session that failed is closed for good and another one
//! takes its place: only so is it certain that nothing old is sent later.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use postrider_core::{Message, Topic, text};
use rdkafka::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::watch;

use super::call::Call;
use super::cluster::{self, TopicState};
use super::config::KafkaConfig;
use super::warm::{Mark, Marker, WarmKeys};

// A delivery report finds its slot by one number: the call in the upper half, the message in the lower.
const _: () = assert!(usize::BITS == 64, "delivery reports need 64 bits");

pub(super) struct Session {
    /// Gone once the session is closed. Handing over and closing exclude each other, so that nothing
    /// slips in behind the purge.
    producer: RwLock<Option<ThreadedProducer<Reports>>>,
    shared: Arc<Shared>,
    closed_because: OnceLock<Closed>,
    ended: watch::Sender<bool>,
    marker: Marker,
    warm: Mutex<WarmKeys>,
    pub(super) batch_bytes: u32,
}

/// The batch size with which every message is a batch of its own.
pub(super) const ALONE: u32 = 1;

/// Why a session was closed, which decides what becomes of the messages that were in it.
#[derive(Debug, Clone)]
pub(super) enum Closed {
    /// No fault of theirs, and they may be sent again at once.
    Poisoned,
    /// The broker does not answer or does not let us write.
    Outage { reason: String },
}

/// What the polling thread and the calls both touch.
#[derive(Default)]
struct Shared {
    calls: Mutex<HashMap<u32, Arc<Call>>>,
    next_call: AtomicU32,
    /// Whether the broker answered and no outage was reported since.
    reached: AtomicBool,
    /// The last thing librdkafka complained about.
    trouble: Mutex<Option<String>>,
}

/// How handing over a message went.
pub(super) enum Handover {
    Taken,
    QueueFull,
    Refused(RDKafkaErrorCode),
    SessionClosed,
}

/// Forgets the call when its future ends or is dropped.
pub(super) struct Ticket<'a> {
    session: &'a Session,
    number: u32,
    pub(super) call: Arc<Call>,
    /// One per message of the call.
    marks: Vec<Mark>,
}

impl Session {
    /// Connects in the background; blocks for a moment.
    pub(super) fn open(config: &KafkaConfig, batch_bytes: u32) -> KafkaResult<Self> {
        let shared = Arc::new(Shared::default());
        let context = Reports {
            shared: Arc::clone(&shared),
        };
        let client_config = config.client_config(batch_bytes);
        let producer = ThreadedProducer::from_config_and_context(&client_config, context)?;
        Ok(Self {
            producer: RwLock::new(Some(producer)),
            shared,
            closed_because: OnceLock::new(),
            ended: watch::Sender::new(false),
            marker: Marker::default(),
            warm: Mutex::default(),
            batch_bytes,
        })
    }

    pub(super) fn begin(&self, batch: &[Message]) -> Ticket<'_> {
        let number = self.shared.next_call.fetch_add(1, Ordering::Relaxed);
        let call = Arc::new(Call::new(batch.len()));
        self.shared.calls().insert(number, Arc::clone(&call));
        Ticket {
            session: self,
            number,
            call,
            marks: batch
                .iter()
                .map(|message| self.marker.mark(message))
                .collect(),
        }
    }

    /// Puts a message at the end of its partition's queue. Unless one is named, librdkafka chooses it.
    pub(super) fn hand_over(
        &self,
        ticket: &Ticket<'_>,
        index: usize,
        message: &Message,
        partition: Option<i32>,
    ) -> Handover {
        let producer = self.producer.read().unwrap_or_else(PoisonError::into_inner);
        let Some(producer) = producer.as_ref() else {
            return Handover::SessionClosed;
        };
        let mut record = BaseRecord::with_opaque_to(message.topic.as_str(), ticket.slot(index));
        if let Some(partition) = partition {
            record = record.partition(partition);
        }
        if let Some(key) = &message.key {
            record = record.key(key.as_bytes());
        }
        if let Some(payload) = &message.payload {
            record = record.payload(&payload[..]);
        }
        if !message.headers.is_empty() {
            record = record.headers(headers(message));
        }
        ticket.call.hand_over();
        let Err((error, _)) = producer.send(record) else {
            return Handover::Taken;
        };
        ticket.call.take_back();
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::QueueFull) => Handover::QueueFull,
            Some(RDKafkaErrorCode::Fatal) => Handover::SessionClosed,
            Some(code) => Handover::Refused(code),
            None => Handover::Refused(RDKafkaErrorCode::InvalidArgument),
        }
    }

    /// Whether messages can be handed over. librdkafka closes itself after a fatal error, which it knows before
    /// it tells.
    pub(super) fn is_open(&self) -> bool {
        let producer = self.producer.read().unwrap_or_else(PoisonError::into_inner);
        producer
            .as_ref()
            .is_some_and(|producer| producer.client().fatal_error().is_none())
    }

    /// Whether a message has its batch to itself: the size is checked from the second one on.
    pub(super) fn sends_alone(&self, message: &Message) -> bool {
        self.batch_bytes == ALONE || message.size() > self.batch_bytes as usize
    }

    pub(super) fn is_reached(&self) -> bool {
        self.shared.reached.load(Ordering::Acquire)
    }

    /// Asks the cluster about a topic, or about all where none is known yet. Blocks.
    pub(super) fn probe(&self, topic: Option<&Topic>, timeout: Duration) -> Result<(), String> {
        // A clone, since the wait must not keep anybody from closing the session.
        let producer = self
            .producer
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let producer = producer.ok_or("the connection is being closed")?;
        match producer
            .client()
            .fetch_metadata(topic.map(Topic::as_str), timeout)
        {
            Ok(_) => {
                self.shared.reached.store(true, Ordering::Release);
                *self.shared.trouble() = None;
                Ok(())
            }
            Err(_) => Err(self.explain(&format!("no broker answers within {timeout:?}"))),
        }
    }

    /// What the cluster says about these topics.
    pub(super) async fn look(
        &self,
        topics: Vec<Topic>,
        timeout: Duration,
    ) -> Result<Vec<TopicState>, String> {
        let producer = self
            .producer
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let producer = producer.ok_or("the connection is being closed")?;
        let look = move || cluster::look(producer.client(), &topics, timeout);
        let states = tokio::task::spawn_blocking(look).await;
        states.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// What happened, with librdkafka's last complaint as the likely cause.
    pub(super) fn explain(&self, what: &str) -> String {
        match &*self.shared.trouble() {
            Some(trouble) => format!("{what}: {trouble}"),
            None => what.to_owned(),
        }
    }

    /// The reason that librdkafka gives for its fatal error, as a reason to close.
    pub(super) fn fatal_reason(&self) -> Closed {
        let producer = self.producer.read().unwrap_or_else(PoisonError::into_inner);
        let error = producer
            .as_ref()
            .and_then(|producer| producer.client().fatal_error());
        match error {
            Some((RDKafkaErrorCode::GaplessGuarantee, _)) | None => Closed::Poisoned,
            Some((_, reason)) => Closed::Outage { reason },
        }
    }

    /// Throws away what is not acknowledged and ends the connection, on a thread of its own. Every message
    /// gets its report. The first reason counts.
    pub(super) fn close(self: &Arc<Self>, because: Closed) {
        let taken = self
            .producer
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(producer) = taken else { return };
        match &because {
            Closed::Poisoned => tracing::debug!("kafka: a message was refused, new producer"),
            Closed::Outage { reason } => tracing::warn!(reason, "kafka: new producer"),
        }
        // Only this call found the producer, so nobody else sets the reason.
        self.closed_because.get_or_init(|| because);
        let ending = Ending(Arc::clone(self));
        end(producer, move || drop(ending));
    }

    pub(super) fn closed_because(&self) -> Option<&Closed> {
        self.closed_because.get()
    }

    /// Returns once nothing of a closed session is left.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        ended
            .wait_for(|ended| *ended)
            .await
            .expect("the sender is ours");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let producer = self
            .producer
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(producer) = producer {
            end(producer, || ());
        }
    }
}

/// Ends a producer on a thread of its own, since it waits for librdkafka's threads.
fn end(producer: ThreadedProducer<Reports>, ended: impl FnOnce() + Send + 'static) {
    let end = move || {
        producer.purge(PurgeConfig::default().queue().inflight());
        drop(producer);
        ended();
    };
    // Without a thread the closure is dropped here, and the producer with it: slow, but the same.
    if let Err(error) = std::thread::Builder::new()
        .name("kafka-close".into())
        .spawn(end)
    {
        tracing::warn!(%error, "kafka: no thread to close the producer on");
    }
}

struct Ending(Arc<Session>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
    }
}

impl Ticket<'_> {
    /// For each message, whether requests may follow each other unanswered for its key.
    pub(super) fn warm(&self) -> Vec<bool> {
        self.warm_keys().contain(&self.marks)
    }

    /// The broker has taken these messages.
    pub(super) fn warm_up(&self, taken: impl IntoIterator<Item = usize>) {
        let marks = taken.into_iter().map(|index| self.marks[index]);
        self.warm_keys().extend(marks);
    }

    /// A topic that was made anew does not know this session any more.
    pub(super) fn cool_down(&self) {
        *self.warm_keys() = WarmKeys::default();
    }

    fn warm_keys(&self) -> MutexGuard<'_, WarmKeys> {
        let warm = &self.session.warm;
        warm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, index: usize) -> usize {
        (self.number as usize) << 32 | index
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.session.shared.calls().remove(&self.number);
    }
}

fn headers(message: &Message) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(message.headers.len());
    message.headers.iter().fold(headers, |headers, header| {
        headers.insert(Header {
            key: &header.name,
            value: Some(&header.value[..]),
        })
    })
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, HashMap<u32, Arc<Call>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives what librdkafka has to say, on its polling thread.
pub(super) struct Reports {
    shared: Arc<Shared>,
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, slot: usize) {
        let call = self.shared.calls().get(&((slot >> 32) as u32)).cloned();
        // A call that gave up and went away no longer wants to know.
        let Some(call) = call else { return };
        let report = result.as_ref().map(|_| ()).map_err(|(error, message)| {
            let code = error.rdkafka_error_code();
            let partition = Some(message.partition()).filter(|number| *number >= 0);
            (code.unwrap_or(RDKafkaErrorCode::Unknown), partition)
        });
        call.report(slot & u32::MAX as usize, report);
    }
}

impl ClientContext for Reports {
    fn error(&self, error: KafkaError, reason: &str) {
        let reason = text::bounded(reason, text::ERROR_BYTES_MAX);
        tracing::debug!(%error, reason, "kafka");
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.shared.reached.store(false, Ordering::Release);
        } else {
            *self.shared.trouble() = Some(reason);
        }
        // It may have been fatal, under one of many names: those who wait look for themselves.
        self.shared.calls().values().for_each(|call| call.wake());
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        super::log::log(level, facility, line);
    }
}
