//! Logs: structured lines on stderr, where data never goes. And spans, where the config names a collector.

use std::io::IsTerminal as _;

use postrider::telemetry::{Exporting, Otlp};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, Registry, fmt};

use crate::config::{Log, LogFormat, Telemetry};

/// The long-running verb: as the config says. What is returned sends spans until it is shut down.
pub(crate) fn start(log: &Log, telemetry: &Telemetry) -> anyhow::Result<Option<Exporting>> {
    let (spans, exporting) = match &telemetry.otlp {
        Some(endpoint) => {
            let otlp = Otlp::new(endpoint, &telemetry.service);
            let (layer, exporting) = otlp.protocol(telemetry.protocol.into()).start()?;
            (Some(layer), Some(exporting))
        }
        None => (None, None),
    };
    let lines = match log.format {
        LogFormat::Json => lines()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .boxed(),
        LogFormat::Pretty => lines().with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    // The config has checked the directives. They are for lines: spans have a filter of their own.
    let lines = lines.with_filter(EnvFilter::new(&log.level));
    tracing_subscriber::registry()
        .with(lines)
        .with(spans)
        .init();
    Ok(exporting)
}

/// Only what went wrong. What librdkafka has to say is in the error that it leads to.
pub(crate) const QUIET: &str = "warn,librdkafka=off";

/// A verb that speaks to a person: these directives, as in `RUST_LOG`, and no times.
pub(crate) fn start_quietly(level: &str) {
    let lines = lines()
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_filter(EnvFilter::new(level));
    tracing_subscriber::registry().with(lines).init();
}

fn lines()
-> fmt::Layer<Registry, fmt::format::DefaultFields, fmt::format::Format, fn() -> std::io::Stderr> {
    // A closed stderr must not stop a relay: errors of the log itself are dropped.
    fmt::layer()
        .with_writer(std::io::stderr as fn() -> std::io::Stderr)
        .log_internal_errors(false)
}
