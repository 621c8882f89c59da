//! The thread that polls. Polling goes on however long a handler takes: what has no room is paused, so that the
//! group never takes a slow handler for a dead one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use rdkafka::Message;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::BorrowedMessage;
use tokio::sync::{oneshot, watch};

use super::context::{Context, Shared, commit};
use super::record;
use super::trouble::{EndsWith, probe};
use crate::queue::{Room, Trouble};

const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// While a partition is paused: how soon it is seen that there is room again.
const PAUSED_INTERVAL: Duration = Duration::from_millis(10);
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const REBUILD_PAUSE: Duration = Duration::from_secs(1);

/// Where the answer to a ping goes.
pub(super) type Ping = oneshot::Sender<Result<(), Trouble>>;

pub(super) struct Poller {
    shared: Arc<Shared>,
    /// When nobody can ping any more, the thread ends.
    pings: Receiver<Ping>,
    committed_at: Instant,
    probed_at: Option<Instant>,
    /// When to look next whether what is paused has room again, if anything is.
    look_again_at: Option<Instant>,
}

/// Tells that the thread is gone, also if it panicked.
struct Ending {
    shared: Arc<Shared>,
    ended: watch::Sender<bool>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let trouble = Trouble::Unavailable("the polling thread has ended".into());
        self.shared.queue.fail(trouble);
        self.ended.send_replace(true);
    }
}

/// Why polling ended.
enum End {
    Leave,
    /// librdkafka gave up; only a new client goes on.
    Fatal(String),
}

/// Connects in the background.
pub(super) fn open(shared: &Arc<Shared>) -> KafkaResult<BaseConsumer<Context>> {
    let config = shared.config.client_config();
    let context = Context(Arc::clone(shared));
    let consumer = BaseConsumer::from_config_and_context(&config, context)?;
    let topics: Vec<&str> = shared.config.topics.iter().map(String::as_str).collect();
    consumer.subscribe(&topics)?;
    Ok(consumer)
}

impl Poller {
    /// Starts the thread. The receiver becomes true when it has ended.
    pub(super) fn spawn(
        shared: Arc<Shared>,
        consumer: BaseConsumer<Context>,
        pings: Receiver<Ping>,
    ) -> std::io::Result<watch::Receiver<bool>> {
        let (ended, has_ended) = watch::channel(false);
        let poller = Self {
            shared,
            pings,
            committed_at: Instant::now(),
            probed_at: None,
            look_again_at: None,
        };
        let ending = Ending {
            shared: Arc::clone(&poller.shared),
            ended,
        };
        std::thread::Builder::new()
            .name("kafka-poll".into())
            .spawn(move || {
                poller.run(consumer);
                drop(ending);
            })?;
        Ok(has_ended)
    }

    fn run(mut self, first: BaseConsumer<Context>) {
        let mut opened = Some(first);
        loop {
            let reason = match opened {
                Some(consumer) => match self.poll(&consumer) {
                    End::Leave => return self.leave(&consumer),
                    End::Fatal(reason) => {
                        // Before the client is dropped, which would wait for what is in hand.
                        self.shared.lose_all();
                        reason
                    }
                },
                None => "the client could not be made anew".to_owned(),
            };
            self.shared
                .alarm(Trouble::Unavailable(reason), EndsWith::Probe);
            if self.rests(REBUILD_PAUSE).is_break() {
                return;
            }
            opened = open(&self.shared)
                .inspect_err(|error| tracing::warn!(%error, "kafka: no new consumer"))
                .ok();
        }
    }

    fn poll(&mut self, consumer: &BaseConsumer<Context>) -> End {
        loop {
            // Errors are told to the context.
            if let Some(Ok(record)) = consumer.poll(self.poll_timeout()) {
                self.take_in(consumer, &record);
            }
            if let Some((code, reason)) = consumer.client().fatal_error() {
                return End::Fatal(format!("{code}: {reason}"));
            }
            self.resume_free(consumer);
            self.commit(consumer);
            self.probe(consumer);
            match self.pings.try_recv() {
                Ok(ping) => {
                    // Whoever asked may have gone.
                    ping.send(self.ask(consumer)).ok();
                }
                Err(TryRecvError::Disconnected) => return End::Leave,
                Err(TryRecvError::Empty) => {}
            }
            if self.shared.leaving.load(Ordering::Acquire) {
                return End::Leave;
            }
        }
    }

