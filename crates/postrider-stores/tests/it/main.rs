//! The stores against a real Postgres. One binary; a fresh schema per test.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

mod check;
mod conformance;
mod emit;
mod faults;
mod inversion;
mod refusal;
mod schema;
mod upkeep;
mod wake;
mod world;
