//! The relay on real servers. Each test names the acceptance script it checks (`A0-03`), so that a
//! search for the id finds the test.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

mod claims;
mod consumer;
mod dead_letters;
mod endtoend;
mod gopipe;
mod hostile;
mod lifecycle;
mod logs;
mod native;
mod operations;
mod ordering;
mod pacing;
mod packfinderz;
mod polyshop;
mod pubsub;
mod replay;
mod talkie;
mod transitions;
mod verify;
mod witness;
mod world;
