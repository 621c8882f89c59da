//! Rounds of handing over and waiting. One round is enough unless a new session meets several messages of a
//! key, or the broker refuses a message: that ends the session for all of its messages, and those that
//! did nothing wrong go again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Message, PublishError, Publisher, Topic, text};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use super::call::Call;
use super::cluster::TopicState;
use super::config::{ConfigError, KafkaConfig, PARTITIONER};
use super::error::{Refusal, Verdict, after_closing, unavailable, verdict};
use super::oversize;
use super::place::{Place, Places};
use super::session::{ALONE, Closed, Handover, Session, Ticket};
use super::sheet::Sheet;
use super::stall::{self, Stall};
use crate::held::HeldKeys;

/// Longer than anybody means, and short enough to be added to any time.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Enough to halve the batch size down to one byte, two rounds each.
const ROUNDS_MAX: usize = 48;
/// How often to look whether a full queue has room again.
const QUEUE_CHECK: Duration = Duration::from_millis(2);
/// How long reports may take to come in that are certain to come.
pub(super) const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a cluster may take to answer a new connection. TLS and SASL take their time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one broker may take to say what it knows of some topics.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Calls that waited while another one found nobody there need not find out again.
const UNREACHED_FOR: Duration = Duration::from_millis(250);

/// Publishes to Kafka. The connection is made by the first call and made again after every trouble.
pub struct KafkaPublisher {
    config: KafkaConfig,
    /// At most the configured size; lowered when a topic turns out to take less.
    batch_bytes: AtomicU32,
    current: Mutex<Current>,
    pub(super) places: Places,
    /// The last session in which parts were tried again.
    pub(super) trial: Mutex<Option<Arc<Session>>>,
    /// A topic that exists, to ask the cluster about without asking for all of them.
    known_topic: OnceLock<Topic>,
}

struct Current {
    session: Arc<Session>,
    unreached: Option<(Instant, String)>,
}

impl KafkaPublisher {
    /// Checks the configuration. Whether the cluster can be reached shows in [`Publisher::ping`].
    pub fn new(config: KafkaConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let session = Arc::new(Session::open(&config, config.batch_bytes)?);
        let partitioner = config.properties.get("partitioner");
        let is_ours = partitioner.is_none_or(|name| name.expose() == PARTITIONER);
        Ok(Self {
            batch_bytes: AtomicU32::new(config.batch_bytes),
            config,
            places: Places::new(is_ours),
            trial: Mutex::default(),
            current: Mutex::new(Current {
                session,
                unreached: None,
            }),
            known_topic: OnceLock::new(),
        })
    }

    pub(super) fn config(&self) -> &KafkaConfig {
        &self.config
    }

