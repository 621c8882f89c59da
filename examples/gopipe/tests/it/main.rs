//! The acceptance points of the plan's tasks 1 to 5, and the set-up as a whole.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

mod binary;
mod cleanup;
mod gate;
mod inbox;
mod outbox;
mod publisher;
mod schema;
mod source;
mod world;
