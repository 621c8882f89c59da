//! `postrider demo`: see [`crate::demo`].

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::signals::Signals;
use crate::demo;

/// Events that fail are what the demo shows on its dashboard. Here they would bury what it says to try.
pub(super) const LOG: &str = "warn,postrider::event=off,librdkafka=off";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the dashboard is, on this machine only; 0 takes any free port
    #[arg(long, value_name = "PORT", default_value_t = 9464)]
    port: u16,
    /// Orders a second that come by themselves
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    rate: u32,
    /// Keep the data in this folder; a later start goes on with it
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Run on this Postgres, in a schema postrider_demo, in place of a SQLite file
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Run on this Kafka in place of a broker in the process
    #[arg(long, value_name = "HOST:PORT")]
    kafka: Option<String>,
    /// Where the orders go; dead letters go to TOPIC.dlt [default: orders, with --kafka postrider-demo.orders]
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    tokio::spawn(Signals::listen()?.stop_on_first_and_exit_on_second(stop.clone()));
    // A terminal that is closed is the end of a demo too, and nothing must be left behind.
    let mut hangup = signal(SignalKind::hangup()).context("signals cannot be received")?;
    let stop_on_hangup = stop.clone();
    tokio::spawn(async move {
        hangup.recv().await;
        stop_on_hangup.cancel();
    });
    let options = demo::Options {
        port: args.port,
        rate: args.rate,
        dir: args.dir,
        postgres: args.postgres,
        kafka: args.kafka,
        topic: args.topic,
    };
    demo::run(options, stop).await?;
    Ok(ExitCode::SUCCESS)
}
