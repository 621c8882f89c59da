//! What may be set of a subscription, and what may not because a promise rests on it.

use std::collections::BTreeMap;

use postrider_core::Ordering;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use serde::{Deserialize, Serialize};

use super::super::config::{
    ConfigError, KafkaConfig, MOCK, OWN_FIELD, Refused, at_least, check_properties,
    default_client_id,
};
use crate::Secret;
use crate::queue::{BYTES_MAX, Limits};

/// How to read topics of a Kafka cluster as a member of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaSubscriptionConfig {
    /// `host:port` of some brokers, with commas between.
    pub bootstrap: String,
    /// Those who share the work. Each message goes to one member.
    pub group: String,
    /// At least one; names, no patterns.
    pub topics: Vec<String>,
    /// The name in the brokers' logs and quotas. Default `postrider`.
    #[serde(default = "default_client_id")]
    pub client_id: String,
    /// Where a group begins that has committed nothing yet. Default `earliest`.
    #[serde(default)]
    pub start: StartAt,
    /// Default by key.
    #[serde(default = "default_ordering")]
    pub ordering: Ordering,
    /// How many messages may be fetched and not settled. Each partition has an equal share. Default 10,000: a partition
    /// whose share is used up is paused, and librdkafka then fetches anew what it had ahead.
    #[serde(default = "default_in_flight_max")]
    pub in_flight_max: u32,
    /// Their keys, bodies and headers together; librdkafka fetches as much ahead. Default 32 MiB.
    #[serde(default = "default_in_flight_bytes_max")]
    pub in_flight_bytes_max: u32,
    /// How long a member that is not heard of keeps its partitions. Default 45,000.
    #[serde(default = "default_session_timeout_ms")]
    pub session_timeout_ms: u32,
    /// How long the group waits for what is in hand when a partition goes to another member. Default 5,000.
    #[serde(default = "default_revoke_timeout_ms")]
    pub revoke_timeout_ms: u32,
    /// librdkafka's own settings by their names, for TLS, SASL and tuning. Those that would break a
    /// promise are refused. Default none.
    #[serde(default)]
    pub properties: BTreeMap<String, Secret>,
}

/// Where a new group begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartAt {
    /// At the oldest message that the topic keeps.
    #[default]
    Earliest,
    /// At what is published from now on.
    Latest,
}

fn default_ordering() -> Ordering {
    Ordering::Key
}

fn default_in_flight_max() -> u32 {
    IN_FLIGHT_MAX
}

fn default_in_flight_bytes_max() -> u32 {
    BYTES_MAX as u32
}

fn default_session_timeout_ms() -> u32 {
    45_000
}

fn default_revoke_timeout_ms() -> u32 {
    5_000
}

const COMMIT: &str = "an offset is committed only when everything before it is done";
/// See [`KafkaSubscriptionConfig::in_flight_max`].
const IN_FLIGHT_MAX: u32 = 10_000;
const PREFETCH: &str = "what is fetched ahead follows from in_flight_max and in_flight_bytes_max";
const POLL_INTERVAL: &str = "max.poll.interval.ms";
const POLL_INTERVAL_MS: u32 = 300_000;

const REFUSED: Refused = &[
    ("auto.commit.enable", COMMIT),
    ("auto.commit.interval.ms", COMMIT),
    ("auto.offset.reset", OWN_FIELD),
    ("bootstrap.servers", OWN_FIELD),
    ("client.id", OWN_FIELD),
    ("enable.auto.commit", COMMIT),
    ("enable.auto.offset.store", COMMIT),
    ("group.id", OWN_FIELD),
    (
        "group.protocol",
        "session_timeout_ms and the assignor belong to the classic protocol",
    ),
    ("metadata.broker.list", OWN_FIELD),
    ("offset.store.method", COMMIT),
    ("queued.max.messages.kbytes", PREFETCH),
    ("queued.min.messages", PREFETCH),
    ("session.timeout.ms", OWN_FIELD),
    ("test.mock.num.brokers", MOCK),
];

