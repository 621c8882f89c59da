//! The store in SQLite files. A fresh file per test.

mod check;
mod conformance;
mod emit;
mod faults;
mod inbox;
mod poison;
mod world;
