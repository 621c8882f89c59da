//! The relay on real servers. Each test names the acceptance script it checks (`A0-03`), so that a
//! search for the id finds the test.

mod claims;
mod dead_letters;
mod gopipe;
mod hostile;
mod lifecycle;
mod logs;
mod operations;
mod pacing;
mod packfinderz;
mod polyshop;
mod pubsub;
mod talkie;
mod transitions;
mod witness;
mod world;
