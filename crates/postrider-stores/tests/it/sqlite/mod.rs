//! The store in SQLite files. A fresh file per test.

mod conformance;
mod inbox;
mod world;
