//! Turns license events into notifications until SIGTERM.

use std::process::ExitCode;

use example_packfinderz::settings::Consumer;
use example_packfinderz::{compliance, process};

#[tokio::main]
async fn main() -> ExitCode {
    process::run(async |shutdown| {
        let settings = Consumer::read(&process::variable)?;
        compliance::run(settings, shutdown).await
    })
    .await
}
