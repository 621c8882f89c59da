//! Outbox stores. `sql` writes the statements for a layout, as text and without a driver; each
//! database has a folder that runs them.

mod emit;
#[cfg(feature = "postgres")]
pub mod postgres;
mod sql;

pub use emit::EmitError;
