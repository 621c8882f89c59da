//! The shop as its processes: real Postgres, real Kafka, real programs.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

mod dead_letters;
mod mixed_set;
mod process;
mod rust_set;
mod shop;
mod traces;
