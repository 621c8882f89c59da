//! Real requests to a real address. What needs a running relay is in `tests/it`.

mod findings;
mod hosts;
mod limits;
mod roles;
mod streams;

use std::net::SocketAddr;

use postrider::Relay;
use postrider::brokers::memory::MemoryBroker;
use postrider::core::{Event, Layout, ManagedStore, Routes};
use postrider::stores::postgres::{self, InitOptions, Options, Outbox, PostgresStore};
use postrider_testkit::database::{Database, fresh_schema};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::config::Role;

const VIEW: &str = "a-token-only-for-looking";
const OPERATE: &str = "a-token-for-everything";

struct Server {
    address: SocketAddr,
    close: CancellationToken,
    stopping: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// Without a token and without an outbox.
async fn start() -> Server {
    start_with(&BTreeMap::new(), []).await
}

async fn start_with(
    tokens: &BTreeMap<String, Token>,
    outboxes: impl IntoIterator<Item = Managed>,
) -> Server {
    let close = CancellationToken::new();
    let stopping = CancellationToken::new();
    let admin = Admin::new(outboxes, Metrics::new(), tokens, stopping.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(serve(listener, admin, close.clone()));
    Server {
        address,
        close,
        stopping,
        task,
    }
}

/// One token of either role.
fn tokens() -> BTreeMap<String, Token> {
    let token = |role, token: &str| Token {
        role,
        token: token.into(),
    };
    BTreeMap::from([
        ("looking".into(), token(Role::View, VIEW)),
        ("ops".into(), token(Role::Operate, OPERATE)),
    ])
}

impl Server {
    fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let url = format!("http://{}{path}", self.address);
        reqwest::Client::new().request(method.parse().unwrap(), url)
    }

    async fn get(&self, path: &str) -> reqwest::Response {
        self.request("GET", path).send().await.unwrap()
    }

    /// The status that raw bytes are answered with.
    async fn send(&self, bytes: &[u8]) -> u16 {
        let answer = self.send_and_read(bytes).await;
        let status = answer.get(9..12).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("{answer:?}"))
    }

    /// The beginning of the answer to raw bytes.
    async fn send_and_read(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = vec![0; 64];
        let read = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }
}

/// An outbox on a real database, with one pending record. Its relay does not run.
struct TestOutbox {
    database: Database,
    id: String,
}

impl TestOutbox {
    async fn create() -> (Self, Managed) {
        Self::create_with(|store| Arc::new(store)).await
    }

    async fn create_with(
        wrap: impl FnOnce(PostgresStore) -> Arc<dyn ManagedStore>,
    ) -> (Self, Managed) {
        let database = fresh_schema().await;
        let layout = Layout::preset("polyshop").unwrap();
        let options = InitOptions {
            claim_index: true,
            notify: false,
        };
        postgres::init(&database.pool, &layout, &options)
            .await
            .unwrap();
        let mut tx = database.pool.begin().await.unwrap();
        let event = Event::json("order.placed", &serde_json::json!({ "secret": 7 })).unwrap();
        let id = event.id.to_string();
        let event = event.aggregate_id("7");
        Outbox::new(layout.clone())
            .emit(&mut tx, event)
            .await
            .unwrap();
        tx.commit().await.unwrap();

        let broker = Arc::new(MemoryBroker::default());
        let store = PostgresStore::new(database.pool.clone(), Options::new(layout.clone()));
        let store = wrap(store);
        let router = postrider::core::Router::new(&layout, Routes::new(), None);
        let relay = Relay::builder(store.clone(), broker.clone(), router.clone()).build();
        let managed = Managed::new(Parts {
            name: "orders",
            layout: &layout,
            broker: "main",
            relay: &relay,
            store,
            router,
            payload_bytes_max: None,
            publisher: Box::new(move || Ok(broker.clone())),
        });
        (Self { database, id }, managed)
    }
}

#[tokio::test]
async fn metrics_are_openmetrics() {
    let server = start().await;
    let response = server.get("/metrics").await;
    let kind = response.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        kind,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let text = response.text().await.unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn every_answer_has_secure_headers_and_every_error_is_json() {
    let server = start().await;
    for (method, path, status) in [
        ("GET", "/", 200),
        ("GET", "/livez", 200),
        ("GET", "/api/me", 200),
        ("GET", "/nowhere", 404),
        ("GET", "/api/nowhere", 404),
        ("GET", "/api/outboxes/none/records", 404),
        ("GET", "/api/outboxes/%FF/records", 400),
        ("POST", "/readyz", 405),
        ("POST", "/livez", 405),
        ("POST", "/", 405),
        ("PUT", "/api/me", 405),
        ("OPTIONS", "/api/me", 405),
        ("TRACE", "/api/me", 405),
    ] {
        let response = server.request(method, path).send().await.unwrap();
        assert_eq!(response.status(), status, "{method} {path}");
        for (name, value) in [
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
        ] {
            assert_eq!(response.headers()[name], value, "{path}");
        }
        let policy = response.headers()["content-security-policy"].to_str();
        assert!(
            policy
                .unwrap()
                .starts_with("default-src 'none'; script-src 'self';")
        );
        assert!(response.headers().contains_key("cache-control"));
        // Nobody else's page may read anything here.
        assert!(
            !response
                .headers()
                .contains_key("access-control-allow-origin")
        );
        if status >= 400 {
            assert_eq!(response.headers()["content-type"], "application/json");
            let body: serde_json::Value = response.json().await.unwrap();
            assert!(body["error"].is_string(), "{body}");
        }
    }
}

#[tokio::test]
async fn a_process_that_stops_is_not_ready_but_lives() {
    let server = start().await;
    server.stopping.cancel();
    assert_eq!(server.get("/readyz").await.status(), 503);
    assert_eq!(server.get("/livez").await.status(), 200);
}

#[tokio::test]
async fn closing_does_not_wait_for_idle_clients() {
    let server = start().await;
    let idle = TcpStream::connect(server.address).await.unwrap();
    server.close.cancel();
    server.task.await.unwrap();
    drop(idle);
}
