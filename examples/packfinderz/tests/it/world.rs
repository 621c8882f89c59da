//! PackFinderz' own corner of the servers: a schema with its tables, a Pub/Sub project with its topic and subscription.

use std::path::{Path, PathBuf};
use std::process::Command;

use example_packfinderz::{schema, settings};
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::services::services;
use serde_json::json;
use uuid::Uuid;

use crate::program::Program;

pub(crate) const API: &str = env!("CARGO_BIN_EXE_api");
pub(crate) const CONSUMER: &str = env!("CARGO_BIN_EXE_compliance-consumer");
pub(crate) const PUBLISHER: &str = env!("CARGO_BIN_EXE_outbox-publisher");

const DEFAULT_TOPIC: &str = "pf-domain-events";
const SUBSCRIPTION: &str = "pf-compliance";

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) project: String,
}

impl World {
    /// With the default topic, and a subscription to it.
    pub(crate) async fn new() -> Self {
        let database = fresh_schema().await;
        schema::create(&database.pool, false).await.unwrap();
        let world = Self {
            database,
            project: format!("pf-{}", Uuid::now_v7().simple()),
        };
        world.subscribe(DEFAULT_TOPIC, SUBSCRIPTION).await;
        world
    }

    /// Creates a topic and a subscription to it.
    pub(crate) async fn subscribe(&self, topic: &str, subscription: &str) {
        self.create(&format!("topics/{topic}"), &json!({})).await;
        let topic = format!("projects/{}/topics/{topic}", self.project);
        let body = json!({ "topic": topic });
        self.create(&format!("subscriptions/{subscription}"), &body)
            .await;
    }

    async fn create(&self, name: &str, body: &serde_json::Value) {
        let url = format!(
            "http://{}/v1/projects/{}/{name}",
            services().pubsub,
            self.project
        );
        let request = reqwest::Client::new().put(url).json(body);
        request.send().await.unwrap().error_for_status().unwrap();
    }

    /// All that the programs need; of two values of a variable the last counts.
    pub(crate) fn variables(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let servers = services();
        let own = [
            (settings::DATABASE_URL, self.database.url.as_str()),
            (settings::REDIS_URL, &servers.redis_url),
            (settings::PROJECT, &self.project),
            (settings::DOMAIN_SUBSCRIPTION, SUBSCRIPTION),
            (settings::API_LISTEN, "127.0.0.1:0"),
            (settings::HEALTH_LISTEN, "127.0.0.1:0"),
            ("PUBSUB_EMULATOR_HOST", &servers.pubsub),
        ];
        own.iter()
            .chain(more)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// Starts a program that is ready.
    pub(crate) async fn ready(&self, program: &str, more: &[(&str, &str)]) -> Program {
        let program = Program::start(Command::new(program), &self.variables(more));
        program.becomes(200).await;
        program
    }

    /// Rows as any service may write them, at `attempts`, one after the other in age.
    pub(crate) async fn insert(&self, count: u32, attempts: u32) {
        let sql = "INSERT INTO outbox_events \
             (id, event_type, aggregate_type, aggregate_id, payload_json, attempt_count, created_at) \
             SELECT id, 'ad_paused', 'ad', gen_random_uuid(), \
             jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', now(), 'data', jsonb_build_object()), \
             {attempts}, clock_timestamp() \
             FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, {count})) new";
        let sql = sql.replace("{attempts}", &attempts.to_string());
        let sql = sql.replace("{count}", &count.to_string());
        self.database.execute(&sql).await;
    }

    pub(crate) async fn until_published(&self, count: i64) {
        self.until_count("outbox_events WHERE published_at IS NOT NULL", count)
            .await;
    }

    /// Each of these rows needs a poll of its own.
    pub(crate) async fn publish_one_by_one(&self, count: i64) {
        let before = self.database.count("outbox_events").await;
        for published in before + 1..=before + count {
            self.insert(1, 0).await;
            self.until_published(published).await;
        }
    }

    pub(crate) async fn until_count(&self, from: &str, count: i64) {
        postrider_testkit::eventually(from, async || match self.database.count(from).await {
            found if found == count => Ok(()),
            found => Err(found),
        })
        .await;
    }
}

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
