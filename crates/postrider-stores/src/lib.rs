//! Outbox, inbox and idempotency stores. `sql` writes the statements for a layout, as text and without a driver; each
//! database has a folder that runs them.

#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(
        dead_code,
        reason = "what one database does not need of what they share, the other does"
    )
)]

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod catalogue;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod desk;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod emit;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod entry;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod fates;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod fitting;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod options;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod parked;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod refusals;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod resting;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod rows;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod settle;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod structure;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod trace;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod wake;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use emit::EmitError;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use wake::Wake;
