//! One claim's messages and the answers to them.

use std::collections::{HashMap, VecDeque};

use postrider_core::fate::Outcome;
use postrider_core::{Failure, Message, MessageKey, Ordering, Record};
use tokio::sync::mpsc;

/// A message that waits for its answer. Dropped without one it is given back.
#[derive(Debug)]
pub struct Outgoing {
    message: Message,
    index: usize,
    /// `None` once it is answered.
    answers: Option<mpsc::Sender<(usize, Outcome)>>,
}

/// The claim had ended before the answer: its record was released and the message is offered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer came after the claim had ended; the message is offered again")]
pub struct Ended;

impl Outgoing {
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The broker has it. Its record is published when the claim is settled.
    pub fn ack(mut self) -> Result<(), Ended> {
        self.answer(Outcome::PUBLISHED)
    }

    /// It was not brought to the broker, and why. The record waits for its next attempt, and is dead after the last.
    pub fn nack(mut self, reason: impl Into<String>) -> Result<(), Ended> {
        self.answer(Outcome::failed(Failure::Transient, reason))
    }

    /// Nobody's fault, such as a broker that is down: no attempt is counted, and the message is offered again.
    pub fn release(mut self) -> Result<(), Ended> {
        self.answer(Outcome::failed(Failure::Untried, "released"))
    }

    /// What nobody has taken. An ended claim has released it already.
    pub(super) fn withdraw(self) {
        self.release().unwrap_or_default();
    }

    fn answer(&mut self, outcome: Outcome) -> Result<(), Ended> {
        let Some(answers) = self.answers.take() else {
            return Ok(());
        };
        // There is room for one answer per message, so this fails only when nobody listens any more.
        answers.try_send((self.index, outcome)).map_err(|_| Ended)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let dropped = Outcome::failed(Failure::Transient, "dropped without an answer");
        self.answer(dropped).unwrap_or_default();
    }
}

pub(super) struct Round {
    outcomes: Vec<Option<Outcome>>,
    unanswered: usize,
    answers: mpsc::Receiver<(usize, Outcome)>,
    /// With order per key: the key of each record that has one.
    keys: Vec<Option<MessageKey>>,
    /// Later messages of a key whose first one is offered.
    behind: HashMap<MessageKey, VecDeque<Outgoing>>,
}

impl Round {
    /// `messages` belong to those of the `outcomes` that are open. Also gives the messages to be offered at once.
    pub(super) fn new(
        records: &[Record],
        outcomes: Vec<Option<Outcome>>,
        messages: Vec<Message>,
        ordering: Ordering,
    ) -> (Self, Vec<Outgoing>) {
        let (sender, answers) = mpsc::channel(messages.len().max(1));
        let mut round = Self {
            unanswered: messages.len(),
            answers,
            keys: vec![None; outcomes.len()],
            behind: HashMap::new(),
            outcomes,
        };
        let open = (0..).zip(&round.outcomes);
        let open =
            open.filter_map(|(index, outcome): (usize, _)| outcome.is_none().then_some(index));
        let mut first = Vec::with_capacity(messages.len());
        for (index, message) in open.zip(messages) {
            let key = records[index].key.clone();
            let key = key.filter(|_| ordering == Ordering::Key);
            let outgoing = Outgoing {
                message,
                index,
                answers: Some(sender.clone()),
            };
            match key.as_ref().and_then(|key| round.behind.get_mut(key)) {
                Some(behind) => behind.push_back(outgoing),
                None => first.push(outgoing),
            }
            if let Some(key) = &key {
                round.behind.entry(key.clone()).or_default();
            }
            round.keys[index] = key;
        }
        (round, first)
    }

    pub(super) fn is_open(&self) -> bool {
        self.unanswered > 0
    }

    /// Waits for an answer, and gives the message that was waiting for it.
    pub(super) async fn answer(&mut self) -> Option<Outgoing> {
        let (index, outcome) = self.answers.recv().await?;
        let is_published = outcome.failure.is_none();
        self.note(index, outcome);
        let behind = self.behind.get_mut(self.keys[index].as_ref()?)?;
        if is_published {
            return behind.pop_front();
        }
        // What comes later of the key must not overtake it.
        std::mem::take(behind)
            .into_iter()
            .for_each(Outgoing::withdraw);
        None
    }

    /// Takes back what waits for an earlier message of its key.
    pub(super) fn withdraw(&mut self) {
        let waiting = self.behind.values_mut().flat_map(std::mem::take);
        waiting.for_each(Outgoing::withdraw);
    }

    /// The outcomes; from here on answers are too late.
    pub(super) fn close(mut self) -> Vec<Option<Outcome>> {
        self.answers.close();
        while let Ok((index, outcome)) = self.answers.try_recv() {
            self.note(index, outcome);
        }
        self.outcomes
    }

    fn note(&mut self, index: usize, outcome: Outcome) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.outcomes[index] = Some(outcome);
    }
}
