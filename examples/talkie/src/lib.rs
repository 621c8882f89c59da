//! Talkie: a chat that records every message and its event in one transaction. The [`OutboxModule`] carries the events
//! to Kafka, inside the application or as a process of its own.

pub mod chat;
pub mod dead;
pub mod http;
pub mod operational;
mod outbox_module;
pub mod reader;
mod settings;

pub use outbox_module::OutboxModule;
pub use settings::{OutboxSettings, SettingsFile};
