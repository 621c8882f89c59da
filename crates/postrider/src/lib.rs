//! Postrider: the transactional outbox and inbox runtime.
//!
//! A service writes its events in its own database transaction; a [`Relay`] carries them to a broker, at
//! least once and in order per key.
//!
//! ```no_run
//! use std::sync::Arc;
//! use postrider::brokers::memory::MemoryBroker;
//! use postrider::core::{Event, Layout, Router, Routes};
//! use postrider::stores::postgres::{self, Options, Outbox, PostgresStore};
//! use postrider::Relay;
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let layout = Layout::preset("polyshop")?;
//! let pool = postgres::connect("postgres://localhost/shop", 8)?;
//!
//! // In the service: the event is part of the business transaction.
//! let outbox = Outbox::new(layout.clone());
//! let mut tx = pool.begin().await?;
//! let event = Event::json("order.order.placed.v1", &serde_json::json!({ "orderId": 7 }))?
//!     .aggregate_id("7");
//! outbox.emit(&mut tx, event).await?;
//! tx.commit().await?;
//!
//! // In the same process or any other: the relay.
//! let store = PostgresStore::new(pool, Options::new(layout.clone()));
//! let router = Router::new(&layout, Routes::new(), Some("order-service".into()));
//! Relay::builder(Arc::new(store), Arc::new(MemoryBroker::default()), router)
//!     .build()
//!     .run(CancellationToken::new())
//!     .await?;
//! # Ok(()) }
//! ```

mod cleanup;
pub mod consumer;
mod failpoints;
mod health;
mod lines;
pub mod metrics;
pub mod relay;
pub mod replay;
pub mod source;
#[cfg(feature = "otlp")]
pub mod telemetry;
mod trace;
pub mod verify;

pub use cleanup::Cleanup;
pub use consumer::Consumer;
pub use health::{Dependency, Health, HealthReport};
pub use metrics::Metrics;
pub use postrider_brokers as brokers;
pub use postrider_core as core;
pub use postrider_stores as stores;
pub use relay::Relay;
pub use replay::Replay;
pub use source::Source;
pub use verify::Verify;

/// The README's program is compiled with the documentation's.
#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../../README.md")]
mod readme {}
