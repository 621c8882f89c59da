//! The stores against a real Postgres and a real Redis. One binary; a fresh schema per test.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

mod check;
mod conformance;
mod diagnosis;
mod emit;
mod faults;
mod floor;
mod floor_order;
mod hot;
mod inbox;
mod inversion;
mod lease;
mod parked;
mod poison;
mod pooler;
#[cfg(feature = "redis")]
mod redis;
mod refusal;
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stream;
mod tables;
mod transactions;
mod unsettled;
mod upkeep;
mod vanished;
mod wake;
mod world;
