//! A Pub/Sub that refuses on demand, which Google's test server cannot be told to do.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use super::{PubSubMessage, wire};

/// A message with this attribute is answered with the gRPC code that it names as a number, and so is
/// the whole request that it is in.
pub const ANSWER: &str = "answer";

/// Serves until it is dropped.
#[derive(Debug)]
pub struct ScriptedPubSub {
    endpoint: String,
    taken: Arc<Mutex<Vec<PubSubMessage>>>,
    serving: JoinHandle<()>,
}

impl ScriptedPubSub {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("is bound"));
        let taken: Arc<Mutex<Vec<PubSubMessage>>> = Arc::default();
        let state = Arc::clone(&taken);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let state = Arc::clone(&state);
            let answer = tower::service_fn(move |request: Request<wire::PublishRequest>| {
                let answer = publish(&state, request.into_inner());
                async move { answer.map(Response::new) }
            });
            async move {
                let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
                Ok::<_, Infallible>(grpc.unary(answer, request).await)
            }
        });
        let serve = Server::builder().serve_with_incoming(service, TcpIncoming::from(listener));
        let serving = tokio::spawn(async move { serve.await.expect("a server") });
        Self {
            endpoint,
            taken,
            serving,
        }
    }

    /// For a publisher's configuration.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What it took, in order.
    pub fn taken(&self) -> Vec<PubSubMessage> {
        lock(&self.taken).clone()
    }
}

impl Drop for ScriptedPubSub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn publish(
    taken: &Mutex<Vec<PubSubMessage>>,
    request: wire::PublishRequest,
) -> Result<wire::PublishResponse, Status> {
    let answer = request
        .messages
        .iter()
        .find_map(|message| message.attributes.get(ANSWER));
    if let Some(code) = answer {
        return Err(Status::new(
            Code::from_bytes(code.as_bytes()),
            "as the message asks",
        ));
    }
    let mut taken = lock(taken);
    let message_ids = (taken.len()..taken.len() + request.messages.len())
        .map(|id| id.to_string())
        .collect();
    taken.extend(request.messages.into_iter().map(PubSubMessage::from));
    Ok(wire::PublishResponse { message_ids })
}

fn lock(taken: &Mutex<Vec<PubSubMessage>>) -> MutexGuard<'_, Vec<PubSubMessage>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}
