//! PackFinderz as it runs: the real programs, configured by their environment, on real Postgres, Redis and Pub/Sub.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

mod catalogue;
mod compliance;
mod crash;
mod flow;
mod idempotency;
mod migrations;
mod pacing;
mod program;
mod publisher;
mod redelivery;
mod rejected;
mod roles;
mod run;
mod tree;
mod world;
