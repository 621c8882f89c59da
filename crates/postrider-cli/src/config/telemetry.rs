//! `[telemetry]`: where spans go, if anywhere.

use postrider::telemetry::Protocol;
use serde::{Deserialize, Serialize};
use url::Url;

use super::error::ConfigError;
use super::scope::Scope;
use super::{defaults, raw};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Telemetry {
    /// The collector's address. Without one nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) otlp: Option<String>,
    pub(crate) protocol: OtlpProtocol,
    pub(crate) service: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OtlpProtocol {
    #[default]
    Grpc,
    Http,
}

impl From<OtlpProtocol> for Protocol {
    fn from(protocol: OtlpProtocol) -> Self {
        match protocol {
            OtlpProtocol::Grpc => Self::Grpc,
            OtlpProtocol::Http => Self::Http,
        }
    }
}

impl Telemetry {
    pub(super) fn read(raw: raw::Telemetry, scope: &Scope) -> Result<Self, ConfigError> {
        if let Some(address) = &raw.otlp {
            check_address(address, scope)?;
        }
        let service = scope.text("service", raw.service)?;
        Ok(Self {
            otlp: raw.otlp,
            protocol: raw.protocol,
            service: service.unwrap_or_else(|| defaults::SERVICE.into()),
        })
    }
}

fn check_address(address: &str, scope: &Scope) -> Result<(), ConfigError> {
    let allowed = "an address like http://127.0.0.1:4317 or https://collector:4317 is";
    let url = Url::parse(address)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| scope.refused("otlp", address, allowed))?;
    if url.password().is_some() || !url.username().is_empty() {
        // The address is printed by `check`, and so is this refusal.
        let allowed =
            "it must not hold a password; OTEL_EXPORTER_OTLP_HEADERS in the environment may";
        return Err(scope.refused("otlp", url.host_str().unwrap_or_default(), allowed));
    }
    Ok(())
}
