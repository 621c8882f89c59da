//! The stores against a real Postgres and a real Redis. One binary; a fresh schema per test.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

mod check;
mod conformance;
mod diagnosis;
mod emit;
mod faults;
mod hot;
mod inbox;
mod inversion;
mod lease;
mod parked;
#[cfg(feature = "redis")]
mod redis;
mod refusal;
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stream;
mod transactions;
mod upkeep;
mod wake;
mod world;
