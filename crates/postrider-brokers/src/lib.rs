//! Message brokers behind [`postrider_core::Publisher`]. The memory broker is always in; each other
//! one is a feature that adds a module, and all of them pass `postrider_testkit::conformance::publisher`.

mod held;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;
#[cfg(feature = "pubsub")]
pub mod pubsub;
mod secret;

#[cfg(feature = "kafka")]
pub use kafka::{KafkaConfig, KafkaPublisher};
pub use memory::{MemoryBroker, MemoryConfig};
#[cfg(feature = "pubsub")]
pub use pubsub::{PubSubConfig, PubSubPublisher};
pub use secret::Secret;
