//! Message brokers behind [`postrider_core::Publisher`] and [`postrider_core::Subscription`]. The memory
//! broker is always in; each other one is a feature that adds a module, and all of them pass
//! `postrider_testkit::conformance::{publisher, subscription}`. Those that can be read back are a
//! [`postrider_core::Readback`] too.

mod held;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;
#[cfg(any(feature = "kafka", feature = "pubsub"))]
mod parts;
#[cfg(feature = "pubsub")]
pub mod pubsub;
mod queue;
mod secret;

#[cfg(feature = "kafka")]
pub use kafka::{
    KafkaConfig, KafkaPublisher, KafkaReadback, KafkaSubscription, KafkaSubscriptionConfig,
};
pub use memory::{MemoryBroker, MemoryConfig, MemorySubscription, MemorySubscriptionConfig};
#[cfg(feature = "pubsub")]
pub use pubsub::{PubSubConfig, PubSubPublisher, PubSubSubscription, PubSubSubscriptionConfig};
pub use secret::Secret;
