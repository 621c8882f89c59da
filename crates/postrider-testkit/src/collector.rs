//! An OpenTelemetry collector that keeps what it is sent: OTLP over gRPC and over HTTP, on one port.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::BodyExt as _;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span as WireSpan;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tower::Service as _;

/// A span as it arrived, ids in hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedSpan {
    /// `service.name` of who sent it.
    pub service: String,
    pub name: String,
    pub trace_id: String,
    pub span_id: String,
    /// Empty for the first span of a trace.
    pub parent_span_id: String,
    pub attributes: BTreeMap<String, String>,
    /// What went wrong, as its status says.
    pub error: Option<String>,
}

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Collector {
    endpoint: String,
    kept: Kept,
    serving: JoinHandle<()>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("is bound"));
        let kept = Kept::default();
        let state = kept.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let state = state.clone();
            async move {
                match request.uri().path() {
                    "/v1/traces" => Ok::<_, Infallible>(state.export_http(request).await),
                    _ => TraceServiceServer::new(state).call(request).await,
                }
            }
        });
        let serve = Server::builder()
            .accept_http1(true)
            .serve_with_incoming(service, TcpIncoming::from(listener));
        let serving = tokio::spawn(async move { serve.await.expect("a server") });
        Self {
            endpoint,
            kept,
            serving,
        }
    }

    /// For an exporter's configuration, with either protocol.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What arrived so far, in order.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        let spans = self.kept.0.lock();
        spans.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<CollectedSpan>>>);

impl Kept {
    fn keep(&self, request: ExportTraceServiceRequest) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for group in request.resource_spans {
            let resource = group.resource.unwrap_or_default();
            let service = texts(resource.attributes)
                .remove("service.name")
                .unwrap_or_default();
            let spans = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
            kept.extend(spans.map(|span| collected(&service, span)));
        }
    }

    async fn export_http(&self, request: http::Request<Body>) -> http::Response<Body> {
        let body = request.into_body().collect().await.expect("a whole body");
        let request = ExportTraceServiceRequest::decode(body.to_bytes()).expect("OTLP");
        self.keep(request);
        // An empty answer is one with every member at its default.
        http::Response::new(Body::empty())
    }
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.keep(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn collected(service: &str, span: WireSpan) -> CollectedSpan {
    const ERROR: i32 = 2;
    let status = span.status.unwrap_or_default();
    CollectedSpan {
        service: service.to_owned(),
        name: span.name,
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_span_id: hex(&span.parent_span_id),
        attributes: texts(span.attributes),
        error: (status.code == ERROR).then_some(status.message),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    attributes
        .into_iter()
        .map(|attribute| (attribute.key, text(attribute.value)))
        .collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(other) => format!("{other:?}"),
        None => String::new(),
    }
}
