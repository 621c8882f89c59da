//! What may be set, and what may not because a promise rests on it.

use std::collections::BTreeMap;

use postrider_core::text;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use serde::{Deserialize, Serialize};

use crate::Secret;

/// How to reach a Kafka cluster and how to write to it. Acknowledgement by all in-sync replicas and
/// idempotence are always on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// `host:port` of some brokers, with commas between.
    pub bootstrap: String,
    /// The name in the brokers' logs and quotas. Default `postrider`.
    #[serde(default = "default_client_id")]
    pub client_id: String,
    /// How batches are compressed. Default `lz4`.
    #[serde(default)]
    pub compression: Compression,
    /// How long a message may wait for others to share its request. Default 0: a claim's messages
    /// are handed over together.
    #[serde(default = "default_linger_ms")]
    pub linger_ms: u32,
    /// The largest batch per partition, uncompressed. Default 1,000,000; it is lowered at run time to
    /// what a topic's `max.message.bytes` takes.
    #[serde(default = "default_bytes")]
    pub batch_bytes: u32,
    /// Key, body and headers of one message together. Default 1,000,000.
    #[serde(default = "default_bytes")]
    pub message_bytes_max: u32,
    /// librdkafka's own settings by their names, for TLS, SASL and tuning. Those that would break a
    /// promise are refused. Default none.
    #[serde(default)]
    pub properties: BTreeMap<String, Secret>,
}

/// How batches are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    None,
    Gzip,
    Snappy,
    #[default]
    Lz4,
    Zstd,
}

pub(super) fn default_client_id() -> String {
    "postrider".into()
}

fn default_linger_ms() -> u32 {
    0
}

fn default_bytes() -> u32 {
    1_000_000
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("bootstrap is empty; it needs the host:port of at least one broker")]
    NoBootstrap,
    #[error("{key} must be at least {min}, not {value}")]
    TooSmall {
        key: &'static str,
        min: u32,
        value: u32,
    },
    #[error("{key} is empty")]
    Empty { key: &'static str },
    #[error("topic {topic} is a pattern; every topic is named")]
    Pattern { topic: String },
    #[error(
        "revoke_timeout_ms ({revoke_timeout_ms}) must be less than max.poll.interval.ms ({poll_interval_ms}), \
         after which the group goes on without us"
    )]
    RevokeTooSlow {
        revoke_timeout_ms: u32,
        poll_interval_ms: u32,
    },
    #[error("property {key} cannot be set: {why}")]
    Refused { key: String, why: &'static str },
    #[error("property {key} is not accepted by librdkafka: {reason}")]
    Rejected { key: String, reason: String },
    #[error("Kafka client cannot be created: {reason}")]
    Client { reason: String },
}

impl From<KafkaError> for ConfigError {
    fn from(error: KafkaError) -> Self {
        match error {
            // The fourth part is the value, which may be a password.
            KafkaError::ClientConfig(_, reason, key, _) => Self::Rejected {
                key,
                reason: text::bounded(&reason, text::ERROR_BYTES_MAX),
            },
            other => Self::Client {
                reason: text::chain(&other),
            },
        }
    }
}

pub(super) const OWN_FIELD: &str = "it has a field of its own in the configuration";
const ACKS: &str = "an event counts as published only when all in-sync replicas have it";
const IDEMPOTENCE: &str = "without idempotence a retry inside the client duplicates and reorders";
const EXPIRY: &str = "a message that expires alone is overtaken by the next one of its key";
const QUEUE: &str = "the queue is sized so that order and memory are kept";
const REPORTS: &str = "every message needs its delivery report";
pub(super) const MOCK: &str = "a mock cluster acknowledges and forgets";
const TRANSACTIONS: &str = "messages are not sent in Kafka transactions";

/// How keys choose partitions unless the user says otherwise: as Java's clients do.
pub(super) const PARTITIONER: &str = "murmur2_random";

/// Properties that are not the user's to set, and why.
pub(super) type Refused = &'static [(&'static str, &'static str)];

const REFUSED: Refused = &[
    ("acks", ACKS),
    ("batch.size", OWN_FIELD),
    ("bootstrap.servers", OWN_FIELD),
    ("client.id", OWN_FIELD),
    ("compression.codec", OWN_FIELD),
    ("compression.type", OWN_FIELD),
    ("delivery.report.only.error", REPORTS),
    ("delivery.timeout.ms", EXPIRY),
    (
        "enable.gapless.guarantee",
        "it keeps later messages of a key from overtaking a failed one",
    ),
    ("enable.idempotence", IDEMPOTENCE),
    ("linger.ms", OWN_FIELD),
    ("max.in.flight", IDEMPOTENCE),
    ("max.in.flight.requests.per.connection", IDEMPOTENCE),
    ("message.max.bytes", OWN_FIELD),
    ("message.send.max.retries", EXPIRY),
    ("message.timeout.ms", EXPIRY),
    ("metadata.broker.list", OWN_FIELD),
    ("queue.buffering.backpressure.threshold", QUEUE),
    ("queue.buffering.max.kbytes", QUEUE),
    ("queue.buffering.max.messages", QUEUE),
    ("queue.buffering.max.ms", OWN_FIELD),
    ("queuing.strategy", "lifo sends the newest message first"),
    ("request.required.acks", ACKS),
    ("retries", EXPIRY),
    ("test.mock.num.brokers", MOCK),
    ("transactional.id", TRANSACTIONS),
];

