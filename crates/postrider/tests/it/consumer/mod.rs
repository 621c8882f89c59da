//! The consumer runtime, on real databases and brokers.

mod acting;
mod bad_handlers;
mod bad_input;
mod batch_failures;
mod batch_leavers;
mod batches;
mod captured;
mod chain;
mod cleanup;
mod dead_letters;
mod gopipe;
mod kafka;
mod letters;
mod outage;
mod packfinderz;
mod parked;
mod polyshop;
mod random;
mod redis;
mod settings;
mod stop;
mod telemetry;
mod world;
