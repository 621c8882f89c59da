//! Apache Kafka and what speaks its protocol, over librdkafka. The producer is idempotent, waits for all
//! in-sync replicas and never lets a message overtake one of its partition that failed. The consumer commits
//! only what is done.

mod call;
mod cluster;
mod config;
mod diagnosis;
mod error;
mod log;
mod oversize;
mod place;
mod publisher;
mod readback;
mod session;
mod sheet;
mod stall;
mod subscription;
mod trial;
mod warm;

pub use config::{Compression, ConfigError, KafkaConfig};
pub use diagnosis::diagnose;
pub use publisher::KafkaPublisher;
pub use readback::KafkaReadback;
pub use subscription::{KafkaSubscription, KafkaSubscriptionConfig, StartAt};
