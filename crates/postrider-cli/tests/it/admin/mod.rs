//! The admin address of the real binary, with a relay that runs, on real servers.

mod access;
mod api;
mod bounds;
mod changes;
mod counts;
mod hostile;
mod outage;
mod replay;

use std::time::Duration;

use postrider_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::{Project, Relay};
use crate::outbox::TestOutbox;

/// Events of any other type have no route, so they are dead at once.
const ROUTES: &str = "[[outbox.route]]\nevent_type = \"order.placed\"\n";

/// A running relay, and its API.
struct Api {
    relay: Relay,
    base: String,
    client: reqwest::Client,
}

impl Api {
    async fn start(project: &Project) -> Self {
        let relay = project.relay().await;
        let base = format!("http://{}", relay.address().await);
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(30))
            .build()
            .unwrap();
        Self {
            relay,
            base,
            client,
        }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.client.get(format!("{}{path}", self.base)).send();
        answer(response.await.unwrap()).await
    }

    /// Of the outbox `orders`; must be answered with 200.
    async fn ask(&self, path: &str) -> Value {
        let (status, body) = self.get(&format!("/api/outboxes/orders/{path}")).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}/api/outboxes/orders/{path}", self.base);
        let response = self.client.post(url).json(body).send();
        answer(response.await.unwrap()).await
    }

    async fn count(&self, query: &str) -> u64 {
        let body = self.ask(&format!("records/count?{query}")).await;
        body["count"].as_u64().unwrap()
    }

    /// Waits until as many records match.
    async fn counts(&self, query: &str, wanted: u64) {
        eventually(query, async || match self.count(query).await {
            count if count == wanted => Ok(()),
            count => Err(count),
        })
        .await;
    }

    /// The ids of the records that match, in the outbox's order.
    async fn ids(&self, query: &str) -> Vec<String> {
        let body = self.ask(&format!("records?limit=500&{query}")).await;
        let records = body["records"].as_array().unwrap();
        let id = |record: &Value| record["id"].as_str().unwrap().to_owned();
        records.iter().map(id).collect()
    }

    async fn overview(&self) -> Value {
        let (status, body) = self.get("/api/overview").await;
        assert_eq!(status, 200, "{body}");
        body["outboxes"][0].clone()
    }
}

async fn answer(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (status, body)
}

/// An outbox with dead records: three of key `7` behind each other, two of key `8`.
async fn five_dead() -> (TestOutbox, Project) {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project(&format!("on_dead = \"skip\"\n{ROUTES}"));
    for key in ["7", "8", "7", "8", "7"] {
        outbox.emit("order.lost", key).await;
    }
    let api = Api::start(&project).await;
    api.counts("state=dead", 5).await;
    (outbox, project)
}
