//! One batch, sent until the broker has all of it.

use std::time::Duration;

use postrider_core::text::chain;
use postrider_core::{Failure, Header, Message, PublishError, Record, RecordId};
use tokio_util::sync::CancellationToken;

use super::{End, REPLAY_HEADER, Replay, pause};
use crate::lines::cut;

/// How often in a row a batch may fail, with nothing of it taken, before the replay gives up. Outages do not count.
const TRIES_MAX: u32 = 10;
/// How long a stop waits for the broker's answer to what is on the way.
const STOP_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Sender<'a> {
    replay: &'a Replay,
    stop: &'a CancellationToken,
    mark: Header,
}

/// Messages that the broker does not have yet, in the outbox's order, and the records they are made of.
#[derive(Default)]
struct Open {
    ids: Vec<RecordId>,
    messages: Vec<Message>,
}

/// What a call of the publisher came to.
#[derive(Default)]
struct Round {
    open: Open,
    moved: u64,
    /// The first failure that says something.
    trouble: Option<PublishError>,
}

impl<'a> Sender<'a> {
    pub(super) fn new(replay: &'a Replay, stop: &'a CancellationToken) -> Self {
        let began = replay.meter.started_at().to_string();
        Self {
            replay,
            stop,
            mark: Header::new(REPLAY_HEADER, began),
        }
    }

    /// Returns when the broker has all of them that can be sent.
    pub(super) async fn send(&self, records: Vec<Record>) -> Result<(), End> {
        let mut open = self.route(records)?;
        let mut tries = 0;
        while !open.messages.is_empty() {
            let outcomes = self.publish(&open.messages).await?;
            let round = self.settle(open, outcomes)?;
            open = round.open;
            tries = if round.moved > 0 { 0 } else { tries + 1 };
            match round.trouble {
                Some(error) if error.failure() == Failure::Outage => {
                    self.wait_for_broker(error).await?;
                    tries = 0;
                }
                Some(error) if tries >= TRIES_MAX => {
                    let record = open.ids.first();
                    return Err(failed(record, "failed 10 times in a row", &error));
                }
                Some(error) => {
                    self.replay.meter.waits(&chain(&error));
                    pause(
                        self.replay.options.backoff.random_delay(tries + 1),
                        self.stop,
                    )
                    .await?;
                }
                None if tries >= TRIES_MAX => {
                    return Err(End::Failed("the publisher takes nothing".into()));
                }
                None => {}
            }
            self.replay.meter.goes_on();
        }
        Ok(())
    }

    fn route(&self, records: Vec<Record>) -> Result<Open, End> {
        let mut open = Open::default();
        for record in records {
            match self.replay.router.message(&record) {
                Ok(message) => open.push(record.id, self.marked(message)),
                Err(error) => self.refuse(&record.id, &error)?,
            }
        }
        Ok(open)
    }

    /// A row's own headers may come from a message that was a replay itself.
    fn marked(&self, mut message: Message) -> Message {
        message
            .headers
            .retain(|header| &*header.name != REPLAY_HEADER);
        message.headers.push(self.mark.clone());
        if let Some(topic) = &self.replay.options.to_topic {
            message.topic = topic.clone();
        }
        message
    }

    /// A record that can never be sent.
    fn refuse(&self, id: &RecordId, error: &(dyn std::error::Error + 'static)) -> Result<(), End> {
        if !self.replay.options.skip {
            return Err(failed(Some(id), "cannot be sent", error));
        }
        let id = &*cut(&id.to_string()).into_owned();
        let why = format!("record {id} was left out: {}", chain(error));
        tracing::warn!(record = id, reason = chain(error), "left out of the replay");
        self.replay.meter.skipped(why);
        Ok(())
    }

    async fn publish(&self, batch: &[Message]) -> Result<Vec<Result<(), PublishError>>, End> {
        let overdue = async {
            self.stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        if self.stop.is_cancelled() {
            return Err(End::Stopped);
        }
        tokio::select! {
            outcomes = self.replay.publisher.publish(batch, self.replay.options.publish_timeout) => Ok(outcomes),
            () = overdue => Err(End::Stopped),
        }
    }

    fn settle(&self, sent: Open, outcomes: Vec<Result<(), PublishError>>) -> Result<Round, End> {
        let mut round = Round::default();
        let mut refused = Vec::new();
        // A publisher that forgets an outcome has not said that it took the message.
        let outcomes = outcomes
            .into_iter()
            .chain(std::iter::repeat_with(|| Err(PublishError::Untried)));
        let mut acknowledged = 0;
        for ((id, message), outcome) in sent.ids.into_iter().zip(sent.messages).zip(outcomes) {
            match outcome {
                Ok(()) => acknowledged += 1,
                Err(error) => match error.failure() {
                    Failure::Permanent => refused.push((id, error)),
                    Failure::Untried => round.open.push(id, message),
                    Failure::Transient | Failure::Outage | Failure::PartOutage { .. } => {
                        round.open.push(id, message);
                        round.trouble.get_or_insert(error);
                    }
                },
            }
        }
        self.replay.meter.sent(acknowledged);
        round.moved = acknowledged + refused.len() as u64;
        for (id, error) in refused {
            self.refuse(&id, &error)?;
        }
        Ok(round)
    }

    async fn wait_for_broker(&self, outage: PublishError) -> Result<(), End> {
        let mut error = outage;
        let mut failures = 0_u32;
        loop {
            failures = failures.saturating_add(1);
            self.replay.meter.waits(&chain(&error));
            pause(
                self.replay.options.backoff.random_delay(failures),
                self.stop,
            )
            .await?;
            let answer = tokio::select! {
                answer = self.replay.publisher.ping() => answer,
                () = self.stop.cancelled() => return Err(End::Stopped),
            };
            match answer {
                Ok(()) => return Ok(()),
                Err(still) => error = still,
            }
        }
    }
}

impl Open {
    fn push(&mut self, id: RecordId, message: Message) {
        self.ids.push(id);
        self.messages.push(message);
    }
}

fn failed(record: Option<&RecordId>, what: &str, error: &(dyn std::error::Error + 'static)) -> End {
    let record = record.map(ToString::to_string).unwrap_or_default();
    let record = cut(&record);
    End::Failed(format!("record {record} {what}: {}", chain(error)))
}
