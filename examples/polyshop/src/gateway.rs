//! The gateway: the one address that clients know. It starts the trace of a request and passes the request on to the
//! service that its path names.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::http::{refused, serve};
use crate::settings::{listen, optional};
use crate::trace;

/// The first part of a path, and the variable that holds the address of the service it belongs to.
const SERVICES: [(&str, &str); 5] = [
    ("orders", "ORDER_URL"),
    ("users", "AUTH_URL"),
    ("products", "PRODUCT_URL"),
    ("search", "SEARCH_URL"),
    ("stock", "INVENTORY_URL"),
];
/// What is passed on of a request's headers, beside the trace.
const HEADERS: [&str; 5] = [
    "content-type",
    "accept",
    "authorization",
    "x-correlation-id",
    "idempotency-key",
];
const TIMEOUT: Duration = Duration::from_secs(30);

struct Gateway {
    client: reqwest::Client,
    services: Vec<(&'static str, String)>,
    registry: Registry,
    requests: Family<Labels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    service: &'static str,
    status: u16,
}

pub async fn run(shutdown: CancellationToken) -> anyhow::Result<()> {
    let gateway = Arc::new(Gateway::from_environment()?);
    let metrics = async |State(gateway): State<Arc<Gateway>>| gateway.metrics();
    let routes = Router::new()
        .route("/livez", get(async || Json(json!({ "live": true }))))
        // It holds nothing that could be missing; a service that does not answer is that service's state.
        .route("/readyz", get(async || Json(json!({ "ready": true }))))
        .route("/metrics", get(metrics))
        .fallback(forward)
        .with_state(gateway);
    serve(listen()?, routes, shutdown).await
}

async fn forward(
    State(gateway): State<Arc<Gateway>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some((service, address)) = gateway.service(&uri) else {
        return refused(StatusCode::NOT_FOUND, "the shop has no such address");
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let span = trace::request(&format!("{method} /{service}"), &headers);
    let answered = async {
        let request = gateway.request(method, &format!("{address}{path}"), &headers, body);
        let response = match answer(request).await {
            Ok(response) => response,
            Err(error) => {
                tracing::error!(error = error.to_string(), route = service, "no answer");
                let status = match error.is_timeout() {
                    true => StatusCode::GATEWAY_TIMEOUT,
                    false => StatusCode::BAD_GATEWAY,
                };
                refused(status, "the service does not answer; please try again")
            }
        };
        let status = response.status().as_u16();
        tracing::info!(route = service, status, "answered");
        let labels = Labels { service, status };
        gateway.requests.get_or_create(&labels).inc();
        response
    };
    answered.instrument(span).await
}

async fn answer(request: reqwest::RequestBuilder) -> reqwest::Result<Response> {
    let response = request.send().await?;
    let content_type = response.headers().get(header::CONTENT_TYPE).cloned();
    let mut answer = (response.status(), response.bytes().await?).into_response();
    answer.headers_mut().remove(header::CONTENT_TYPE);
    if let Some(content_type) = content_type {
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
    }
    Ok(answer)
}

impl Gateway {
    fn from_environment() -> anyhow::Result<Self> {
        let known = SERVICES.iter().filter_map(|(name, variable)| {
            let address = optional(variable)?;
            Some((*name, address.trim_end_matches('/').to_owned()))
        });
        let requests = Family::default();
        let mut registry = Registry::default();
        let help = "Requests by the service that they were for, and the status of the answer";
        registry.register("polyshop_gateway_requests", help, requests.clone());
        Ok(Self {
            client: reqwest::Client::builder()
                .timeout(TIMEOUT)
                .redirect(reqwest::redirect::Policy::none())
                .build()?,
            services: known.collect(),
            registry,
            requests,
        })
    }

    fn service(&self, uri: &Uri) -> Option<(&'static str, &str)> {
        let name = uri.path().split('/').nth(1)?;
        let found = self.services.iter().find(|(known, _)| *known == name);
        found.map(|(name, address)| (*name, address.as_str()))
    }

    /// The same request for a service, in the trace of the current span.
    fn request(
        &self,
        method: Method,
        url: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> reqwest::RequestBuilder {
        let mut request = self.client.request(method, url).body(body);
        for name in HEADERS {
            if let Some(value) = headers.get(name) {
                request = request.header(name, value);
            }
        }
        match trace::parent(&tracing::Span::current()) {
            Some(parent) => request.header(trace::TRACEPARENT, parent),
            None => request,
        }
    }

    fn metrics(&self) -> Response {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text.into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}
