//! Where the orders come from.

use std::sync::Arc;

use postrider::brokers::kafka::{KafkaSubscription, KafkaSubscriptionConfig};
use postrider::brokers::pubsub::{PubSubSubscription, PubSubSubscriptionConfig};
use postrider::core::{Ordering, Subscription};

use crate::shop::{Broker, Failure, setting, setting_or};

pub(crate) fn subscribe(broker: &Broker) -> Result<Arc<dyn Subscription>, Failure> {
    let ordering = match &*setting_or("ORDERING", "key".to_owned())? {
        "key" => Ordering::Key,
        "none" => Ordering::None,
        other => return Err(format!("ORDERING is key or none, not {other}").into()),
    };
    Ok(match broker {
        Broker::Kafka(cluster) => {
            let topics = [setting("TOPIC")?];
            let mut config = KafkaSubscriptionConfig::at(cluster, setting("GROUP")?, topics);
            config.ordering = ordering;
            config.session_timeout_ms = setting_or("SESSION_MS", config.session_timeout_ms)?;
            config.revoke_timeout_ms = setting_or("REVOKE_MS", config.revoke_timeout_ms)?;
            // librdkafka's own. With `group.instance.id=one`, a process that starts again goes on where it was,
            // without a rebalance.
            for property in setting_or("KAFKA_PROPERTIES", String::new())?.split_whitespace() {
                let (name, value) = property
                    .split_once('=')
                    .ok_or("KAFKA_PROPERTIES are name=value")?;
                config.properties.insert(name.into(), value.into());
            }
            Arc::new(KafkaSubscription::new(config)?)
        }
        Broker::PubSub(project) => {
            let name = setting("SUBSCRIPTION")?;
            let mut config = PubSubSubscriptionConfig::new(&project.project, name);
            config.ordering = ordering;
            config.lease_secs = setting_or("LEASE_SECS", config.lease_secs)?;
            config.in_flight_max = setting_or("IN_FLIGHT_MAX", config.in_flight_max)?;
            Arc::new(PubSubSubscription::new(config)?)
        }
    })
}
