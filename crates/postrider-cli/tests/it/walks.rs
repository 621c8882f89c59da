//! Guides that are run as they stand: their config is written, their SQL is executed, their commands are run.

use std::fs;
use std::path::Path;

use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::eventually;
use postrider_testkit::kafka::{Kafka, KafkaRecord};
use postrider_testkit::services::services;

use crate::binary::{Project, Relay};

/// One block of code of a page.
struct Block {
    language: String,
    text: String,
}

/// The blocks of the section with this heading, up to the next of its level.
fn blocks(page: &str, heading: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let page = fs::read_to_string(path).unwrap();
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap();
    let section = rest
        .split_once("\n## ")
        .map_or(rest, |(section, _)| section);
    let code = section.split("```").skip(1).step_by(2);
    let block = |code: &str| {
        let (language, text) = code.split_once('\n').unwrap();
        Block {
            language: language.into(),
            text: text.into(),
        }
    };
    code.map(block).collect()
}

/// A walk through a guide.
struct Walk {
    database: Database,
    project: Option<Project>,
    relay: Option<Relay>,
    /// What the last command printed.
    stdout: String,
}

impl Walk {
    /// With a topic of this test's own in place of the guide's.
    async fn through(page: &str, heading: &str, (topic, own): (&str, &str)) -> Self {
        let mut walk = Self {
            database: fresh_schema().await,
            project: None,
            relay: None,
            stdout: String::new(),
        };
        for block in blocks(page, heading) {
            let text = block.text.replace(topic, own);
            match block.language.as_str() {
                "toml" => walk.configure(&text),
                "sql" => walk.execute(&text).await,
                "console" => walk.run(&text).await,
                "text" => walk.printed(&text),
                other => panic!("nobody knows how to run a block of {other}"),
            }
        }
        walk
    }

    fn configure(&mut self, text: &str) {
        assert!(text.starts_with("# postrider.toml\n"), "{text}");
        let config = text.replace("127.0.0.1:9092", &services().kafka);
        assert_ne!(config, text, "the guide names another broker");
        let project = Project::new(&config)
            .variable("DATABASE_URL", &self.database.url)
            .variable("POSTRIDER__ADMIN__LISTEN", "127.0.0.1:0");
        self.project = Some(project);
    }

    async fn execute(&self, text: &str) {
        let text = sqlx::AssertSqlSafe(text);
        sqlx::raw_sql(text)
            .execute(&self.database.pool)
            .await
            .unwrap();
    }

    async fn run(&mut self, text: &str) {
        let commands = text
            .lines()
            .filter_map(|line| line.strip_prefix("$ postrider "));
        for command in commands {
            let project = self.project.as_ref().unwrap();
            let args: Vec<&str> = command.split_whitespace().collect();
            match args[..] {
                ["relay"] => {
                    let relay = project.relay().await;
                    relay.becomes(200).await;
                    self.relay = Some(relay);
                }
                // What the relay does takes a moment.
                _ if self.relay.is_some() => {
                    eventually(command, async || match project.run(&args) {
                        ran if ran.code == Some(0)
                            && !(args.contains(&"list") && nothing(&ran.stdout)) =>
                        {
                            Ok(())
                        }
                        ran => Err(ran),
                    })
                    .await;
                }
                _ => self.stdout = project.run(&args).ok().stdout,
            }
        }
    }

    /// Each line is the beginning of one that was printed.
    fn printed(&self, text: &str) {
        let schema = format!("{}.", self.database.schema);
        let stdout = self.stdout.replace(&schema, "public.");
        for line in text.lines() {
            assert!(
                stdout.lines().any(|printed| printed.starts_with(line)),
                "{line}\nis not in\n{stdout}"
            );
        }
    }

    async fn message(&self, topic: &str, id: &str) -> KafkaRecord {
        let id = id.as_bytes();
        let holds = |bytes: &[u8]| bytes.windows(id.len()).any(|part| part == id);
        let ours = |record: &KafkaRecord| {
            record.value.as_deref().is_some_and(holds)
                || record
                    .headers
                    .iter()
                    .any(|(_, value)| value.as_deref().is_some_and(holds))
        };
        eventually("the message", async || {
            let records = Kafka::shared().records(topic).await;
            records
                .into_iter()
                .find(ours)
                .ok_or("it is not on the topic")
        })
        .await
    }

    async fn text(&self, sql: &'static str) -> String {
        sqlx::query_scalar(sql)
            .fetch_one(&self.database.pool)
            .await
            .unwrap()
    }
}

/// A list with a head and no rows.
fn nothing(stdout: &str) -> bool {
    stdout.lines().count() < 2
}

#[tokio::test]
async fn getting_started_works_as_it_is_written() {
    let topic = Kafka::shared().fresh_topic(1).await;
    let renamed = ("order.order.placed.v1", topic.as_str());
    let walk = Walk::through(
        "getting-started.md",
        "## A relay on Postgres and Kafka",
        renamed,
    )
    .await;
    let id = walk
        .text("SELECT id::text FROM outbox_events WHERE aggregate_id = 'order-7'")
        .await;
    let message = walk.message(&topic, &id).await;
    assert_eq!(message.key.as_deref(), Some(&b"order-7"[..]));
    let left = walk
        .text("SELECT count(*)::text FROM outbox_events WHERE aggregate_id = 'order-8'")
        .await;
    assert_eq!(left, "0", "it was discarded");
}

#[tokio::test]
async fn a_foreign_table_is_relayed_as_the_guide_says() {
    let topic = Kafka::shared().fresh_topic(1).await;
    let renamed = ("shop.{event_type}", topic.as_str());
    let walk = Walk::through("layouts.md", "## I already have an outbox table", renamed).await;
    let id = walk.text("SELECT event_uuid::text FROM shop_events").await;
    let message = walk.message(&topic, &id).await;
    assert_eq!(message.key.as_deref(), Some(&b"ada"[..]));
    assert_eq!(message.value.as_deref(), Some(&br#"{"order": 1}"#[..]));
    eventually("it is marked", async || {
        let marked = walk
            .text("SELECT (sent_at IS NOT NULL)::text FROM shop_events")
            .await;
        if marked == "true" {
            Ok(())
        } else {
            Err(marked)
        }
    })
    .await;
}
