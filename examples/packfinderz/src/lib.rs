//! PackFinderz on Postrider: licenses whose status changes become events, and the notifications that follow.
//!
//! A program each in `src/bin`: `api` writes licenses and their events in one transaction, `outbox-publisher` carries
//! the events to Pub/Sub, `compliance-consumer` turns them into notifications, `migrate` creates the tables.

pub mod api;
pub mod compliance;
pub mod endpoints;
pub mod licenses;
pub mod payloads;
pub mod process;
pub mod publisher;
pub mod registry;
pub mod schema;
pub mod settings;
