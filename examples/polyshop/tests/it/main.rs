//! The shop as its processes: real Postgres, real Kafka, real programs.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

mod conformance;
mod database;
mod dead_letters;
mod gateway;
mod jaeger;
mod languages;
mod mailbox;
mod mixed_set;
mod own_tests;
mod process;
mod runbook;
mod rust_set;
mod shop;
mod traces;
