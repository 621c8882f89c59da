//! A subscription whose server does what a test says. Google's test server gives one message of an ordering
//! key at a time and confirms every acknowledgement; the service does neither.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, Stream};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::wire;

/// Serves one subscription, of whatever name, until it is dropped.
#[derive(Debug)]
pub struct ScriptedPull {
    endpoint: String,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

/// What is sent. Its message id is its acknowledgement id up to the first colon.
#[derive(Debug, Clone, Copy)]
pub struct ScriptedMessage<'a> {
    pub ack_id: &'a str,
    pub ordering_key: &'a str,
}

/// What a client said about a message, by its acknowledgement id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Ack(String),
    Nack(String),
}

#[derive(Debug, Default)]
struct State {
    exactly_once: bool,
    outbox: Mutex<VecDeque<wire::StreamingPullResponse>>,
    filled: Notify,
    settled: Mutex<Vec<Settled>>,
    /// Answers that acknowledgements get before one succeeds.
    refusals: Mutex<VecDeque<Status>>,
}

impl ScriptedPull {
    pub async fn start(exactly_once: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("is bound"));
        let state = Arc::new(State {
            exactly_once,
            ..State::default()
        });
        let shared = Arc::clone(&state);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let state = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(answer(state, request).await) }
        });
        // The client asks for the subscription itself over plain HTTP.
        let serve = Server::builder()
            .accept_http1(true)
            .serve_with_incoming(service, TcpIncoming::from(listener));
        let serving = tokio::spawn(async move { serve.await.expect("a server") });
        Self {
            endpoint,
            state,
            serving,
        }
    }

    /// For a subscription's configuration.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sends messages together, in this order, to whoever pulls.
    pub fn send(&self, messages: &[ScriptedMessage<'_>]) {
        let response = wire::StreamingPullResponse {
            received_messages: messages.iter().map(received).collect(),
            subscription_properties: Some(wire::SubscriptionProperties {
                exactly_once_delivery_enabled: self.state.exactly_once,
                message_ordering_enabled: true,
            }),
        };
        lock(&self.state.outbox).push_back(response);
        self.state.filled.notify_one();
    }

    /// Has the next acknowledgement fail with a gRPC code.
    pub fn refuse_next_ack(&self, code: i32) {
        let status = Status::new(tonic::Code::from(code), "as the test asks");
        lock(&self.state.refusals).push_back(status);
    }

    /// What it was told, in order. Extensions of leases are not told.
    pub fn settled(&self) -> Vec<Settled> {
        lock(&self.state.settled).clone()
    }
}

impl Drop for ScriptedPull {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn received(message: &ScriptedMessage<'_>) -> wire::ReceivedMessage {
    let id = message.ack_id;
    wire::ReceivedMessage {
        ack_id: id.to_owned(),
        message: Some(wire::PubsubMessage {
            data: id.as_bytes().to_vec(),
            message_id: id.split(':').next().unwrap_or_default().to_owned(),
            ordering_key: message.ordering_key.to_owned(),
            ..wire::PubsubMessage::default()
        }),
        delivery_attempt: 0,
    }
}

async fn answer(state: Arc<State>, request: http::Request<Body>) -> http::Response<Body> {
    let path = request.uri().path().to_owned();
    match path.rsplit('/').next() {
        Some("StreamingPull") => {
            let pull =
                tower::service_fn(move |_: Request<Streaming<wire::StreamingPullRequest>>| {
                    let messages = outbox(Arc::clone(&state));
                    async move { Ok(Response::new(messages)) }
                });
            let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
            grpc.streaming(pull, request).await
        }
        Some("Acknowledge") => {
            let acknowledge = tower::service_fn(|request: Request<wire::AcknowledgeRequest>| {
                let answer = state.acknowledge(request.into_inner());
                async move { answer.map(Response::new) }
            });
            let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
            grpc.unary(acknowledge, request).await
        }
        Some("ModifyAckDeadline") => {
            let modify = tower::service_fn(|request: Request<wire::ModifyAckDeadlineRequest>| {
                state.modify(request.into_inner());
                async { Ok(Response::new(wire::Empty {})) }
            });
            let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
            grpc.unary(modify, request).await
        }
        _ => http::Response::new(Body::new(
            r#"{"topic": "projects/p/topics/scripted", "enableMessageOrdering": true}"#.to_owned(),
        )),
    }
}

fn outbox(
    state: Arc<State>,
) -> impl Stream<Item = Result<wire::StreamingPullResponse, Status>> + Send {
    stream::unfold(state, |state| async move {
        loop {
            let next = lock(&state.outbox).pop_front();
            if let Some(response) = next {
                return Some((Ok(response), state));
            }
            state.filled.notified().await;
        }
    })
}

impl State {
    fn acknowledge(&self, request: wire::AcknowledgeRequest) -> Result<wire::Empty, Status> {
        if let Some(status) = lock(&self.refusals).pop_front() {
            return Err(status);
        }
        let settled = request.ack_ids.into_iter().map(Settled::Ack);
        lock(&self.settled).extend(settled);
        Ok(wire::Empty {})
    }

    fn modify(&self, request: wire::ModifyAckDeadlineRequest) {
        if request.ack_deadline_seconds == 0 {
            let settled = request.ack_ids.into_iter().map(Settled::Nack);
            lock(&self.settled).extend(settled);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
