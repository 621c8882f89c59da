//! Talkie on real servers: the module in a test's hands, and the binary in both modes.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

mod binary;
mod dead_letters;
mod failures;
mod modes;
mod reader;
mod reload;
mod world;