    fn poll_timeout(&self) -> Duration {
        match self.look_again_at {
            Some(_) => PAUSED_INTERVAL,
            None => POLL_TIMEOUT,
        }
    }

    fn take_in(&mut self, consumer: &BaseConsumer<Context>, record: &BorrowedMessage<'_>) {
        let assignment = self.shared.assignment();
        let partition = assignment.get(record.topic(), record.partition()).cloned();
        drop(assignment);
        // Not ours any more: whoever has the partition gets the record.
        let Some(partition) = partition else { return };
        let Some(ticket) = partition.progress.begin(record.offset()) else {
            return;
        };
        self.shared
            .queue
            .push(record::entry(record, &partition, ticket));
        if self.shared.queue.room(partition.lot) == Room::None {
            self.pause_full(consumer);
        }
    }

    fn pause_full(&mut self, consumer: &BaseConsumer<Context>) {
        self.look_again_at = Some(Instant::now() + PAUSED_INTERVAL);
        let queue = &self.shared.queue;
        let full = self
            .shared
            .assignment()
            .pause(true, |partition| queue.room(partition.lot) == Room::None);
        if full.count() > 0
            && let Err(error) = consumer.pause(&full)
        {
            tracing::warn!(%error, "kafka: partitions could not be paused");
        }
    }

    fn resume_free(&mut self, consumer: &BaseConsumer<Context>) {
        if self.look_again_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        let queue = &self.shared.queue;
        let mut assignment = self.shared.assignment();
        let free = assignment.pause(false, |partition| queue.room(partition.lot) == Room::Plenty);
        let again = assignment.is_any_paused();
        drop(assignment);
        self.look_again_at = again.then(|| Instant::now() + PAUSED_INTERVAL);
        if free.count() > 0
            && let Err(error) = consumer.resume(&free)
        {
            tracing::warn!(%error, "kafka: partitions could not be resumed");
        }
    }

    fn commit(&mut self, consumer: &BaseConsumer<Context>) {
        if self.committed_at.elapsed() < COMMIT_INTERVAL {
            return;
        }
        self.committed_at = Instant::now();
        let news = self.shared.assignment().news();
        // How it went is told to the context, which has it committed again if need be.
        if let Err(error) = news.and_then(|news| commit(consumer, &news, CommitMode::Async)) {
            tracing::warn!(%error, "kafka: offsets could not be committed");
        }
    }

    /// Finds out whether a trouble is over, where nothing else would show it.
    fn probe(&mut self, consumer: &BaseConsumer<Context>) {
        if !self.shared.is_in_doubt() {
            return;
        }
        if self
            .probed_at
            .is_some_and(|at| at.elapsed() < PROBE_INTERVAL)
        {
            return;
        }
        self.ask(consumer).ok();
        self.probed_at = Some(Instant::now());
    }

    fn ask(&self, consumer: &BaseConsumer<Context>) -> Result<(), Trouble> {
        let complaint = self.shared.complaint();
        let topics = &self.shared.config.topics;
        let asked = probe(consumer, topics, complaint.as_deref(), PROBE_TIMEOUT);
        match &asked {
            Ok(()) => self.shared.reassure(EndsWith::Probe),
            Err(trouble) => self.shared.alarm(trouble.clone(), EndsWith::Probe),
        }
        asked
    }

    /// Commits what is done and gives up the rest.
    fn leave(&self, consumer: &BaseConsumer<Context>) {
        self.shared.queue.revoke_all();
        let news = self.shared.assignment().news();
        if let Err(error) = news.and_then(|news| commit(consumer, &news, CommitMode::Sync)) {
            tracing::warn!(%error, "kafka: what is done may be delivered again");
        }
        self.shared.assignment().clear();
    }

    /// Waits without polling, unless it is time to go.
    fn rests(&self, pause: Duration) -> std::ops::ControlFlow<()> {
        use std::ops::ControlFlow::{Break, Continue};
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.pings.recv_timeout(left) {
                Ok(ping) => {
                    let trouble = Trouble::Unavailable("the client is being made anew".into());
                    ping.send(Err(trouble)).ok();
                }
                Err(RecvTimeoutError::Disconnected) => return Break(()),
                Err(RecvTimeoutError::Timeout) if self.shared.leaving.load(Ordering::Acquire) => {
                    return Break(());
                }
                Err(RecvTimeoutError::Timeout) => return Continue(()),
            }
        }
    }
}
