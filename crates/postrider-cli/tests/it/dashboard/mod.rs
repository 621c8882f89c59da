//! The dashboard in a real browser, on a real relay: what changes something does what it says, checked in the table and on the topic.

mod access;
mod browser;
mod controls;
mod dead;
mod event;
mod keyboard;
mod looks;
mod overview;
mod parked;
mod records;
mod replay;

use postrider_testkit::eventually;
use postrider_testkit::kafka::{Kafka, KafkaRecord};

use crate::binary::{Project, Relay};
use crate::outbox::TestOutbox;

use browser::Browser;

/// Nothing of an outbox with this line has a route, so all of it is dead at once; keys are not parked meanwhile.
const NO_ROUTE: &str = "on_dead = \"skip\"\n[[outbox.route]]\nevent_type = \"none.of.these\"\n";

/// The config with an outbox `mails` too, like `orders` but for its database.
fn with_mails(config: &str, mails: &TestOutbox) -> String {
    let orders = config.find("[[outbox]]").unwrap();
    let second: Vec<String> = config[orders..]
        .lines()
        .map(|line| match line.split_once(" = ") {
            Some(("name", _)) => "name = \"mails\"".to_owned(),
            Some(("database", _)) => format!("database = \"{}\"", mails.url()),
            _ => line.to_owned(),
        })
        .collect();
    format!("{config}\n{}\n", second.join("\n"))
}

/// An outbox with dead letters whose cause is mended by now: a resent one reaches its topic.
struct Stage {
    outbox: TestOutbox,
    topic: String,
    kafka: Kafka,
    project: Project,
    relay: Relay,
}

impl Stage {
    /// `dead` is (type, key), the first emitted first.
    async fn with(dead: &[(&str, &str)]) -> Self {
        Self::with_config(dead, |config| config).await
    }

    async fn with_config(dead: &[(&str, &str)], change: impl FnOnce(String) -> String) -> Self {
        let outbox = TestOutbox::create("polyshop").await;
        if !dead.is_empty() {
            for (event_type, key) in dead {
                outbox.emit(event_type, key).await;
            }
            let broken = outbox.project(NO_ROUTE);
            let _relay = broken.relay().await;
            eventually("all are dead", async || {
                let found = broken.run(&["status", "--json"]).ok().json()["outboxes"][0].take();
                if found["dead"] == dead.len() {
                    Ok(())
                } else {
                    Err(found)
                }
            })
            .await;
        }
        let kafka = Kafka::shared();
        let topic = kafka.fresh_topic(1).await;
        let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", kafka.bootstrap());
        let config = outbox.config_with(&broker, &format!("topic = \"{topic}\""));
        let project = Project::new(&change(config));
        let relay = project.relay().await;
        relay.logged("admin address is open").await;
        Self {
            outbox,
            topic,
            kafka,
            project,
            relay,
        }
    }

    async fn browser(&self) -> Browser {
        let address = self.relay.address().await.replace("0.0.0.0", "127.0.0.1");
        Browser::open(&address).await
    }

    /// At a page of the outbox, once it has figures.
    async fn at(&self, page: &str) -> Browser {
        let browser = self.browser().await;
        browser.shows("#stream", "Live").await;
        browser.visit(&format!("#/orders/{page}")).await;
        browser
    }

    /// Waits until so many messages are on the topic, and gives them.
    async fn published(&self, wanted: usize) -> Vec<KafkaRecord> {
        eventually("messages on the topic", async || {
            let records = self.kafka.records(&self.topic).await;
            if records.len() == wanted {
                Ok(records)
            } else {
                Err((records, self.relay.text()))
            }
        })
        .await
    }

    async fn rows(&self, condition: &str) -> i64 {
        self.outbox
            .database
            .count(&format!("outbox_events WHERE {condition}"))
            .await
    }

    async fn id_of(&self, event_type: &str) -> String {
        let sql = format!("SELECT id FROM outbox_events WHERE event_type = '{event_type}'");
        self.outbox.database.text(&sql).await.unwrap()
    }
}