impl KafkaConfig {
    /// Defaults for everything but the address.
    pub fn new(bootstrap: impl Into<String>) -> Self {
        Self {
            bootstrap: bootstrap.into(),
            client_id: default_client_id(),
            compression: Compression::default(),
            linger_ms: default_linger_ms(),
            batch_bytes: default_bytes(),
            message_bytes_max: default_bytes(),
            properties: BTreeMap::new(),
        }
    }

    /// Whether the values can be used together; what librdkafka thinks of them shows when a
    /// publisher is made.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.bootstrap.trim().is_empty() {
            return Err(ConfigError::NoBootstrap);
        }
        // librdkafka's own lower limits.
        at_least("batch_bytes", 1, self.batch_bytes)?;
        at_least("message_bytes_max", 1_000, self.message_bytes_max)?;
        check_properties(&self.properties, REFUSED)?;
        match self.properties.get("partitioner") {
            Some(partitioner) if partitioner.expose() == "random" => Err(ConfigError::Refused {
                key: "partitioner".into(),
                why: "messages of a key must share a partition",
            }),
            _ => Ok(()),
        }
    }

    /// The settings of a producer whose batches are at most `batch_bytes` large.
    pub(super) fn client_config(&self, batch_bytes: u32) -> ClientConfig {
        // Half of what librdkafka takes by default, and room for the largest messages in any case.
        const QUEUE_KBYTES_MIN: u32 = 512 * 1024;
        let queue_kbytes = QUEUE_KBYTES_MIN.max(self.message_bytes_max / 1024 * 4);
        let mut config = ClientConfig::new();
        config
            .set_log_level(RDKafkaLogLevel::Info)
            .set("bootstrap.servers", &self.bootstrap)
            .set("client.id", &self.client_id)
            .set("partitioner", PARTITIONER)
            .set("reconnect.backoff.max.ms", "1000")
            .set("topic.metadata.propagation.max.ms", "3000");
        for (key, value) in &self.properties {
            config.set(key, value.expose());
        }
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("enable.gapless.guarantee", "true")
            .set("message.timeout.ms", "0")
            .set("compression.type", self.compression.name())
            .set("linger.ms", self.linger_ms.to_string())
            .set("batch.size", batch_bytes.to_string())
            .set("message.max.bytes", self.message_bytes_max.to_string())
            .set("queue.buffering.max.messages", "100000")
            .set("queue.buffering.max.kbytes", queue_kbytes.to_string());
        config
    }
}

pub(super) fn at_least(key: &'static str, min: u32, value: u32) -> Result<(), ConfigError> {
    if value < min {
        Err(ConfigError::TooSmall { key, min, value })
    } else {
        Ok(())
    }
}

pub(super) fn check_properties(
    properties: &BTreeMap<String, Secret>,
    refused: Refused,
) -> Result<(), ConfigError> {
    let found = refused
        .iter()
        .find(|(key, _)| properties.contains_key(*key));
    match found {
        Some((key, why)) => Err(ConfigError::Refused {
            key: (*key).to_owned(),
            why,
        }),
        None => Ok(()),
    }
}

impl Compression {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// That librdkafka has properties of these names.
#[cfg(test)]
pub(super) fn assert_known(refused: Refused) {
    for (key, _) in refused {
        let mut config = ClientConfig::new();
        config.set(*key, "no such value, perhaps");
        let text = match config.create_native_config() {
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        assert!(!text.contains("No such configuration property"), "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, value: &str) -> KafkaConfig {
        let mut config = KafkaConfig::new("127.0.0.1:9092");
        config.properties.insert(key.into(), value.into());
        config
    }

    #[test]
    fn what_promises_rest_on_cannot_be_set() {
        for (key, why) in REFUSED {
            let error = with(key, "1").validate().unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(why), "{error}");
        }
        assert!(with("partitioner", "random").validate().is_err());
        with("partitioner", "consistent_random").validate().unwrap();
        with("sasl.password", "secret").validate().unwrap();
    }

    #[test]
    fn every_name_that_is_refused_is_one_of_librdkafkas() {
        assert_known(REFUSED);
    }

    #[test]
    fn no_output_shows_a_property() {
        let config = with("sasl.password", "hunter2");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(!serde_json::to_string(&config).unwrap().contains("hunter2"));
        let error = super::super::KafkaPublisher::new(with("sasl.passwort", "hunter2"))
            .err()
            .unwrap();
        let text = format!("{error} {error:?}");
        assert!(
            text.contains("sasl.passwort") && !text.contains("hunter2"),
            "{text}"
        );
    }

    #[test]
    fn a_config_needs_an_address_and_knows_its_fields() {
        let parse = serde_json::from_str::<KafkaConfig>;
        assert_eq!(
            parse(r#"{"bootstrap": "a:1"}"#).unwrap(),
            KafkaConfig::new("a:1")
        );
        assert!(parse("{}").unwrap_err().to_string().contains("bootstrap"));
        assert!(
            parse(r#"{"bootstrap": "a:1", "acks": "1"}"#)
                .unwrap_err()
                .to_string()
                .contains("acks")
        );
        assert!(matches!(
            KafkaConfig::new(" ").validate(),
            Err(ConfigError::NoBootstrap)
        ));
        let small = KafkaConfig {
            message_bytes_max: 10,
            ..KafkaConfig::new("a:1")
        };
        assert!(matches!(
            small.validate(),
            Err(ConfigError::TooSmall { .. })
        ));
    }
}
