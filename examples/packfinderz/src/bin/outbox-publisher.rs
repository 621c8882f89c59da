//! Carries rows of `outbox_events` to Pub/Sub until SIGTERM.

use std::process::ExitCode;

use example_packfinderz::settings::Publisher;
use example_packfinderz::{process, publisher};

#[tokio::main]
async fn main() -> ExitCode {
    process::run(async |shutdown| {
        let settings = Publisher::read(&process::variable)?;
        publisher::run(settings, shutdown).await
    })
    .await
}
