//! The OTLP exporter of either protocol.

use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use postrider_core::BoxError;

use super::Protocol;

pub(super) fn build(protocol: Protocol, endpoint: &str) -> Result<SpanExporter, BoxError> {
    match protocol {
        Protocol::Grpc => grpc(endpoint),
        Protocol::Http => http(endpoint),
    }
}

fn grpc(endpoint: &str) -> Result<SpanExporter, BoxError> {
    // The channel's task would panic without one.
    tokio::runtime::Handle::try_current()?;
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint);
    let exporter = match endpoint.starts_with("https:") {
        true => exporter.with_tls_config(
            opentelemetry_otlp::tonic_types::transport::ClientTlsConfig::new().with_native_roots(),
        ),
        false => exporter,
    };
    Ok(exporter.build()?)
}

fn http(endpoint: &str) -> Result<SpanExporter, BoxError> {
    const PATH: &str = "/v1/traces";
    let base = endpoint.trim_end_matches('/');
    let url = match base.ends_with(PATH) {
        true => base.to_owned(),
        false => format!("{base}{PATH}"),
    };
    let exporter = SpanExporter::builder().with_http().with_endpoint(url);
    Ok(exporter.build()?)
}
