//! Outbox, inbox and idempotency stores. `sql` writes the statements for a layout, as text and without a driver; each
//! database has a folder that runs them.

#[cfg(feature = "postgres")]
mod emit;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "postgres")]
mod sql;

#[cfg(feature = "postgres")]
pub use emit::EmitError;
