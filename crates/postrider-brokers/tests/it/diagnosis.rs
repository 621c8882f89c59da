//! What is said of Kafka topics is what publishing to them does.

use std::time::Duration;

use postrider_brokers::kafka::{Compression, diagnose};
use postrider_brokers::{KafkaConfig, KafkaPublisher};
use postrider_core::{Finding, Level, Message, Publisher as _, Topic};
use postrider_testkit::kafka::{Kafka, fresh_topic_name};

/// Messages are as large as they are.
fn config() -> KafkaConfig {
    KafkaConfig {
        compression: Compression::None,
        ..KafkaConfig::new(Kafka::shared().bootstrap())
    }
}

async fn asked(topics: &[Topic]) -> Vec<Finding> {
    let answer = diagnose(&config(), topics).await;
    answer.expect("the cluster answers")
}

/// Without the note that the tests' cluster has one broker.
async fn said(topic: &Topic) -> Vec<Finding> {
    let mut findings = asked(std::slice::from_ref(topic)).await;
    findings.retain(|finding| {
        assert_eq!(finding.subject, format!("topic {topic}"));
        !finding.message.starts_with("has one replica")
    });
    findings
}

async fn topic(settings: &[(&str, &str)]) -> Topic {
    let name = fresh_topic_name();
    Kafka::shared().create_topic(&name, 2, settings).await;
    name.into()
}

async fn takes(topic: &Topic, bytes: usize) -> bool {
    let publisher = KafkaPublisher::new(config()).expect("a valid config");
    let message = Message {
        topic: topic.clone(),
        key: None,
        ordered: false,
        payload: Some(vec![b'x'; bytes].into()),
        headers: Vec::new(),
    };
    let outcomes = publisher.publish(&[message], Duration::from_secs(5)).await;
    outcomes[0].is_ok()
}

#[tokio::test]
async fn a_topic_in_good_order_has_one_note_on_a_cluster_of_one() {
    let topic = topic(&[]).await;
    assert_eq!(said(&topic).await, []);
    let all = asked(std::slice::from_ref(&topic)).await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].level, Level::Note);
    assert!(takes(&topic, 10_000).await);
}

#[tokio::test]
async fn a_topic_that_is_missing_is_named_and_not_made() {
    let topic: Topic = fresh_topic_name().into();
    for _ in 0..2 {
        let findings = said(&topic).await;
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].level, Level::Warning);
        assert!(findings[0].message.starts_with("does not exist"));
    }
}

#[tokio::test]
async fn a_topic_that_takes_less_than_the_config_lets_through_is_named() {
    let topic = topic(&[("max.message.bytes", "5000")]).await;
    let findings = said(&topic).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].level, Level::Warning);
    assert!(findings[0].message.contains("5000"), "{findings:?}");
    assert!(takes(&topic, 1_000).await);
    assert!(!takes(&topic, 20_000).await);
}

#[tokio::test]
async fn a_topic_that_wants_more_replicas_in_sync_than_it_has_is_named() {
    let topic = topic(&[("min.insync.replicas", "2")]).await;
    let findings = said(&topic).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].level, Level::Warning);
    let remedy = findings[0].remedy.as_ref().unwrap();
    assert!(remedy.contains("min.insync.replicas=1"), "{remedy}");
    assert!(takes(&topic, 10).await, "as the message says");
}

#[tokio::test]
async fn no_more_than_a_hundred_topics_are_looked_at_and_that_is_said() {
    let topics: Vec<Topic> = (0..101).map(|_| fresh_topic_name().into()).collect();
    let findings = asked(&topics).await;
    assert_eq!(findings.len(), 101);
    assert_eq!(findings[100].message, "the first 100 of 101 were looked at");
}

#[tokio::test]
async fn a_cluster_that_is_away_is_unavailable() {
    let config = KafkaConfig::new("127.0.0.1:1");
    let error = diagnose(&config, &["t".into()]).await.unwrap_err();
    assert!(
        error.to_string().starts_with("broker unavailable"),
        "{error}"
    );
}
