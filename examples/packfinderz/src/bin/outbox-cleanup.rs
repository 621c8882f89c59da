//! Deletes rows of `outbox_events` that were published more than 30 days ago, until SIGTERM.

use std::process::ExitCode;

use example_packfinderz::settings::Cleanup;
use example_packfinderz::{cleanup, process};

#[tokio::main]
async fn main() -> ExitCode {
    process::run(async |shutdown| {
        let settings = Cleanup::read(&process::variable)?;
        cleanup::run(settings, shutdown).await
    })
    .await
}
