//! Contracts of the seams as tests, written once and run on every implementation.

pub mod idempotency;
pub mod inbox;
pub mod publisher;
pub mod readback;
pub mod store;
pub mod subscription;
