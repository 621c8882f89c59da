//! Real requests to a real address; readiness itself is tested with a running relay, in `tests/it`.

use std::net::SocketAddr;

use axum::http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const TOKEN: &str = "a-token-of-some-length";

struct Server {
    address: SocketAddr,
    close: CancellationToken,
    stopping: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(token: Option<&str>) -> Server {
    let close = CancellationToken::new();
    let stopping = CancellationToken::new();
    let admin = Admin {
        outboxes: Arc::new([]),
        metrics: Metrics::new(),
        token: token.map(Secret::from),
        stopping: stopping.clone(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(serve(listener, router(admin), close.clone()));
    Server {
        address,
        close,
        stopping,
        task,
    }
}

impl Server {
    async fn get(&self, path: &str, authorization: Option<&str>) -> reqwest::Response {
        let mut request = reqwest::Client::new().get(format!("http://{}{path}", self.address));
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        request.send().await.unwrap()
    }

    /// The status line that raw bytes are answered with.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = vec![0; 64];
        let read = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..read])
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    }
}

#[tokio::test]
async fn only_livez_is_open_where_a_token_is_set() {
    let server = start(Some(TOKEN)).await;
    let right = format!("Bearer {TOKEN}");
    let wrong = [
        None,
        Some("Bearer "),
        Some("Bearer a-token-of-some-lengtH"),
        Some("Bearer a-token-of-some"),
        Some("Basic a-token-of-some-length"),
        Some(TOKEN),
    ];
    for path in ["/readyz", "/metrics", "/nowhere"] {
        for authorization in wrong {
            let response = server.get(path, authorization).await;
            assert_eq!(
                response.status(),
                StatusCode::UNAUTHORIZED,
                "{path} {authorization:?}"
            );
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
        }
        let response = server.get(path, Some(&right)).await;
        assert_ne!(response.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    assert_eq!(server.get("/livez", None).await.status(), StatusCode::OK);
    assert_eq!(
        server
            .get("/readyz", Some("bearer a-token-of-some-length"))
            .await
            .status(),
        200
    );
}

#[tokio::test]
async fn without_a_token_everything_is_open() {
    let server = start(None).await;
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(
            server.get(path, None).await.status(),
            StatusCode::OK,
            "{path}"
        );
    }
}

#[tokio::test]
async fn metrics_are_openmetrics() {
    let server = start(None).await;
    let response = server.get("/metrics", None).await;
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
async fn what_is_not_there_is_answered_in_json_and_with_secure_headers() {
    let server = start(None).await;
    let response = server.get("/nowhere", None).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    for (name, value) in [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(response.headers()[name], value, "{name}");
    }
    assert!(response.json::<serde_json::Value>().await.unwrap()["error"].is_string());
    let post = reqwest::Client::new().post(format!("http://{}/readyz", server.address));
    assert_eq!(
        post.send().await.unwrap().status(),
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let server = start(None).await;
    let body = "POST /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 99999\r\n\r\n";
    assert!(server.send(body.as_bytes()).await.contains("413"));
    let header = format!(
        "GET /livez HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    assert!(server.send(header.as_bytes()).await.contains("431"));
    let headers = "a: b\r\n".repeat(100);
    let many = format!("GET /livez HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
    assert!(server.send(many.as_bytes()).await.contains("431"));
}

#[tokio::test]
async fn a_process_that_stops_is_not_ready_but_lives() {
    let server = start(None).await;
    server.stopping.cancel();
    assert_eq!(
        server.get("/readyz", None).await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert_eq!(server.get("/livez", None).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn closing_does_not_wait_for_idle_clients() {
    let server = start(None).await;
    let idle = TcpStream::connect(server.address).await.unwrap();
    server.close.cancel();
    server.task.await.unwrap();
    drop(idle);
}
