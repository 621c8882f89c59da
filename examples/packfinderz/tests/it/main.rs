//! PackFinderz as it runs: the real programs, configured by their environment, on real Postgres, Redis and Pub/Sub.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

mod compliance;
mod flow;
mod program;
mod publisher;
mod registry;
mod tree;
mod world;
