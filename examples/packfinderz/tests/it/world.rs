//! PackFinderz' own corner of the servers: a schema with its tables, a Pub/Sub project with its topic and subscription.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use example_packfinderz::{migrations, settings};
use postrider::brokers::pubsub::{PubSubSubscription, PubSubSubscriptionConfig};
use postrider::core::{Message, Ordering, Subscription as _};
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::services::services;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::program::Program;

pub(crate) const API: &str = env!("CARGO_BIN_EXE_api");
pub(crate) const CLEANUP: &str = env!("CARGO_BIN_EXE_outbox-cleanup");
pub(crate) const CONSUMER: &str = env!("CARGO_BIN_EXE_compliance-consumer");
pub(crate) const PUBLISHER: &str = env!("CARGO_BIN_EXE_outbox-publisher");

const DEFAULT_TOPIC: &str = "pf-domain-events";
const SUBSCRIPTION: &str = "pf-compliance";
const MESSAGES_WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) project: String,
    /// `host:port` of Pub/Sub.
    pub(crate) pubsub: String,
}

impl World {
    /// With the default topic, and a subscription to it.
    pub(crate) async fn new() -> Self {
        let world = Self::without_topics(services().pubsub.clone()).await;
        world.subscribe(DEFAULT_TOPIC, SUBSCRIPTION).await;
        world
    }

    /// On a Pub/Sub server in which nothing is made yet.
    pub(crate) async fn without_topics(pubsub: String) -> Self {
        let database = fresh_schema().await;
        migrations::up(&database.pool).await.unwrap();
        Self {
            database,
            project: format!("pf-{}", Uuid::now_v7().simple()),
            pubsub,
        }
    }

    /// Creates a topic and a subscription to it.
    pub(crate) async fn subscribe(&self, topic: &str, subscription: &str) {
        self.create(&format!("topics/{topic}"), &json!({})).await;
        let topic = format!("projects/{}/topics/{topic}", self.project);
        let body = json!({ "topic": topic });
        self.create(&format!("subscriptions/{subscription}"), &body)
            .await;
    }

    pub(crate) async fn create(&self, name: &str, body: &Value) {
        let request = reqwest::Client::new().put(self.pubsub_url(name)).json(body);
        request.send().await.unwrap().error_for_status().unwrap();
    }

    /// Of something in the project, at Pub/Sub's REST interface.
    pub(crate) fn pubsub_url(&self, name: &str) -> String {
        let Self {
            pubsub, project, ..
        } = self;
        format!("http://{pubsub}/v1/projects/{project}/{name}")
    }

    /// Waits for so many messages of a subscription, and acknowledges them.
    pub(crate) async fn messages(&self, subscription: &str, count: usize) -> Vec<Message> {
        let mut from = PubSubSubscriptionConfig::new(&self.project, subscription);
        from.ordering = Ordering::None;
        from.endpoint = Some(format!("http://{}", self.pubsub));
        let subscription = PubSubSubscription::new(from).unwrap();
        let mut messages = Vec::new();
        let taking = async {
            while messages.len() < count {
                for mut delivery in subscription.next(count).await.unwrap() {
                    delivery.ack();
                    messages.push(delivery.message.clone());
                }
            }
        };
        tokio::time::timeout(MESSAGES_WITHIN, taking).await.unwrap();
        subscription.close(MESSAGES_WITHIN).await;
        messages
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
            ("PUBSUB_EMULATOR_HOST", &self.pubsub),
        ];
        own.iter()
            .chain(more)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// Runs `make run-outbox-publisher` in a shell that has nothing but these variables.
    pub(crate) async fn make_run_publisher(&self, more: &[(&str, &str)]) -> Program {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec make run-outbox-publisher"]);
        shell.current_dir(root());
        let path = std::env::var("PATH").unwrap();
        // It would build the program; it is built.
        let mut variables = vec![("PATH", path.as_str()), ("OUTBOX_PUBLISHER", PUBLISHER)];
        variables.extend(more);
        let program = Program::start(shell, &self.variables(&variables));
        program.becomes(200).await;
        program
    }

    /// Starts a program that is ready.
    pub(crate) async fn ready(&self, program: &str, more: &[(&str, &str)]) -> Program {
        let program = Program::start(Command::new(program), &self.variables(more));
        program.becomes(200).await;
        program
    }

    /// A command of the `postrider` that is shipped, in an environment of the programs' variables
    /// and these.
    pub(crate) fn postrider(&self, arguments: &[&str], more: &[(&str, &str)]) -> Command {
        let mut command = Command::new(postrider());
        command.args(arguments).env_clear();
        let own = [
            ("POSTRIDER__ADMIN__LISTEN", "127.0.0.1:0"),
            ("POSTRIDER__BROKER__PUBSUB__PROJECT", &self.project),
        ];
        command.envs(self.variables(&own));
        command.envs(more.iter().copied());
        command
    }

    /// Starts `postrider relay` with a config.
    pub(crate) fn relay(&self, config: &Path, more: &[(&str, &str)]) -> Program {
        let arguments = ["relay", "--config", config.to_str().unwrap()];
        Program::spawn(self.postrider(&arguments, more))
    }

    /// Rows as any service may write them, at `attempts`, one after the other in age.
    pub(crate) async fn insert(&self, count: u32, attempts: u32) {
        let sql = "INSERT INTO outbox_events \
             (id, event_type, aggregate_type, aggregate_id, payload_json, attempt_count, created_at) \
             SELECT id, 'ad_paused', 'ad', gen_random_uuid(), \
             jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', now(), 'data', \
               jsonb_build_object('adId', gen_random_uuid(), 'storeId', gen_random_uuid())), \
             {attempts}, clock_timestamp() \
             FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, {count})) new";
        let sql = sql.replace("{attempts}", &attempts.to_string());
        let sql = sql.replace("{count}", &count.to_string());
        self.database.execute(&sql).await;
    }

    /// Uploads a license for a store of its own and gives its id.
    pub(crate) async fn upload(&self, api: &Program) -> String {
        let body = json!({ "storeId": Uuid::now_v7() });
        let (status, license) = api.post("/licenses", &body).await;
        assert_eq!(status, 201, "{license}");
        license["licenseId"].as_str().unwrap().to_owned()
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

/// Beside the example's programs. Building the workspace, as `make test` does, has built it; a test
/// of this package alone builds it if it is not there.
fn postrider() -> &'static Path {
    static POSTRIDER: OnceLock<PathBuf> = OnceLock::new();
    POSTRIDER.get_or_init(|| {
        let program = Path::new(PUBLISHER).with_file_name("postrider");
        if !program.exists() {
            let mut build = Command::new(env!("CARGO"));
            let built = build.args(["build", "--package", "postrider-cli"]).status();
            assert!(built.unwrap().success(), "postrider cannot be built");
        }
        program
    })
}

/// A config of `postrider`. Goes with this value.
pub(crate) struct ConfigOnDisk(PathBuf);

impl ConfigOnDisk {
    pub(crate) fn new(text: &str) -> Self {
        let name = format!("{}.toml", Uuid::now_v7().simple());
        let file = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        std::fs::write(&file.0, text).unwrap();
        file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ConfigOnDisk {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}
