//! The relay on real servers. Each test names the acceptance script it checks (`A0-03`), so that a
//! search for the id finds the test.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

mod bounds;
mod claims;
mod consumer;
mod dead_letters;
mod endtoend;
mod fake;
mod gopipe;
mod hostile;
mod hostile_rows;
mod lifecycle;
mod logs;
mod native;
mod operations;
mod ordering;
mod pacing;
mod packfinderz;
mod parts;
mod polyshop;
mod pubsub;
mod replay;
mod source;
mod talkie;
mod transitions;
mod verify;
mod witness;
mod world;
