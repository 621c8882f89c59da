//! Logs: structured lines on stderr, where data never goes.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::{SubscriberBuilder, fmt};

use crate::config::{Log, LogFormat};

/// The long-running verb: as the config says.
pub(crate) fn start(log: &Log) {
    // The config has checked the directives.
    let lines = lines().with_env_filter(EnvFilter::new(&log.level));
    match log.format {
        LogFormat::Json => {
            lines
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .init();
        }
        LogFormat::Pretty => lines.with_ansi(std::io::stderr().is_terminal()).init(),
    }
}

/// A verb that answers and ends: only what went wrong, for a person to read. What librdkafka has to say
/// is in the error that it leads to.
pub(crate) fn start_quietly() {
    lines()
        .with_env_filter(EnvFilter::new("warn,librdkafka=off"))
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .init();
}

fn lines() -> SubscriberBuilder<
    tracing_subscriber::fmt::format::DefaultFields,
    tracing_subscriber::fmt::format::Format,
    tracing_subscriber::filter::LevelFilter,
    fn() -> std::io::Stderr,
> {
    // A closed stderr must not stop a relay: errors of the log itself are dropped.
    fmt()
        .with_writer(std::io::stderr as fn() -> std::io::Stderr)
        .log_internal_errors(false)
}