    /// The current session, made anew if it was closed.
    async fn opened(&self, deadline: Instant) -> Result<MutexGuard<'_, Current>, String> {
        let in_time = |_| "no time left to connect".to_owned();
        let mut current = timeout_at(deadline, self.current.lock())
            .await
            .map_err(in_time)?;
        if !current.session.is_open() {
            current.session.close(current.session.fatal_reason());
            timeout_at(deadline, current.session.ended())
                .await
                .map_err(in_time)?;
            let batch_bytes = self.batch_bytes.load(Ordering::Relaxed);
            current.session = self.open(batch_bytes).await?;
        }
        Ok(current)
    }

    /// An open session whose cluster has answered. Nothing is sent into the void: what is not sent need
    /// not be taken back.
    async fn session(&self, topic: &Topic, deadline: Instant) -> Result<Arc<Session>, String> {
        let mut current = self.opened(deadline).await?;
        if current.session.is_reached() {
            return Ok(Arc::clone(&current.session));
        }
        if let Some((since, reason)) = &current.unreached
            && since.elapsed() < UNREACHED_FOR
        {
            return Err(reason.clone());
        }
        let timeout = CONNECT_TIMEOUT.min(deadline.saturating_duration_since(Instant::now()));
        let probed = probe(&current.session, Some(topic.clone()), timeout).await;
        current.unreached = probed.clone().err().map(|reason| (Instant::now(), reason));
        probed?;
        self.known_topic.get_or_init(|| topic.clone());
        Ok(Arc::clone(&current.session))
    }

    /// A session beside the current one. What the last session left is gone by then.
    pub(super) async fn fresh(
        &self,
        batch_bytes: u32,
        deadline: Instant,
    ) -> Result<Arc<Session>, String> {
        drop(self.opened(deadline).await?);
        self.open(batch_bytes).await
    }

    /// A session of this call's own, whose cluster has answered.
    async fn own_session(
        &self,
        topic: &Topic,
        batch_bytes: u32,
        deadline: Instant,
    ) -> Result<Arc<Session>, String> {
        let session = self.fresh(batch_bytes, deadline).await?;
        let timeout = CONNECT_TIMEOUT.min(deadline.saturating_duration_since(Instant::now()));
        let probed = probe(&session, Some(topic.clone()), timeout).await;
        if probed.is_err() {
            session.close(Closed::Poisoned);
        }
        probed.map(|()| session)
    }

    /// What the cluster says about topics. librdkafka asks the broker that it sent something to last, which may
    /// be just the one that is silent. A client without a past asks one that answers.
    pub(super) async fn look(
        &self,
        session: &Session,
        topics: Vec<Topic>,
        deadline: Instant,
    ) -> Result<Vec<TopicState>, String> {
        let patience = || LOOK_TIMEOUT.min(deadline.saturating_duration_since(Instant::now()));
        let seen = session.look(topics.clone(), patience()).await;
        if seen.is_ok() || patience().is_zero() {
            return seen;
        }
        let fresh = self.open(self.config.batch_bytes).await?;
        let seen = fresh.look(topics, patience()).await;
        fresh.close(Closed::Poisoned);
        seen
    }

    async fn open(&self, batch_bytes: u32) -> Result<Arc<Session>, String> {
        let config = self.config.clone();
        let open = move || Session::open(&config, batch_bytes);
        blocking(move || open().map(Arc::new).map_err(|error| text::chain(&error))).await
    }

    async fn round(&self, session: &Arc<Session>, sheet: &mut Sheet<'_>, deadline: Instant) {
        let ticket = session.begin(sheet.batch);
        let unfinished = Unfinished {
            session,
            call: &ticket.call,
        };
        let handed_over = self.hand_over(session, &ticket, sheet, deadline).await;
        let mut stall = None;
        if handed_over.is_continue() {
            // Whether it ended, failed or ran out of time is seen below.
            stall = stall::watch(self, session, &ticket.call, sheet, deadline).await;
        }
        if let Some(stall) = &stall {
            stall.close_parts(&self.places);
            session.close(Closed::Poisoned);
        } else if Instant::now() >= deadline && !ticket.call.is_settled() {
            let reason = session.explain("no acknowledgement before the deadline");
            session.close(Closed::Outage { reason });
        } else if !session.is_open() {
            // What is on the wire may still be acknowledged; waiting for it saves duplicates.
            let patience = deadline.min(Instant::now() + SETTLE_TIMEOUT);
            timeout_at(patience, settled(&ticket.call))
                .await
                .unwrap_or(());
            session.close(session.fatal_reason());
        }
        let patience = Instant::now() + SETTLE_TIMEOUT;
        timeout_at(patience, settled(&ticket.call))
            .await
            .unwrap_or(());
        drop(unfinished);
        let oversized = self.judge(session, &ticket, sheet, stall.as_ref());
        if !oversized.is_empty() {
            self.rule(session, sheet, &oversized, deadline).await;
        }
    }

    /// Hands over what is still open, in order, but only one message of a key that is not warm yet,
    /// and none of a key that has failed. Breaks off when the session is closed or time is up.
    async fn hand_over(
        &self,
        session: &Session,
        ticket: &Ticket<'_>,
        sheet: &mut Sheet<'_>,
        deadline: Instant,
    ) -> std::ops::ControlFlow<()> {
        let mut failures = 0;
        // These keys wait for the next round and no longer. Only when this one is over is it judged
        // whether a message that failed goes again, and then so must those behind it.
        let mut waiting = HeldKeys::default();
        let warm = ticket.warm();
        for index in sheet.open() {
            let message = &sheet.batch[index];
            if ticket.call.failures() > failures {
                let failed = ticket.call.failed();
                failures = failed.len();
                for index in failed {
                    waiting.hold(index, &sheet.batch[index]);
                }
            }
            if sheet.hold_back(index) || waiting.holds(index, message) {
                continue;
            }
            let partition = match self.places.of(index, message) {
                Place::Anywhere => None,
                Place::At(partition) => Some(partition),
                Place::Closed(_, error) => {
                    sheet.settle(index, Verdict::Final(error));
                    continue;
                }
            };
            if !warm[index] {
                waiting.hold(index, message);
            }
            loop {
                match session.hand_over(ticket, index, message, partition) {
                    Handover::Taken => break,
                    Handover::QueueFull if Instant::now() < deadline => {
                        tokio::time::sleep(QUEUE_CHECK).await;
                    }
                    Handover::Refused(code) => {
                        let limit = self.config.message_bytes_max as usize;
                        let by = Refusal::Local {
                            message_bytes_max: limit,
                        };
                        let verdict = verdict(code, message, by);
                        self.settle(sheet, index, verdict, partition);
                        break;
                    }
                    Handover::QueueFull | Handover::SessionClosed => {
                        return std::ops::ControlFlow::Break(());
                    }
                }
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Turns the reports of a round into outcomes, and gives those messages that were too large, or seemed so.
    fn judge(
        &self,
        session: &Session,
        ticket: &Ticket<'_>,
        sheet: &mut Sheet<'_>,
        stall: Option<&Stall>,
    ) -> Vec<usize> {
        let closed = session.closed_because();
        let reports = ticket.call.reports();
        let mut oversized = Vec::new();
        let mut taken = Vec::with_capacity(reports.len());
        for index in sheet.open() {
            let message = &sheet.batch[index];
            let mut partition = None;
            let verdict = match reports[index] {
                Some(Ok(())) => {
                    taken.push(index);
                    sheet.outcomes[index] = Some(Ok(()));
                    continue;
                }
                Some(Err((code, at))) => {
                    partition = at;
                    let alone = session.sends_alone(message);
                    match stall.and_then(|stall| stall.blames(&message.topic, at, code)) {
                        Some(reason) => Verdict::Part {
                            whole: false,
                            reason,
                        },
                        None => verdict(code, message, Refusal::Delivery { closed, alone }),
                    }
                }
                None => closed.map_or(Verdict::Again, after_closing),
            };
            if matches!(verdict, Verdict::Part { .. }) {
                ticket.cool_down();
            }
            match verdict {
                Verdict::Oversized => oversized.push(index),
                Verdict::Suspect => sheet.isolate = true,
                verdict => self.settle(sheet, index, verdict, partition),
            }
        }
        ticket.warm_up(taken);
        oversized
    }

    /// Settles a message; if its part is to blame, that is remembered.
    fn settle(
        &self,
        sheet: &mut Sheet<'_>,
        index: usize,
        verdict: Verdict,
        partition: Option<i32>,
    ) {
        let verdict = match verdict {
            Verdict::Part { whole, reason } => {
                let partition = partition.filter(|_| !whole);
                let topic = &sheet.batch[index].topic;
                Verdict::Final(self.places.failed(topic, partition, &reason))
            }
            verdict => verdict,
        };
        sheet.settle(index, verdict);
    }

    /// Finds out what was too large.
    async fn rule(
        &self,
        session: &Session,
        sheet: &mut Sheet<'_>,
        oversized: &[usize],
        deadline: Instant,
    ) {
        let batch = sheet.batch;
        let messages = oversized.iter().map(|index| (*index, &batch[*index]));
        let messages: Vec<(usize, &Message)> = messages.collect();
        let ruling = oversize::rule(&self.config, &messages, session, deadline).await;
        // A session in which every message is alone says nothing about batches.
        if session.batch_bytes != ALONE {
            self.batch_bytes
                .fetch_min(ruling.batch_bytes, Ordering::Relaxed);
        }
        for (index, verdict) in ruling.verdicts {
            sheet.settle(index, verdict);
        }
    }
}

#[async_trait]
impl Publisher for KafkaPublisher {
    async fn publish(
        &self,
        batch: &[Message],
        deadline: Duration,
    ) -> Vec<Result<(), PublishError>> {
        let deadline = Instant::now() + deadline.min(DEADLINE_MAX);
        let mut sheet = Sheet::new(batch, self.config.message_bytes_max as usize);
        self.try_parts(&mut sheet, deadline).await;
        for _ in 0..ROUNDS_MAX {
            let Some(first) = sheet.open().next() else {
                break;
            };
            if Instant::now() >= deadline {
                sheet.give_up("no time left");
                break;
            }
            let topic = &batch[first].topic;
            let isolate = std::mem::take(&mut sheet.isolate);
            let session = if isolate {
                self.own_session(topic, ALONE, deadline).await
            } else {
                self.session(topic, deadline).await
            };
            match session {
                Ok(session) => {
                    self.round(&session, &mut sheet, deadline).await;
                    if isolate {
                        session.close(Closed::Poisoned);
                    }
                }
                Err(reason) => {
                    sheet.give_up(&reason);
                    break;
                }
            }
        }
        sheet.into_outcomes()
    }

    async fn ping(&self) -> Result<(), PublishError> {
        // Nobody publishes to a broker that does not answer, so this must connect by itself.
        let deadline = Instant::now() + PING_TIMEOUT;
        let session = self
            .opened(deadline)
            .await
            .map(|current| Arc::clone(&current.session));
        let probed = match session {
            Ok(session) => probe(&session, self.known_topic.get().cloned(), PING_TIMEOUT).await,
            Err(reason) => Err(reason),
        };
        probed.map_err(|reason| unavailable(&reason))
    }
}

/// Closes the session of a call whose future was dropped: its messages must not be sent later.
pub(super) struct Unfinished<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) call: &'a Call,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.call.is_settled() {
            self.session.close(Closed::Poisoned);
        }
    }
}