impl KafkaSubscriptionConfig {
    /// Defaults for everything but the addresses.
    pub fn new<T: Into<String>>(
        bootstrap: impl Into<String>,
        group: impl Into<String>,
        topics: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            bootstrap: bootstrap.into(),
            group: group.into(),
            topics: topics.into_iter().map(Into::into).collect(),
            client_id: default_client_id(),
            start: StartAt::default(),
            ordering: default_ordering(),
            in_flight_max: default_in_flight_max(),
            in_flight_bytes_max: default_in_flight_bytes_max(),
            session_timeout_ms: default_session_timeout_ms(),
            revoke_timeout_ms: default_revoke_timeout_ms(),
            properties: BTreeMap::new(),
        }
    }

    /// The same, at the cluster that is published to: its address, client id and properties are taken over.
    pub fn at<T: Into<String>>(
        cluster: &KafkaConfig,
        group: impl Into<String>,
        topics: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            client_id: cluster.client_id.clone(),
            properties: cluster.properties.clone(),
            ..Self::new(&cluster.bootstrap, group, topics)
        }
    }

    /// Whether the values can be used together; what librdkafka thinks of them shows when a
    /// subscription is made.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.bootstrap.trim().is_empty() {
            return Err(ConfigError::NoBootstrap);
        }
        if self.group.is_empty() {
            return Err(ConfigError::Empty { key: "group" });
        }
        if self.topics.is_empty() || self.topics.iter().any(String::is_empty) {
            return Err(ConfigError::Empty { key: "topics" });
        }
        // librdkafka takes this for a regular expression.
        if let Some(topic) = self.topics.iter().find(|topic| topic.starts_with('^')) {
            return Err(ConfigError::Pattern {
                topic: topic.clone(),
            });
        }
        at_least("in_flight_max", 1, self.in_flight_max)?;
        at_least("in_flight_bytes_max", 1_024, self.in_flight_bytes_max)?;
        check_properties(&self.properties, REFUSED)?;
        let poll_interval_ms = self.poll_interval_ms();
        if self.revoke_timeout_ms >= poll_interval_ms {
            return Err(ConfigError::RevokeTooSlow {
                revoke_timeout_ms: self.revoke_timeout_ms,
                poll_interval_ms,
            });
        }
        Ok(())
    }

    /// What librdkafka cannot read as a number, it will refuse itself.
    fn poll_interval_ms(&self) -> u32 {
        let set = self.properties.get(POLL_INTERVAL);
        set.and_then(|value| value.expose().parse().ok())
            .unwrap_or(POLL_INTERVAL_MS)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            count_max: self.in_flight_max as usize,
            bytes_max: self.in_flight_bytes_max as usize,
            ordering: self.ordering,
        }
    }

    pub(super) fn client_config(&self) -> ClientConfig {
        /// librdkafka's own limit.
        const PREFETCH_MESSAGES_MAX: u32 = 10_000_000;
        const PREFETCH_KBYTES_MAX: u32 = 2_097_151;
        let prefetch = self.in_flight_max.min(PREFETCH_MESSAGES_MAX);
        let prefetch_kbytes = (self.in_flight_bytes_max / 1_024).clamp(1, PREFETCH_KBYTES_MAX);
        let mut config = ClientConfig::new();
        config
            .set_log_level(RDKafkaLogLevel::Info)
            .set("bootstrap.servers", &self.bootstrap)
            .set("client.id", &self.client_id)
            .set("group.id", &self.group)
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("reconnect.backoff.max.ms", "1000")
            // A topic that is created late, and new partitions, are seen within this time.
            .set("topic.metadata.refresh.interval.ms", "10000")
            // After a full queue the next fetch should not take a second.
            .set("fetch.queue.backoff.ms", "50")
            // Where the high watermarks come from.
            .set("statistics.interval.ms", "2000");
        for (key, value) in &self.properties {
            config.set(key, value.expose());
        }
        config
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", self.start.name())
            .set("session.timeout.ms", self.session_timeout_ms.to_string())
            .set("queued.min.messages", prefetch.to_string())
            .set("queued.max.messages.kbytes", prefetch_kbytes.to_string());
        config
    }
}

impl StartAt {
    fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Latest => "latest",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> KafkaSubscriptionConfig {
        KafkaSubscriptionConfig::new("127.0.0.1:9092", "group", ["orders"])
    }

    #[test]
    fn what_promises_rest_on_cannot_be_set() {
        for (key, why) in REFUSED {
            let mut config = config();
            config.properties.insert((*key).into(), "1".into());
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(why), "{error}");
        }
        super::super::super::config::assert_known(REFUSED);
    }

    #[test]
    fn a_group_and_topics_are_needed() {
        config().validate().unwrap();
        for (group, topics) in [("", &["a"][..]), ("g", &[]), ("g", &[""]), ("g", &["^a.*"])] {
            let config = KafkaSubscriptionConfig::new("a:1", group, topics.iter().copied());
            assert!(config.validate().is_err(), "{group} {topics:?}");
        }
    }

    #[test]
    fn waiting_for_work_in_hand_must_not_cost_the_membership() {
        let mut config = config();
        config
            .properties
            .insert(POLL_INTERVAL.into(), "5000".into());
        let error = config.validate().unwrap_err();
        assert!(matches!(error, ConfigError::RevokeTooSlow { .. }));
        config.revoke_timeout_ms = 4_999;
        config.validate().unwrap();
    }

    #[test]
    fn only_the_address_the_group_and_topics_need_to_be_written() {
        let text = r#"{"bootstrap": "127.0.0.1:9092", "group": "group", "topics": ["orders"]}"#;
        let parsed: KafkaSubscriptionConfig = serde_json::from_str(text).unwrap();
        assert_eq!(parsed, config());
    }
}
