//! Spans to an OpenTelemetry collector, over OTLP. One layer of the process's `tracing` subscriber; logs are
//! another layer's business.
//!
//! ```no_run
//! use postrider::telemetry::Otlp;
//! use tracing_subscriber::prelude::*;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (layer, exporting) = Otlp::new("http://127.0.0.1:4317", "order-service").start()?;
//! tracing_subscriber::registry().with(layer).init();
//! // …
//! exporting.shutdown().await;
//! # Ok(()) }
//! ```

mod exporter;
#[cfg(test)]
mod tests;

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use postrider_core::BoxError;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// How long a stop waits for the last spans to be taken.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the exporter itself goes through. Its spans would be exported in turn, many for each of ours.
const EXPORTER_TARGETS: [&str; 7] = [
    "h2",
    "hyper",
    "tonic",
    "tower::",
    "reqwest",
    "rustls",
    "opentelemetry",
];

/// How spans travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Port 4317 by custom.
    #[default]
    Grpc,
    /// Protobuf over HTTP, to `/v1/traces`; port 4318 by custom.
    Http,
}

/// Where spans go and who sends them.
#[derive(Debug, Clone)]
pub struct Otlp {
    endpoint: String,
    service: String,
    protocol: Protocol,
}

/// The collector's address cannot be used. A collector that is down is no error: spans are dropped, and the
/// log says so.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be sent to {endpoint}")]
pub struct OtlpError {
    endpoint: String,
    #[source]
    source: BoxError,
}

impl Otlp {
    /// The collector's address, `http://host:4317`, and this service's name.
    pub fn new(endpoint: impl Into<String>, service: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            service: service.into(),
            protocol: Protocol::default(),
        }
    }

    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Starts exporting what the layer is told: spans at INFO and above, ours at DEBUG. Needs a Tokio runtime, and
    /// does not wait for the collector.
    pub fn start<S>(self) -> Result<(impl Layer<S> + Send + Sync + 'static, Exporting), OtlpError>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let exporter =
            exporter::build(self.protocol, &self.endpoint).map_err(|source| OtlpError {
                endpoint: self.endpoint,
                source,
            })?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(Resource::builder().with_service_name(self.service).build())
            .build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("postrider"))
            .with_location(false)
            .with_threads(false)
            .with_filter(exported());
        Ok((layer, Exporting { provider }))
    }
}

fn exported() -> Targets {
    let ours = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("postrider", LevelFilter::DEBUG);
    ours.with_targets(EXPORTER_TARGETS.map(|target| (target, LevelFilter::OFF)))
}

/// The export under way. Spans are sent every few seconds; only [`Self::shutdown`] sends the last of them.
#[derive(Debug)]
#[must_use = "the last spans are sent by `shutdown`"]
pub struct Exporting {
    provider: SdkTracerProvider,
}

impl Exporting {
    /// Sends what is left and stops. Gives up after five seconds; the log says what was lost.
    pub async fn shutdown(self) {
        // It blocks, and waits for work that this runtime does.
        let stopped = tokio::task::spawn_blocking(move || {
            self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT)
        });
        match stopped.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last spans were not sent"),
            Err(error) => tracing::warn!(%error, "the last spans were not sent"),
        }
    }
}
