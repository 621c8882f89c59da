//! What the cluster says about topics.

use std::time::Duration;

use postrider_core::Topic;
use rdkafka::client::Client;
use rdkafka::producer::ProducerContext;
use rdkafka::types::RDKafkaErrorCode;
use tokio::time::Instant;

/// Whether a topic, and each of its partitions, can be written to, as far as the cluster tells.
#[derive(Debug, Clone)]
pub(super) struct TopicState {
    pub(super) topic: Topic,
    pub(super) partitions: i32,
    error: Option<RDKafkaErrorCode>,
    /// Partitions without a leader.
    leaderless: Vec<i32>,
}

/// Asks about one topic after the other. Fails if nobody answers; if time runs out later, some are missing. Blocks.
pub(super) fn look<C: ProducerContext>(
    client: &Client<C>,
    topics: &[Topic],
    timeout: Duration,
) -> Result<Vec<TopicState>, String> {
    let deadline = Instant::now() + timeout;
    let mut states = Vec::with_capacity(topics.len());
    for topic in topics {
        let left = deadline.saturating_duration_since(Instant::now());
        let metadata = match client.fetch_metadata(Some(topic.as_str()), left) {
            Ok(metadata) => metadata,
            Err(error) if states.is_empty() => return Err(error.to_string()),
            Err(_) => break,
        };
        let mut state = TopicState::of(topic.clone(), 0);
        if let Some(found) = metadata.topics().first() {
            state.error = found.error().map(RDKafkaErrorCode::from);
            state.partitions = i32::try_from(found.partitions().len()).unwrap_or(i32::MAX);
            let without_leader = found.partitions().iter().filter(|p| p.leader() < 0);
            state.leaderless = without_leader.map(|partition| partition.id()).collect();
        }
        states.push(state);
    }
    Ok(states)
}

impl TopicState {
    /// As if all were well.
    pub(super) fn of(topic: Topic, partitions: i32) -> Self {
        Self {
            topic,
            partitions,
            error: None,
            leaderless: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn without_leader(mut self, partition: i32) -> Self {
        self.leaderless.push(partition);
        self
    }

    pub(super) fn leaderless(&self) -> &[i32] {
        &self.leaderless
    }

    /// Why the partition, or the topic if none is named, takes no writes. `None` if it should.
    pub(super) fn trouble(&self, partition: Option<i32>) -> Option<String> {
        if let Some(code) = self.error {
            return Some(reason(code));
        }
        match partition {
            Some(number) if self.leaderless.contains(&number) => Some("it has no leader".into()),
            Some(_) => None,
            None => {
                let all = usize::try_from(self.partitions).ok()?;
                (self.leaderless.len() >= all).then(|| "it has no leader".into())
            }
        }
    }
}

/// What a code says about a topic.
pub(super) fn reason(code: RDKafkaErrorCode) -> String {
    use RDKafkaErrorCode as Code;
    match code {
        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::UnknownTopicId => "it does not exist".into(),
        Code::TopicAuthorizationFailed => {
            "not authorized: grant the operations Describe and Write on it".into()
        }
        code => code.to_string(),
    }
}
