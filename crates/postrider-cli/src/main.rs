//! The `postrider` binary. Data goes to stdout and the rest to stderr; it exits with 0 when all is well,
//! with 1 when something failed or a check found something, with 2 when it was asked wrongly.

mod admin;
mod cli;
mod config;
mod demo;
mod moment;
mod output;
mod progress;
mod shown;
mod telemetry;
mod topics;
mod wiring;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // Before anything speaks TLS. It can only have been installed already, by nobody but us.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let cli = cli::Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return output::failure(&error.into()),
    };
    let ended = runtime.block_on(cli.run());
    // A driver's blocking call must not hold up the end.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| output::failure(&error))
}
