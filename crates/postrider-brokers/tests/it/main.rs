//! Every broker against the contracts, and what only one of them can do.

mod diagnosis;
mod kafka;
mod memory;
mod parts;
mod pubsub;
mod readback;
mod subscription_kafka;
mod subscription_memory;
mod subscription_pubsub;