pub(super) async fn settled(call: &Call) {
    while !call.is_settled() {
        call.changed().await;
    }
}

pub(super) async fn settled_or_fatal(session: &Session, call: &Call) {
    while !call.is_settled() && session.is_open() {
        call.changed().await;
    }
}

async fn probe(
    session: &Arc<Session>,
    topic: Option<Topic>,
    timeout: Duration,
) -> Result<(), String> {
    let session = Arc::clone(session);
    blocking(move || session.probe(topic.as_ref(), timeout)).await
}

/// librdkafka's calls block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(test)]
mod tests {
    use postrider_core::MessageKey;
    use rdkafka::types::RDKafkaErrorCode;

    use super::*;

    /// One record that the broker refuses fails all that wait behind it in the session. They go
    /// again, so what follows them must not be given up.
    #[tokio::test]
    async fn a_failure_during_the_handover_makes_its_key_wait_and_gives_up_nothing() {
        // Nobody listens there, so that no report comes but the one below.
        let publisher = KafkaPublisher::new(KafkaConfig::new("127.0.0.1:1")).unwrap();
        let session = Arc::clone(&publisher.current.lock().await.session);
        let batch = ["a", "b", "a", "b"].map(|key| Message {
            topic: Topic::from("orders"),
            key: Some(MessageKey::from(key)),
            ordered: true,
            payload: None,
            headers: vec![],
        });
        let mut sheet = Sheet::new(&batch, 1_000_000);
        let ticket = session.begin(&batch);
        ticket.warm_up(0..batch.len());
        ticket.call.hand_over();
        let purged = Err((RDKafkaErrorCode::PurgeQueue, Some(0)));
        ticket.call.report(0, purged);

        let deadline = Instant::now() + DEADLINE_MAX;
        let handed_over = publisher.hand_over(&session, &ticket, &mut sheet, deadline);
        assert!(handed_over.await.is_continue());
        assert_eq!(ticket.call.underway(), 3, "all but the second message of a");
        assert_eq!(sheet.open().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
