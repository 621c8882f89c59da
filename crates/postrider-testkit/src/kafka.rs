//! A Kafka cluster as tests see it: fresh topics, and everything that a topic holds.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::services::services;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A handle on a cluster; each call makes its own connection.
#[derive(Debug, Clone)]
pub struct Kafka {
    bootstrap: String,
}

/// What the broker holds, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaRecord {
    pub partition: i32,
    pub offset: i64,
    /// When its producer was given it, in milliseconds.
    pub produced_at: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Kafka {
    /// The cluster that all tests share.
    pub fn shared() -> Self {
        Self::at(&services().kafka)
    }

    pub fn at(bootstrap: impl Into<String>) -> Self {
        Self {
            bootstrap: bootstrap.into(),
        }
    }

    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Creates a topic with a name of its own.
    pub async fn fresh_topic(&self, partitions: i32) -> String {
        let name = fresh_topic_name();
        self.create_topic(&name, partitions, &[]).await;
        name
    }

    /// Creates a topic with settings, for example `max.message.bytes`.
    pub async fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> =
            self.config().create().expect("admin client");
        let topic = settings.iter().fold(
            NewTopic::new(name, partitions, TopicReplication::Fixed(1)),
            |topic, (key, value)| topic.set(key, value),
        );
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
        let results = admin
            .create_topics([&topic], &options)
            .await
            .expect("create_topics answers");
        for result in results {
            result.unwrap_or_else(|(name, code)| panic!("topic {name} not created: {code}"));
        }
        let (config, name) = (self.config(), name.to_owned());
        blocking(move || {
            drop(admin);
            let consumer: BaseConsumer = config.create().expect("consumer");
            led_partitions(&consumer, &name, Instant::now() + TIMEOUT);
        })
        .await;
    }

    /// Sets what is set of a topic, and nothing else of it.
    pub async fn configure_topic(&self, name: &str, settings: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> =
            self.config().create().expect("admin client");
        let change = settings.iter().fold(
            AlterConfig::new(ResourceSpecifier::Topic(name)),
            |change, (key, value)| change.set(key, value),
        );
        let changed = admin.alter_configs([&change], &AdminOptions::new()).await;
        for result in changed.expect("alter_configs answers") {
            result.unwrap_or_else(|(_, code)| panic!("topic {name} not configured: {code}"));
        }
        blocking(move || drop(admin)).await;
    }

    /// Deletes a topic and waits until the cluster knows nothing of it.
    pub async fn delete_topic(&self, name: &str) {
        let admin: AdminClient<DefaultClientContext> =
            self.config().create().expect("admin client");
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
        let deleted = admin.delete_topics(&[name], &options).await;
        for result in deleted.expect("delete_topics answers") {
            result.unwrap_or_else(|(name, code)| panic!("topic {name} not deleted: {code}"));
        }
        blocking(move || drop(admin)).await;
        let gone = async || match self.leaders(name).await {
            leaders if leaders.is_empty() => Ok(()),
            leaders => Err(leaders),
        };
        crate::eventually("the topic is gone", gone).await;
    }

    /// The leader of each partition, by its number; -1 where there is none.
    pub async fn leaders(&self, topic: &str) -> BTreeMap<i32, i32> {
        let (config, topic) = (self.config(), topic.to_owned());
        blocking(move || {
            let consumer: BaseConsumer = config.create().expect("consumer");
            let metadata = consumer.fetch_metadata(Some(&topic), TIMEOUT);
            let metadata = metadata.expect("metadata");
            let partitions = metadata.topics()[0].partitions().iter();
            partitions
                .map(|partition| (partition.id(), partition.leader()))
                .collect()
        })
        .await
    }

    /// All records up to the end that each partition has now, by partition and offset.
    pub async fn records(&self, topic: &str) -> Vec<KafkaRecord> {
        let (config, topic) = (self.config(), topic.to_owned());
        blocking(move || read_all(&config, &topic)).await
    }

    /// What the group has committed, by partition.
    pub async fn committed(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let mut config = self.config();
        config.set("group.id", group);
        let topic = topic.to_owned();
        blocking(move || {
            let consumer: BaseConsumer = config.create().expect("consumer");
            let partitions = led_partitions(&consumer, &topic, Instant::now() + TIMEOUT);
            let mut list = TopicPartitionList::new();
            for partition in partitions {
                list.add_partition(&topic, partition);
            }
            let committed = consumer.committed_offsets(list, TIMEOUT);
            let committed = committed.expect("the coordinator answers");
            let elements = committed.elements();
            let known = elements
                .iter()
                .filter_map(|element| match element.offset() {
                    Offset::Offset(offset) => Some((element.partition(), offset)),
                    _ => None,
                });
            known.collect()
        })
        .await
    }

    /// How many members the group has, those that are about to join included.
    pub async fn members(&self, group: &str) -> usize {
        let (config, group) = (self.config(), group.to_owned());
        blocking(move || {
            let consumer: BaseConsumer = config.create().expect("consumer");
            let groups = consumer.fetch_group_list(Some(&group), TIMEOUT);
            let groups = groups.expect("the coordinator answers");
            let found = groups.groups().iter().find(|found| found.name() == group);
            found.map_or(0, |found| found.members().len())
        })
        .await
    }

    pub(crate) async fn answers(&self) -> bool {
        let config = self.config();
        blocking(move || {
            let consumer: BaseConsumer = config.create().expect("consumer");
            let metadata = consumer.fetch_metadata(None, Duration::from_millis(500));
            metadata.is_ok_and(|metadata| !metadata.brokers().is_empty())
        })
        .await
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", "postrider-testkit")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("allow.auto.create.topics", "false")
            .set_log_level(RDKafkaLogLevel::Error);
        config
    }
}

