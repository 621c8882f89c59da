//! Every broker against the publisher's contract, and what only one of them can do.

mod kafka;
mod memory;
mod pubsub;
