//! What librdkafka calls back with, on the polling thread: partitions that come and go, commits, errors.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::text;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::statistics::Statistics;
use rdkafka::{Offset, TopicPartitionList, types::RDKafkaErrorCode};

use super::assignment::Assignment;
use super::config::{KafkaSubscriptionConfig, StartAt};
use super::progress::OffsetTicket;
use super::trouble::{EndsWith, diagnose};
use crate::queue::{Queue, Trouble};

/// What the polling thread and the subscription both know.
pub(super) struct Shared {
    pub(super) config: KafkaSubscriptionConfig,
    pub(super) queue: Queue<OffsetTicket>,
    /// Whether the thread is to commit, leave the group and end.
    pub(super) leaving: AtomicBool,
    assignment: Mutex<Assignment>,
    doubt: Mutex<Doubt>,
}

/// What is known to be wrong with the connection.
#[derive(Default)]
struct Doubt {
    ends_with: Option<EndsWith>,
    /// The last thing librdkafka complained about.
    complaint: Option<String>,
}

impl Shared {
    pub(super) fn new(config: KafkaSubscriptionConfig) -> Self {
        Self {
            queue: Queue::new(config.limits()),
            config,
            leaving: AtomicBool::new(false),
            assignment: Mutex::default(),
            doubt: Mutex::default(),
        }
    }

    pub(super) fn assignment(&self) -> MutexGuard<'_, Assignment> {
        self.assignment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn doubt(&self) -> MutexGuard<'_, Doubt> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt().ends_with.is_some()
    }

    pub(super) fn complaint(&self) -> Option<String> {
        self.doubt().complaint.clone()
    }

    /// Subscribers are told so until [`Self::reassure`].
    pub(super) fn alarm(&self, trouble: Trouble, ends_with: EndsWith) {
        let mut doubt = self.doubt();
        if doubt.ends_with.is_none() {
            tracing::warn!(group = self.config.group, ?trouble, "kafka subscription");
        }
        doubt.ends_with = Some(ends_with);
        self.queue.fail(trouble);
    }

    /// Something went well that shows that the trouble is over, if it was of that kind.
    pub(super) fn reassure(&self, shown_by: EndsWith) {
        let mut doubt = self.doubt();
        let over = match (doubt.ends_with, shown_by) {
            (None, _) => return,
            (Some(EndsWith::Assignment), EndsWith::Probe) => false,
            (Some(_), _) => true,
        };
        if over {
            *doubt = Doubt::default();
            self.queue.recover();
        }
    }

    /// All partitions are gone without a word of the group's.
    pub(super) fn lose_all(&self) {
        self.assignment().clear();
        self.queue.revoke_all();
    }
}

pub(super) struct Context(pub(super) Arc<Shared>);

impl Context {
    /// Lets what is in hand be finished for a while, commits what is done, and gives up the rest.
    fn hand_over(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        let shared = &self.0;
        let lots = shared.assignment().lots_of(partitions);
        let patience = Duration::from_millis(shared.config.revoke_timeout_ms.into());
        shared.queue.withhold(&lots);
        let settled = shared
            .queue
            .wait_until_settled(&lots, Instant::now() + patience);
        // Before the commit: what is settled from here on has no effect, so nothing done is left out.
        shared.queue.revoke(&lots);
        let news = shared.assignment().news_of(partitions);
        let committed = news.and_then(|news| commit(consumer, &news, CommitMode::Sync));
        if let Err(error) = committed {
            tracing::warn!(%error, "kafka: what is done may be delivered again to another member");
        }
        tracing::debug!(?partitions, settled, "kafka: partitions revoked");
    }

    fn forget(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        let paused = self.0.assignment().remove(partitions);
        // librdkafka would keep them paused if they came back to us.
        if paused.count() > 0
            && let Err(error) = consumer.resume(&paused)
        {
            tracing::warn!(%error, "kafka: revoked partitions could not be resumed");
        }
    }
}

/// How long a broker may take to say where partitions end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A new group's end is where it stands now. Without a commit it would be where it stands when the partition is next assigned, and what came
/// meanwhile would be passed over.
fn begin_at_the_end(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
) -> KafkaResult<()> {
    let committed = consumer.committed_offsets(partitions.clone(), END_TIMEOUT)?;
    let mut ends = TopicPartitionList::new();
    for element in committed.elements() {
        if element.offset() == Offset::Invalid {
            let (topic, number) = (element.topic(), element.partition());
            let (_, end) = consumer.fetch_watermarks(topic, number, END_TIMEOUT)?;
            ends.add_partition_offset(topic, number, Offset::Offset(end))?;
        }
    }
    commit(consumer, &ends, CommitMode::Sync)
}

/// Does nothing if there is nothing to commit.
pub(super) fn commit(
    consumer: &BaseConsumer<Context>,
    offsets: &TopicPartitionList,
    mode: CommitMode,
) -> KafkaResult<()> {
    if offsets.count() == 0 {
        return Ok(());
    }
    consumer.commit(offsets, mode)
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let shared = &self.0;
        match rebalance {
            Rebalance::Assign(partitions) => {
                tracing::debug!(?partitions, "kafka: partitions assigned");
                if shared.config.start == StartAt::Latest
                    && let Err(error) = begin_at_the_end(consumer, partitions)
                {
                    tracing::warn!(%error, "kafka: partitions without messages so far begin at their end again when they are next assigned");
                }
                let lots = shared.assignment().add(partitions);
                lots.iter().for_each(|lot| shared.queue.open(*lot));
                shared.reassure(EndsWith::Assignment);
            }
            Rebalance::Revoke(partitions) => {
                if consumer.assignment_lost() {
                    // Somebody else has them already, and a commit would be refused.
                    tracing::warn!(?partitions, "kafka: partitions lost");
                    let lots = shared.assignment().lots_of(partitions);
                    shared.queue.revoke(&lots);
                } else {
                    self.hand_over(consumer, partitions);
                }
                self.forget(consumer, partitions);
            }
            Rebalance::Error(error) => tracing::warn!(%error, "kafka: rebalance"),
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        let assignment = self.0.assignment();
        for element in offsets.elements() {
            if result.is_err() || element.error().is_err() {
                let partition = assignment.get(element.topic(), element.partition());
                partition.inspect(|partition| partition.progress.commit_failed());
            }
        }
        drop(assignment);
        if let Err(error) = result {
            tracing::debug!(%error, "kafka: commit, to be tried again");
        }
    }
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        let shared = &self.0;
        tracing::debug!(%error, reason, "kafka");
        let code = error
            .rdkafka_error_code()
            .unwrap_or(RDKafkaErrorCode::Unknown);
        let complaint = shared.complaint();
        match diagnose(code, reason, &shared.config.group, complaint.as_deref()) {
            Some(diagnosis) => shared.alarm(diagnosis.trouble, diagnosis.ends_with),
            None => {
                let reason = text::bounded(reason, text::ERROR_BYTES_MAX);
                shared.doubt().complaint = Some(reason);
            }
        }
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        super::super::log::log(level, facility, line);
    }

    fn stats(&self, statistics: Statistics) {
        self.0.assignment().note_marks(&statistics);
    }
}
