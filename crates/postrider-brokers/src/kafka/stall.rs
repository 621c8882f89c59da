//! Finds out what holds up a call. librdkafka waits for a partition without a leader, or with too few replicas,
//! for as long as it takes, and the call would wait with it until its deadline: with it wait all messages of the
//! batch that were acknowledged long ago. So a call in which nothing moves asks the cluster. A partition
//! that has no leader is given up at once. One that should work is given up after [`ANSWERS_MAX`]. If the cluster
//! gives no answer, this is an outage, and the call waits until its deadline, as it must.
//!
//! What was given up may not be sent later, and librdkafka can only throw away everything. So the session is
//! closed; what belongs to other parts goes again in the next round, and all that goes to the part fails
//! without being sent until it is due again ([`super::place`]). So only the first call waits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::Topic;
use rdkafka::types::RDKafkaErrorCode;
use tokio::time::{Instant, timeout_at};

use super::call::Call;
use super::cluster::TopicState;
use super::place::Places;
use super::publisher::{KafkaPublisher, settled_or_fatal};
use super::session::Session;
use super::sheet::Sheet;

/// How long nothing moves before the cluster is asked, and again.
const SILENCE: Duration = Duration::from_secs(1);
/// How many answers of the cluster in a row, with nothing moved in between, a partition that seems to be well may
/// outlast: five seconds at least. Elections and pauses of a broker are shorter.
const ANSWERS_MAX: u32 = 5;
/// Topics that are asked about at a time.
const TOPICS_MAX: usize = 20;

/// What holds a call up.
pub(super) struct Stall {
    states: Vec<TopicState>,
    /// Whether everything that is not acknowledged by now is taken to be stuck.
    overdue: bool,
}

/// Returns when everything is reported or the session failed; or what holds it up.
pub(super) async fn watch(
    publisher: &KafkaPublisher,
    session: &Arc<Session>,
    call: &Call,
    sheet: &Sheet<'_>,
    deadline: Instant,
) -> Option<Stall> {
    let mut answers = 0;
    let mut states = Vec::new();
    let mut underway = call.underway();
    loop {
        let look_at = deadline.min(Instant::now() + SILENCE);
        let done = timeout_at(look_at, settled_or_fatal(session, call)).await;
        if done.is_ok() {
            return None;
        }
        if call.underway() < underway {
            (answers, underway) = (0, call.underway());
        } else if Instant::now() < deadline {
            let topics = stuck_topics(call, sheet);
            if let Ok(seen) = publisher.look(session, topics, deadline).await {
                (answers, states) = (answers + 1, seen);
            }
        }
        let is_over = Instant::now() >= deadline;
        let stall = Stall {
            overdue: answers >= ANSWERS_MAX || is_over && answers > 0,
            states: std::mem::take(&mut states),
        };
        if stall.overdue || stall.is_news(&publisher.places) {
            return Some(stall);
        }
        if is_over {
            return None;
        }
        states = stall.states;
    }
}

fn stuck_topics(call: &Call, sheet: &Sheet<'_>) -> Vec<Topic> {
    let reports = call.reports();
    let open = sheet.open().filter(|index| reports[*index].is_none());
    let topics = open.map(|index| &sheet.batch[index].topic);
    let distinct: HashSet<&Topic> = topics.collect();
    distinct.into_iter().take(TOPICS_MAX).cloned().collect()
}

impl Stall {
    /// Whether there are partitions without a leader that were not known. An unknown topic is left to librdkafka, which
    /// reports it by itself, a little later in case it is being created.
    fn is_news(&self, places: &Places) -> bool {
        let unknown = |state: &TopicState| {
            let mut leaderless = state.leaderless().iter();
            leaderless.any(|number| !places.is_closed(&state.topic, *number))
        };
        self.states.iter().any(unknown)
    }

    /// Closes what is known to be down, before others hand over more to it.
    pub(super) fn close_parts(&self, places: &Places) {
        for state in &self.states {
            places.learn(state);
            for number in state.leaderless() {
                if let Some(reason) = state.trouble(Some(*number)) {
                    places.failed(&state.topic, Some(*number), &reason);
                }
            }
        }
    }

    /// Why a message was given up that was thrown away with this code, if it was because of its partition.
    pub(super) fn blames(
        &self,
        topic: &Topic,
        partition: Option<i32>,
        code: RDKafkaErrorCode,
    ) -> Option<String> {
        let is_purged = matches!(
            code,
            RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight
        );
        let state = self.states.iter().find(|state| state.topic == *topic);
        let trouble = state.and_then(|state| state.trouble(partition));
        // Without a partition it was never sent: the client had not heard of its topic, perhaps because it asked the
        // broker that is silent. The next session asks another.
        let is_stuck = self.overdue && partition.is_some();
        let silent = || "it acknowledges nothing, although the broker answers".to_owned();
        let reason = trouble.or_else(|| is_stuck.then(silent));
        reason.filter(|_| is_purged)
    }
}
