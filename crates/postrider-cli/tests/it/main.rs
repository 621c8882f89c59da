//! Runs the real binary against real servers: what it prints, where, with which exit code, and what a
//! running relay answers.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

mod admin;
mod binary;
mod check;
mod cleanup;
mod completions;
mod config;
mod dashboard;
mod dead;
mod demo;
mod docs;
mod healthcheck;
mod hundred_thousand;
mod init;
mod logs;
mod many;
mod memory;
mod native;
mod outage;
mod outbox;
mod packaging;
mod pooler;
mod readiness;
mod relay;
mod replay;
mod shelf;
mod sqlite;
mod status;
mod stream;
mod talkie;
mod torture;
mod traces;
mod verify;
mod walks;
