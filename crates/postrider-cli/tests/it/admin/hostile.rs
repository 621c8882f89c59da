//! Ten thousand inputs that mean no good: each is refused, and nothing has changed.

use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

const INPUTS: u64 = 10_000;
/// Connections that send them side by side.
const SENDERS: u64 = 8;
/// A request that the server does not answer is one that hangs.
const PATIENCE: Duration = Duration::from_secs(20);

const PATHS: [&str; 11] = [
    "/api/outboxes/orders/records",
    "/api/outboxes/orders/records/count",
    "/api/outboxes/orders/records/{id}",
    "/api/outboxes/orders/records/{id}/payload",
    "/api/outboxes/orders/parked",
    "/api/outboxes/orders/diagnosis",
    "/api/outboxes/orders/audit",
    "/api/outboxes/orders/dead/resend",
    "/api/outboxes/orders/dead/discard",
    "/api/outboxes/orders/replay",
    "/api/overview",
];
const CHANGES: [&str; 3] = ["dead/resend", "dead/discard", "replay"];
const FIELDS: [&str; 12] = [
    "state", "id", "type", "key", "topic", "error", "since", "until", "from", "limit", "ids",
    "expect",
];
const SCRAPS: [&str; 28] = [
    "'; DROP TABLE outbox_events; --",
    "' OR '1'='1",
    "\\'; DELETE FROM outbox_events; --",
    "1) OR (1=1",
    "$1",
    "$$; SELECT pg_sleep(10); $$",
    "%",
    "_",
    "\\",
    "\"",
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "%c0%ae",
    "%ff%fe",
    "%",
    "%2",
    "%zz",
    "%252e",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "${jndi:ldap://x}",
    "\u{202e}\u{feff}é漢",
    "NaN",
    "-1",
    "99999999999999999999999999",
    "1e999",
    "infinity",
];

/// What a request is made of: small grammars, filled at random.
struct Maker(fastrand::Rng);

