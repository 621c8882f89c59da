//! Tries again what took no writes. By one message of each part and in a session of its own, which may fail without
//! throwing away what goes elsewhere; and only if the cluster says that it might work. The batch waits
//! for that, so its time is bounded: a part that has failed often gets more of it, at longer intervals.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Failure, Topic};
use tokio::time::{Instant, timeout_at};

use super::error::{Refusal, Verdict, verdict};
use super::publisher::{KafkaPublisher, SETTLE_TIMEOUT, Unfinished, settled, settled_or_fatal};
use super::session::{Closed, Handover, Session};
use super::sheet::Sheet;
use crate::parts::Part;

/// Parts that are tried at a time.
const PARTS_MAX: usize = 20;

/// A message, by its place in the batch, and the part that it is to try.
type Tried = Vec<(usize, Part)>;

impl KafkaPublisher {
    /// Opens those parts again that work, and settles the messages that found it out.
    pub(super) async fn try_parts(&self, sheet: &mut Sheet<'_>, deadline: Instant) {
        if self.places.all_open() {
            return;
        }
        // One trial at a time.
        let Ok(mut last) = self.trial.try_lock() else {
            return;
        };
        let (mut tried, time) = self.due(sheet);
        if tried.is_empty() {
            return;
        }
        // The rest of the batch needs time too.
        let left = deadline.saturating_duration_since(Instant::now());
        let deadline = Instant::now() + time.min(left / 2);
        let mut is_asked = false;
        while !tried.is_empty() && Instant::now() < deadline {
            let Ok(session) = self.next_session(&mut last, deadline).await else {
                break;
            };
            if !is_asked && !self.might_work(&session, &mut tried, deadline).await {
                break;
            }
            is_asked = true;
            let before = tried.len();
            self.try_with(&session, sheet, &mut tried, deadline).await;
            if tried.len() == before {
                break;
            }
        }
        if let Some(last) = last.as_ref() {
            last.close(Closed::Poisoned);
        }
        for (_, part) in tried {
            self.places.failed(
                &part.topic,
                part.partition,
                "it acknowledged nothing when it was tried again",
            );
        }
    }

    /// A message of each part that is due, and how long to try: one that nothing in its order comes before, whatever
    /// becomes due while this looks.
    fn due(&self, sheet: &Sheet<'_>) -> (Tried, Duration) {
        let (mut tried, mut longest) = (Tried::new(), Duration::ZERO);
        let mut begun = HashSet::new();
        for index in sheet.open() {
            let message = &sheet.batch[index];
            if tried.len() >= PARTS_MAX {
                break;
            }
            let key = message.key.as_ref().filter(|_| message.ordered);
            if key.is_some_and(|key| !begun.insert((&message.topic, key))) {
                continue;
            }
            if let Some((part, time)) = self.places.try_again(index, message) {
                longest = longest.max(time);
                tried.push((index, part));
            }
        }
        (tried, longest)
    }

    /// What the last session left on the wire must not arrive after what comes now.
    async fn next_session(
        &self,
        last: &mut Option<Arc<Session>>,
        deadline: Instant,
    ) -> Result<Arc<Session>, String> {
        if let Some(last) = last.as_ref() {
            // It is open still if its call was dropped half way.
            last.close(Closed::Poisoned);
            let ended = timeout_at(deadline, last.ended()).await;
            ended.map_err(|error| error.to_string())?;
        }
        let session = self.fresh(self.config().batch_bytes, deadline).await?;
        Ok(Arc::clone(last.insert(session)))
    }

    /// Asks the cluster first. Whether it answered. A client without a past asks a broker that answers.
    async fn might_work(&self, session: &Session, tried: &mut Tried, deadline: Instant) -> bool {
        let mut topics: Vec<Topic> = tried.iter().map(|(_, part)| part.topic.clone()).collect();
        topics.sort_unstable();
        topics.dedup();
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(states) = session.look(topics, left / 2).await else {
            return false;
        };
        for state in &states {
            self.places.learn(state);
        }
        tried.retain(|(_, part)| {
            let state = states.iter().find(|state| state.topic == part.topic);
            // Where time ran out, the part is due again a little later.
            state.is_some_and(|state| !self.places.has_failed(part, state))
        });
        true
    }

    /// Sends what is to be tried. What remains in `tried` was thrown away because of another, or said nothing.
    async fn try_with(
        &self,
        session: &Arc<Session>,
        sheet: &mut Sheet<'_>,
        tried: &mut Tried,
        deadline: Instant,
    ) {
        let ticket = session.begin(sheet.batch);
        let unfinished = Unfinished {
            session,
            call: &ticket.call,
        };
        for (index, part) in tried.iter() {
            let message = &sheet.batch[*index];
            // A key's partition is chosen as ever, so that it is in no other for having been tried.
            let partition = part.partition.filter(|_| message.key.is_none());
            let handed_over = session.hand_over(&ticket, *index, message, partition);
            if let Handover::Refused(code) = handed_over {
                ticket.call.hand_over();
                ticket.call.report(*index, Err((code, None)));
            }
        }
        timeout_at(deadline, settled_or_fatal(session, &ticket.call))
            .await
            .unwrap_or(());
        let patience = Instant::now() + SETTLE_TIMEOUT;
        if !session.is_open() {
            // What is on the wire may still be acknowledged.
            timeout_at(deadline.min(patience), settled(&ticket.call))
                .await
                .unwrap_or(());
        }
        session.close(Closed::Poisoned);
        timeout_at(patience, settled(&ticket.call))
            .await
            .unwrap_or(());
        drop(unfinished);
        let reports = ticket.call.reports();
        tried.retain(|(index, part)| match reports[*index] {
            Some(Ok(())) => {
                sheet.outcomes[*index] = Some(Ok(()));
                self.places.recovered(part);
                false
            }
            Some(Err((code, _))) => self.is_undecided(code, *index, part, sheet),
            None => true,
        });
    }

    /// Draws the conclusions of a message that was not taken; whether there were none.
    fn is_undecided(
        &self,
        code: rdkafka::types::RDKafkaErrorCode,
        index: usize,
        part: &Part,
        sheet: &mut Sheet<'_>,
    ) -> bool {
        let by = Refusal::Delivery {
            closed: Some(&Closed::Poisoned),
            alone: true,
        };
        match verdict(code, &sheet.batch[index], by) {
            Verdict::Again => return true,
            Verdict::Part { reason, .. } => {
                self.places.failed(&part.topic, part.partition, &reason);
            }
            Verdict::Final(error) if error.failure() == Failure::Outage => {
                let reason = error.to_string();
                self.places.failed(&part.topic, part.partition, &reason);
            }
            // It is the message, and the next round says so again.
            Verdict::Final(_) | Verdict::Oversized | Verdict::Suspect => {
                self.places.recovered(part);
            }
        }
        false
    }
}