/// A topic name that no other test uses.
pub fn fresh_topic_name() -> String {
    format!("test-{}", uuid::Uuid::now_v7().simple())
}

fn read_all(config: &ClientConfig, topic: &str) -> Vec<KafkaRecord> {
    let consumer: BaseConsumer = config.create().expect("consumer");
    let deadline = Instant::now() + TIMEOUT;
    let partitions = led_partitions(&consumer, topic, deadline);
    let mut assignment = TopicPartitionList::new();
    for partition in &partitions {
        let start = Offset::Beginning;
        assignment
            .add_partition_offset(topic, *partition, start)
            .expect("a valid offset");
    }
    consumer.assign(&assignment).expect("assignment");

    let mut unread: HashSet<i32> = partitions.into_iter().collect();
    let mut records = Vec::new();
    while !unread.is_empty() {
        assert!(
            Instant::now() < deadline,
            "topic {topic} could not be read: {unread:?} left"
        );
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => records.push(record(&message)),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                unread.remove(&partition);
            }
            Some(Err(error)) => panic!("topic {topic} could not be read: {error}"),
            None => {}
        }
    }
    records.sort_by_key(|record| (record.partition, record.offset));
    records
}

/// All partitions, once each has a leader: a new topic is not known everywhere at once.
fn led_partitions(consumer: &BaseConsumer, topic: &str, deadline: Instant) -> Vec<i32> {
    loop {
        let metadata = consumer
            .fetch_metadata(Some(topic), TIMEOUT)
            .expect("metadata");
        let partitions = metadata.topics()[0].partitions();
        if !partitions.is_empty() && partitions.iter().all(|partition| partition.leader() >= 0) {
            return partitions.iter().map(|partition| partition.id()).collect();
        }
        assert!(Instant::now() < deadline, "topic {topic} does not exist");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn record(message: &BorrowedMessage<'_>) -> KafkaRecord {
    let headers = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter());
    KafkaRecord {
        partition: message.partition(),
        offset: message.offset(),
        produced_at: message.timestamp().to_millis(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect(),
    }
}

/// librdkafka's calls block, and so do its destructors.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}