impl Maker {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        self.0.choice(from).copied().unwrap_or_default()
    }

    /// Bytes that may stand in a request line.
    fn scrap(&mut self) -> String {
        match self.0.u8(..6) {
            0 => self
                .0
                .alphanumeric()
                .to_string()
                .repeat(self.0.usize(..3_000)),
            1 => (0..self.0.usize(..40))
                .map(|_| format!("%{:02x}", self.0.u8(..)))
                .collect(),
            _ => self.pick(&SCRAPS).replace(' ', "+"),
        }
    }

    fn path(&mut self) -> String {
        let mut path = self.pick(&PATHS).replace("{id}", &self.scrap());
        match self.0.u8(..8) {
            0 => path.push_str(&self.scrap()),
            1 => path = path.replacen("orders", &self.scrap(), 1),
            2 => path = path.replace('/', "//"),
            3 => path = path.replace("outboxes", "outboxes/%2e%2e"),
            4 => path.insert_str(0, "/."),
            _ => {}
        }
        path
    }

    /// Always with a fault: a field that there is not, a value that cannot be, or one too many.
    fn query(&mut self) -> String {
        let mut pairs: Vec<String> = (0..self.0.usize(..4))
            .map(|_| format!("{}={}", self.pick(&FIELDS), self.scrap()))
            .collect();
        pairs.push(match self.0.u8(..6) {
            0 => format!(
                "limit={}",
                self.pick(&["0", "501", "-1", "+5", "1e2", "", "0x10", "٣"])
            ),
            1 => format!(
                "state={}",
                self.pick(&["", "Dead", "dead'", "dead%00", "%64ead%20"])
            ),
            2 => format!(
                "since={}",
                self.pick(&["yesterday", "-2h", "9999999999999y", "2026-13-01T00:00:00Z"])
            ),
            3 => format!("error={}", "x".repeat(1_025)),
            4 => "key=a&key=b".into(),
            _ => format!(
                "{}=1",
                self.pick(&[
                    "offset",
                    "orderBy",
                    "filter[key]",
                    "key[]",
                    "STATE",
                    "__proto__"
                ])
            ),
        });
        self.0.shuffle(&mut pairs);
        pairs.join("&")
    }

    fn value(&mut self, depth: u32) -> String {
        match self.0.u8(..9) {
            0 => "null".into(),
            1 => self.pick(&["true", "false"]).into(),
            2 => self
                .pick(&[
                    "0",
                    "-1",
                    "1.5",
                    "1e400",
                    "18446744073709551616",
                    "-0",
                    "01",
                    "+1",
                ])
                .into(),
            3 if depth > 0 => {
                let items: Vec<String> = (0..self.0.usize(..4))
                    .map(|_| self.value(depth - 1))
                    .collect();
                format!("[{}]", items.join(","))
            }
            4 if depth > 0 => self.object(depth - 1),
            5 => format!("\"{}\"", "a".repeat(self.0.usize(..2_000))),
            6 => self
                .pick(&[
                    "\"\\u0000\"",
                    "\"\\ud800\"",
                    "\"\0\"",
                    "'x'",
                    "\"\\x\"",
                    "\"",
                    "NaN",
                    "[",
                    "{",
                ])
                .into(),
            _ => json!(self.pick(&SCRAPS)).to_string(),
        }
    }

    fn object(&mut self, depth: u32) -> String {
        let pairs: Vec<String> = (0..self.0.usize(..5))
            .map(|_| {
                let name = match self.0.u8(..4) {
                    0 => self.pick(&[
                        "filter",
                        "__proto__",
                        "constructor",
                        "Expect",
                        "rate",
                        "to_topic",
                    ]),
                    _ => self.pick(&FIELDS),
                };
                format!("\"{name}\":{}", self.value(depth))
            })
            .collect();
        format!("{{{}}}", pairs.join(","))
    }

    /// Always with a fault: the last field is none that there is.
    fn body(&mut self) -> Vec<u8> {
        match self.0.u8(..10) {
            0 => (0..self.0.usize(..300)).map(|_| self.0.u8(..)).collect(),
            1 => "[".repeat(self.0.usize(1..60_000)).into_bytes(),
            2 => "{\"filter\":".repeat(self.0.usize(1..6_000)).into_bytes(),
            3 => format!("{{\"ids\":[{}\"x\"],\"expect\":1}}", "\"x\",".repeat(1_001)).into_bytes(),
            4 => vec![b' '; self.0.usize(1..70_000)],
            5 => b"{\"filter\":{\"key\":\"\xff\xfe\"},\"expect\":0}".to_vec(),
            // An object by itself may happen to be what is asked for: `{"key":"a"}` is a replay.
            6 => format!("[{}]", self.value(6)).into_bytes(),
            _ => {
                let mut body = self.object(4);
                body.truncate(body.len() - 1);
                let comma = if body == "{" { "" } else { "," };
                format!(
                    "{body}{comma}\"{}\":1}}",
                    self.pick(&["x", "states", "IDS", "sql"])
                )
                .into_bytes()
            }
        }
    }

    fn request(&mut self) -> Vec<u8> {
        let close = "host: localhost\r\nconnection: close\r\n";
        match self.0.u8(..8) {
            0 | 1 => {
                let change = self.pick(&CHANGES);
                let body = self.body();
                let head = format!(
                    "POST /api/outboxes/orders/{change} HTTP/1.1\r\n{close}content-type: application/json\r\n\
                     content-length: {}\r\n\r\n",
                    body.len()
                );
                [head.into_bytes(), body].concat()
            }
            2 => {
                let (change, kind) = (
                    self.pick(&CHANGES),
                    self.pick(&["text/plain", "", "*/*", "application/xml"]),
                );
                let body = r#"{"filter":{},"expect":5}"#;
                format!(
                    "POST /api/outboxes/orders/{change} HTTP/1.1\r\n{close}content-type: {kind}\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                )
                .into_bytes()
            }
            3 => {
                let (method, path) = (
                    self.pick(&["PUT", "PATCH", "TRACE", "OPTIONS", "PROPFIND", "G@T", "get"]),
                    self.path(),
                );
                format!("{method} {path} HTTP/1.1\r\n{close}\r\n").into_bytes()
            }
            4 => {
                let mut bytes: Vec<u8> = (0..self.0.usize(1..400)).map(|_| self.0.u8(..)).collect();
                bytes.extend(b"\r\n\r\n");
                bytes
            }
            5 => {
                let header = self.pick(&[
                    "host: evil.example\r\n",
                    "host: localhost\r\nhost: evil.example\r\n",
                    "host: localhost\r\norigin: http://evil.example\r\n",
                    "host: localhost\r\nsec-fetch-site: cross-site\r\n",
                    "host: localhost\r\ncontent-length: -1\r\n",
                    "host: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n",
                    "host: localhost\r\ntransfer-encoding: chunked, identity\r\n",
                    "host: localhost\r\nx: \0\r\n",
                    "host localhost\r\n",
                ]);
                format!("POST /api/outboxes/orders/dead/discard HTTP/1.1\r\n{header}connection: close\r\n\r\n").into_bytes()
            }
            _ => {
                let (path, query) = (self.pick(&PATHS[..2]), self.query());
                format!("GET {path}?{query} HTTP/1.1\r\n{close}\r\n").into_bytes()
            }
        }
    }
}

