//! What has become of the messages of one call so far, and which of them may still go.

use postrider_core::{Message, PublishError, Topic, text};

use super::error::{Verdict, unavailable};
use crate::held::HeldKeys;

/// A batch and what has become of its messages so far.
pub(super) struct Sheet<'a> {
    pub(super) batch: &'a [Message],
    pub(super) outcomes: Vec<Option<Result<(), PublishError>>>,
    held: HeldKeys<'a>,
    /// Whether it takes a round of messages that are alone to find out whom the broker refuses.
    pub(super) isolate: bool,
}

impl<'a> Sheet<'a> {
    /// Refuses what can be known to be refused, so that it costs the others no round.
    pub(super) fn new(batch: &'a [Message], message_bytes_max: usize) -> Self {
        let mut sheet = Self {
            batch,
            outcomes: batch.iter().map(|_| None).collect(),
            held: HeldKeys::default(),
            isolate: false,
        };
        for (index, message) in batch.iter().enumerate() {
            let size = message.size();
            if sheet.hold_back(index) {
                continue;
            }
            if let Err(error) = check_topic(&message.topic) {
                sheet.settle(index, Verdict::Final(error));
            } else if size > message_bytes_max {
                let error = PublishError::TooLarge {
                    size,
                    limit: Some(message_bytes_max),
                };
                sheet.settle(index, Verdict::Final(error));
            }
        }
        sheet
    }

    /// The messages without an outcome, in order.
    pub(super) fn open(&self) -> impl Iterator<Item = usize> + use<> {
        let open: Vec<usize> = (0..self.batch.len())
            .filter(|i| self.outcomes[*i].is_none())
            .collect();
        open.into_iter()
    }

    /// Settles a message as untried if an earlier one in its order failed.
    pub(super) fn hold_back(&mut self, index: usize) -> bool {
        let held = self.held.holds(index, &self.batch[index]);
        if held {
            self.outcomes[index] = Some(Err(PublishError::Untried));
        }
        held
    }

    pub(super) fn settle(&mut self, index: usize, verdict: Verdict) {
        if let Verdict::Final(error) = verdict {
            self.held.hold(index, &self.batch[index]);
            self.outcomes[index] = Some(Err(error));
        }
    }

    pub(super) fn give_up(&mut self, reason: &str) {
        for index in self.open() {
            self.settle(index, Verdict::Final(unavailable(reason)));
        }
    }

    pub(super) fn into_outcomes(self) -> Vec<Result<(), PublishError>> {
        self.outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or(Err(PublishError::Untried)))
            .collect()
    }
}

/// Kafka's own rule. librdkafka would ask the cluster about any name, and again every second.
fn check_topic(topic: &Topic) -> Result<(), PublishError> {
    const LENGTH_MAX: usize = 249;
    let name = topic.as_str();
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=LENGTH_MAX).contains(&name.len())
        && name.bytes().all(legal)
        && name != "."
        && name != ".."
    {
        return Ok(());
    }
    let reason = format!(
        "{name:?} is no Kafka topic name: 1 to {LENGTH_MAX} of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
    );
    Err(PublishError::Refused {
        reason: text::bounded(&reason, text::ERROR_BYTES_MAX),
    })
}
