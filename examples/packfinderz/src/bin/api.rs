//! Changes licenses over HTTP until SIGTERM.

use std::process::ExitCode;

use example_packfinderz::settings::Api;
use example_packfinderz::{api, process};

#[tokio::main]
async fn main() -> ExitCode {
    process::run(async |shutdown| {
        let settings = Api::read(&process::variable)?;
        api::run(settings, shutdown).await
    })
    .await
}
