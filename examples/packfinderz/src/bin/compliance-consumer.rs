//! Turns license events into notifications until SIGTERM.

use example_packfinderz::settings::Consumer;
use example_packfinderz::{compliance, process};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    process::log()?;
    let settings = Consumer::read(&process::variable)?;
    compliance::run(settings, process::shutdown()?).await
}
