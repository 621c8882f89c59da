//! Forbids writing to a topic of a Kafka cluster, and allows it again. librdkafka's bindings have no call for access
//! rules, so these are the two requests as bytes.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::kafka::Kafka;

const CREATE_ACLS: i16 = 30;
const DELETE_ACLS: i16 = 31;
const VERSION: i16 = 1;
const TOPIC: u8 = 2;
const LITERAL: u8 = 3;
const WRITE: u8 = 4;
const DENY: u8 = 2;
const EVERYBODY: &str = "User:*";
const ANY_HOST: &str = "*";
const PATIENCE: Duration = Duration::from_secs(30);

impl Kafka {
    /// Nobody may write to the topic. The cluster needs an authorizer.
    pub async fn forbid_writing(&self, topic: &str) {
        self.change_access(CREATE_ACLS, topic).await;
    }

    /// Takes back what [`Kafka::forbid_writing`] did.
    pub async fn allow_writing(&self, topic: &str) {
        self.change_access(DELETE_ACLS, topic).await;
    }

    /// Both requests name the rule by the same fields in the same order.
    async fn change_access(&self, request: i16, topic: &str) {
        let mut body = Vec::new();
        body.extend(request.to_be_bytes());
        body.extend(VERSION.to_be_bytes());
        body.extend(1_i32.to_be_bytes());
        put(&mut body, "testkit");
        body.extend(1_i32.to_be_bytes());
        body.push(TOPIC);
        put(&mut body, topic);
        body.push(LITERAL);
        put(&mut body, EVERYBODY);
        put(&mut body, ANY_HOST);
        body.extend([WRITE, DENY]);
        let answer = tokio::time::timeout(PATIENCE, self.exchange(&body));
        let answer = answer.await.expect("an answer in time");
        // Correlation, throttle time, number of results, and the error of the only one.
        let error = i16::from_be_bytes([answer[12], answer[13]]);
        assert_eq!(error, 0, "access to {topic} was not changed");
    }

    async fn exchange(&self, body: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.bootstrap()).await.expect("Kafka");
        let size = i32::try_from(body.len()).expect("a small request");
        stream.write_all(&size.to_be_bytes()).await.expect("sent");
        stream.write_all(body).await.expect("sent");
        let size = stream.read_i32().await.expect("an answer");
        let mut answer = vec![0; usize::try_from(size).expect("a size")];
        stream.read_exact(&mut answer).await.expect("an answer");
        answer
    }
}

fn put(body: &mut Vec<u8>, text: &str) {
    let size = i16::try_from(text.len()).expect("a short text");
    body.extend(size.to_be_bytes());
    body.extend(text.as_bytes());
}
