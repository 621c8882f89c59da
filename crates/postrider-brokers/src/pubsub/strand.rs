//! Messages of one topic that go one request after the other: those of an ordering key, or all that
//! have none.

use std::collections::VecDeque;

use futures::future::join_all;
use google_cloud_pubsub::client::Publisher;
use google_cloud_pubsub::model::Message as ClientMessage;
use postrider_core::{Message, PublishError};

use super::check::{REQUEST_BYTES_MAX, REQUEST_MESSAGES_MAX};
use super::error::{classify, for_the_rest};

/// What a message adds to its request besides its own bytes, roughly and rather too much.
const MESSAGE_OVERHEAD: usize = 64;
const HEADER_OVERHEAD: usize = 16;

pub(super) struct Strand<'a> {
    client: Publisher,
    ordering_key: Option<&'a str>,
    /// What is still to be sent, with its place in the batch.
    waiting: VecDeque<(usize, &'a Message)>,
    outcomes: Vec<(usize, Result<(), PublishError>)>,
}

impl<'a> Strand<'a> {
    pub(super) fn new(client: Publisher, ordering_key: Option<&'a str>) -> Self {
        Self {
            client,
            ordering_key,
            waiting: VecDeque::new(),
            outcomes: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, index: usize, message: &'a Message) {
        self.waiting.push_back((index, message));
    }

    /// What is known, by place in the batch; nothing of messages that were not answered.
    pub(super) fn into_outcomes(self) -> Vec<(usize, Result<(), PublishError>)> {
        self.outcomes
    }

    /// Sends everything. Only one request is with the client at a time, so that it has nothing left to send
    /// when this future is dropped but what is on the wire.
    pub(super) async fn send(&mut self) {
        let mut limit = REQUEST_MESSAGES_MAX;
        while !self.waiting.is_empty() {
            let count = self.fitting(limit);
            match self.request(count).await {
                None => limit = (limit * 2).min(REQUEST_MESSAGES_MAX),
                // Somebody in the request is to blame. Halving finds out who.
                Some(PublishError::Refused { .. }) if count > 1 => limit = count / 2,
                Some(error) => self.fail_first(error),
            }
            if let Some(key) = self.ordering_key {
                // The client pauses a key that failed. What failed goes first again, so it may go on.
                self.client.resume_publish(key);
            }
        }
    }

    /// Sends the first `count` messages as one request and keeps those that failed, and why the first did.
    async fn request(&mut self, count: usize) -> Option<PublishError> {
        let sent: Vec<(usize, &Message)> = self.waiting.drain(..count).collect();
        let publish = |message| {
            self.client
                .publish(client_message(message, self.ordering_key))
        };
        let results = join_all(sent.iter().map(|(_, message)| publish(message))).await;
        let mut failed = VecDeque::new();
        let mut first = None;
        for ((index, message), result) in std::iter::zip(sent, results) {
            match result {
                Ok(_) => self.outcomes.push((index, Ok(()))),
                Err(error) => {
                    first.get_or_insert_with(|| classify(&error, message));
                    failed.push_back((index, message));
                }
            }
        }
        failed.append(&mut self.waiting);
        self.waiting = failed;
        first
    }

    /// Settles the first message that waits, and those that need not be tried because of it: in order, all
    /// that follow; else all if the topic or the service is the matter, and none if the message was.
    fn fail_first(&mut self, error: PublishError) {
        let Some((index, _)) = self.waiting.pop_front() else {
            return;
        };
        let own_fault = matches!(error, PublishError::Refused { .. });
        if !own_fault || self.ordering_key.is_some() {
            let rest = self
                .waiting
                .drain(..)
                .map(|(index, _)| (index, Err(for_the_rest(&error))));
            self.outcomes.extend(rest);
        }
        self.outcomes.push((index, Err(error)));
    }

    /// How many of the first messages, at most `limit`, fit a request. One always does.
    fn fitting(&self, limit: usize) -> usize {
        let mut bytes = 0;
        let fit = |(_, message): &&(usize, &Message)| {
            bytes += message.size() + MESSAGE_OVERHEAD + HEADER_OVERHEAD * message.headers.len();
            bytes <= REQUEST_BYTES_MAX
        };
        self.waiting
            .iter()
            .take(limit)
            .take_while(fit)
            .count()
            .max(1)
    }
}

fn client_message(message: &Message, ordering_key: Option<&str>) -> ClientMessage {
    let attributes = message
        .headers
        .iter()
        .filter_map(|header| Some((header.name.to_string(), header.text()?.to_owned())));
    ClientMessage::new()
        .set_data(message.payload.clone().unwrap_or_default())
        .set_ordering_key(ordering_key.unwrap_or_default())
        .set_attributes(attributes)
}
