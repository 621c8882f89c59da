//! Development only. Real servers, a fresh schema or topic per test, waiting without sleeping, and the
//! conformance suites that every store and broker passes.

mod acl;
pub mod collector;
pub mod conformance;
pub mod database;
pub mod history;
pub mod kafka;
pub mod pooler;
pub mod pubsub;
pub mod redis;
pub mod services;
pub mod sqlite;
mod wait;

pub use wait::{eventually, eventually_within};