/// The status, or `None` where the server closed the connection without one.
async fn send(address: &str, request: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have had enough before the end.
    let sent = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer).await;
    if answer.is_empty() && (sent.is_err() || read.is_err()) {
        return None;
    }
    let text = String::from_utf8_lossy(&answer);
    text.get(9..12).and_then(|status| status.parse().ok())
}

async fn contents(outbox: &TestOutbox) -> Vec<Vec<Option<String>>> {
    let mut contents = Vec::new();
    for table in ["outbox_events", "postrider_troubles", "postrider_audit"] {
        let rows = format!("SELECT t::text FROM {table} t ORDER BY 1");
        contents.push(outbox.database.texts(&rows).await);
    }
    contents
}

#[tokio::test]
async fn ten_thousand_hostile_inputs_are_refused_and_change_nothing() {
    let (outbox, project) = five_dead().await;
    let api = Api::start(&project).await;
    api.relay.becomes(200).await;
    let before = contents(&outbox).await;
    let address = api.relay.address().await;
    let seed = fastrand::u64(..);
    let began = Instant::now();
    let senders = (0..SENDERS).map(|sender| {
        let address = address.clone();
        tokio::spawn(async move {
            let mut maker = Maker(fastrand::Rng::with_seed(seed.wrapping_add(sender)));
            let mut statuses = std::collections::BTreeMap::new();
            for _ in 0..INPUTS / SENDERS {
                let request = maker.request();
                let sent = tokio::time::timeout(PATIENCE, send(&address, &request));
                let status = sent
                    .await
                    .unwrap_or_else(|_| panic!("seed {seed}: hangs: {}", shown(&request)));
                let refused = status.is_none_or(|status| (400..500).contains(&status));
                // A path that was left as it is, is answered.
                let plain = status == Some(200) && is_plain(&request);
                assert!(
                    refused || plain,
                    "seed {seed}: {status:?}: {}",
                    shown(&request)
                );
                *statuses.entry(status).or_insert(0_u64) += 1;
            }
            statuses
        })
    });
    let mut statuses = std::collections::BTreeMap::new();
    for sender in senders.collect::<Vec<_>>() {
        for (status, count) in sender.await.unwrap() {
            *statuses.entry(status).or_insert(0) += count;
        }
    }
    let took = began.elapsed();
    println!("{INPUTS} inputs in {took:?}: {statuses:?}");
    assert_eq!(contents(&outbox).await, before, "seed {seed}");
    assert_eq!(api.relay.readyz().await.0, 200, "seed {seed}");
    assert_eq!(api.count("state=dead").await, 5);
    let log = api.relay.text().join("\n");
    assert!(
        !log.contains("DROP TABLE") && !log.contains("panicked"),
        "{log}"
    );
}

/// A question that has nothing wrong with it: random changes may leave one.
fn is_plain(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let target = text.split(' ').nth(1).unwrap_or_default();
    (text.starts_with("OPTIONS ") || text.starts_with("GET ")) && !target.contains('?')
}

fn shown(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    text.chars().take(600).collect()
}
