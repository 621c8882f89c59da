//! Changes licenses over HTTP until SIGTERM.

use example_packfinderz::settings::Api;
use example_packfinderz::{api, process};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    process::log()?;
    let settings = Api::read(&process::variable)?;
    api::run(settings, process::shutdown()?).await
}
