//! Carries rows of `outbox_events` to Pub/Sub until SIGTERM.

use example_packfinderz::settings::Publisher;
use example_packfinderz::{process, publisher};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    process::log()?;
    let settings = Publisher::read(&process::variable)?;
    publisher::run(settings, process::shutdown()?).await
}
