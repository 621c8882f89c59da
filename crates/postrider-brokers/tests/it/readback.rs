//! What can be read back, and what happens when that breaks off.

mod kafka {
    use std::sync::Arc;

    use postrider_brokers::{KafkaConfig, KafkaReadback};
    use postrider_core::{Readback, ReadbackError, Timestamp};
    use postrider_testkit::conformance::readback::ReadbackWorld;
    use postrider_testkit::kafka::Kafka;

    use crate::kafka::{World, world};

    impl ReadbackWorld for World {
        fn readback(&self) -> Arc<dyn Readback> {
            Arc::new(at(Kafka::shared().bootstrap()))
        }
    }

    fn at(bootstrap: &str) -> KafkaReadback {
        KafkaReadback::new(KafkaConfig::new(bootstrap)).expect("a valid config")
    }

    postrider_testkit::readback_conformance!(world);

    #[tokio::test]
    async fn a_name_that_kafka_does_not_take_is_no_topic() {
        let readback = at(Kafka::shared().bootstrap());
        let beginning = Timestamp::from_micros(i64::MIN);
        let topic = "no topic!".into();
        let reading = readback.read_back(&topic, beginning, None).await;
        assert!(reading.expect("an answer").is_none());
    }

    #[tokio::test]
    async fn a_cluster_that_does_not_answer_is_told_with_its_reason() {
        let mut config = KafkaConfig::new("127.0.0.1:1");
        config
            .properties
            .insert("client.id".into(), "refused".into());
        assert!(KafkaReadback::new(config).is_err());
        let readback = at("127.0.0.1:1");
        let topic = "t".into();
        let reading = readback.read_back(&topic, Timestamp::from_micros(0), None);
        let error = reading.await.err().expect("no broker");
        assert!(
            matches!(error, ReadbackError::Unavailable { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    }
}

mod memory {
    use std::sync::Arc;
    use std::time::Duration;

    use postrider_brokers::{MemoryBroker, MemoryConfig};
    use postrider_core::{Publisher as _, Readback, Timestamp};
    use postrider_testkit::conformance::publisher::{assert_all_taken, interleaved};
    use postrider_testkit::conformance::readback::ReadbackWorld;

    use crate::memory::{World, world};

    impl ReadbackWorld for World {
        fn readback(&self) -> Arc<dyn Readback> {
            Arc::new(self.broker.clone())
        }
    }

    postrider_testkit::readback_conformance!(world);

    #[tokio::test]
    async fn what_was_dropped_is_told_and_a_stopped_broker_gives_nothing() {
        let broker = MemoryBroker::new(MemoryConfig {
            messages_max: 5,
            ..MemoryConfig::default()
        });
        let topic = "orders".into();
        let batch = interleaved(&topic, &["a"], 0, 8);
        assert_all_taken(&broker.publish(&batch, Duration::from_secs(1)).await);
        let open = broker.read_back(&topic, Timestamp::from_micros(0), None);
        let mut reading = open.await.unwrap().expect("a topic");
        assert!(reading.is_cut());
        broker.stop();
        assert!(reading.next().await.is_err());
        broker.start();
        let offsets: Vec<i64> = reading
            .next()
            .await
            .unwrap()
            .iter()
            .map(|m| m.offset)
            .collect();
        assert_eq!(offsets, [3, 4, 5, 6, 7]);
    }
}
