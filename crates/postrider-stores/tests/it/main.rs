//! The stores against a real Postgres. One binary; a fresh schema per test.

mod check;
mod conformance;
mod emit;
mod faults;
mod inversion;
mod schema;
mod wake;
mod world;
