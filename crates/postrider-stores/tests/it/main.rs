//! The stores against a real Postgres. One binary; a fresh schema per test.

mod conformance;
mod world;
