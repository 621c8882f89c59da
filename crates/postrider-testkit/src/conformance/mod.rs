//! Contracts of the seams as tests, written once and run on every implementation.

pub mod publisher;
pub mod store;
