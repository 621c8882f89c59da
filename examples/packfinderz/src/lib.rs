//! PackFinderz on Postrider: licenses whose status changes become events, and the notifications that follow.
//!
//! A program each in `src/bin`: `api` writes licenses and their events in one transaction, `outbox-publisher` carries
//! the events to Pub/Sub, `compliance-consumer` turns them into notifications, `outbox-cleanup` deletes what was published
//! long ago, `migrate` creates the tables.

pub mod api;
pub mod catalogue;
pub mod cleanup;
pub mod compliance;
pub mod endpoints;
pub mod licenses;
pub mod migrations;
pub mod model;
pub mod payloads;
pub mod process;
pub mod publisher;
pub mod registry;
pub mod settings;
