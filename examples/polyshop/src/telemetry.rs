//! Logs to stderr, and spans to an OpenTelemetry collector where the environment names one.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use postrider::telemetry::{Exporting, Otlp};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::prelude::*;

use crate::json_lines::JsonLines;
use crate::settings::optional;

/// What is said about each event is part of an ordinary log here.
const LOGGED: &str = "info,postrider::event=debug";

/// `RUST_LOG` says how much is logged, `OTEL_EXPORTER_OTLP_ENDPOINT` where spans go. What is returned sends spans
/// until it is shut down.
///
/// Traces exist without a collector too: their ids are in envelopes and log lines.
pub fn start(service: &'static str) -> anyhow::Result<Option<Exporting>> {
    let filter = optional("RUST_LOG").unwrap_or_else(|| LOGGED.into());
    let lines = JsonLines::new(service).with_filter(EnvFilter::try_new(filter)?);
    let registry = tracing_subscriber::registry().with(lines);
    match optional("OTEL_EXPORTER_OTLP_ENDPOINT") {
        Some(endpoint) => {
            let (spans, exporting) = Otlp::new(endpoint, service).start()?;
            registry.with(spans).init();
            Ok(Some(exporting))
        }
        None => {
            let tracer = SdkTracerProvider::builder().build().tracer(service);
            let spans = tracing_opentelemetry::layer().with_tracer(tracer);
            registry.with(spans).init();
            Ok(None)
        }
    }
}
