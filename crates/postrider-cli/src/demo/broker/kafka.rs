//! Topics on a Kafka cluster, made with the client that the relay is built on.

use std::time::Duration;

use anyhow::Context as _;
use postrider::brokers::kafka::KafkaConfig;
use postrider::core::Topic;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::types::RDKafkaErrorCode;

const PARTITIONS: i32 = 3;
/// As the cluster has it by default.
const REPLICATION: TopicReplication<'_> = TopicReplication::Fixed(-1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Gives the names of those that were not there.
pub(super) async fn create_topics(
    config: &KafkaConfig,
    topics: &[Topic],
) -> anyhow::Result<Vec<Topic>> {
    let bootstrap = &config.bootstrap;
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("client.id", &config.client_id)
        .set_log_level(RDKafkaLogLevel::Emerg)
        .create()
        .with_context(|| format!("--kafka {bootstrap} cannot be used"))?;
    let new: Vec<NewTopic> = topics
        .iter()
        .map(|topic| NewTopic::new(topic.as_str(), PARTITIONS, REPLICATION))
        .collect();
    let options = AdminOptions::new()
        .request_timeout(Some(TIMEOUT))
        .operation_timeout(Some(TIMEOUT));
    let results = admin.create_topics(&new, &options).await.with_context(|| {
        format!("Kafka at {bootstrap} does not answer; is the address right and the broker up?")
    });
    // librdkafka's destructor waits for its threads.
    drop(tokio::task::spawn_blocking(move || drop(admin)));
    let mut created = Vec::new();
    for result in results? {
        match result {
            Ok(name) => created.push(Topic::from(name)),
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, code)) => {
                anyhow::bail!("Kafka at {bootstrap} refuses to create topic {name}: {code}")
            }
        }
    }
    Ok(created)
}
