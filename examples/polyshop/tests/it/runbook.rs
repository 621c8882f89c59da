//! `docs/runbook-dead-letters.md`, followed: its commands as they stand there, with what they must be told filled in.

use std::process::Command;

use crate::shop::{Shop, here};

/// A part of the runbook, from its heading to the next.
pub(crate) struct Runbook<'a> {
    shop: &'a Shop,
    text: String,
}

impl<'a> Runbook<'a> {
    /// The topics and servers that the page is written for become those of the test.
    pub(crate) fn of(shop: &'a Shop, event_id: &str, key: &str) -> Self {
        let page = here().join("../../docs/runbook-dead-letters.md");
        let text = std::fs::read_to_string(page).unwrap();
        let topic = shop.topic("order.order.placed.v1");
        let text = text
            .replace("127.0.0.1:29092", shop.kafka.bootstrap())
            .replace("order.order.placed.v1", &topic)
            .replace("<eventId>", event_id)
            .replace("<key>", key);
        Self { shop, text }
    }

    /// What stands between fences of this language in a section; each block has a line with `marker` in it.
    fn block(&self, section: &str, language: &str, marker: &str) -> String {
        let (_, rest) = self.text.split_once(section).unwrap();
        let fence = format!("```{language}\n");
        let found = rest.split(&fence).skip(1).find_map(|block| {
            let block = block.split_once("```").unwrap().0;
            block.contains(marker).then(|| block.to_owned())
        });
        found.unwrap_or_else(|| panic!("{section} has no {language} with {marker}"))
    }

    /// Runs a shell command of the runbook where it is meant to be run, and gives what it prints.
    pub(crate) async fn shell(&self, section: &str, marker: &str) -> String {
        let kafka = self.block("# Runbook", "sh", "kafka() {");
        let script = format!("{kafka}{}", self.block(section, "sh", marker));
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(here().join("../.."));
        let ran = tokio::task::spawn_blocking(move || bash.output()).await;
        let ran = ran.unwrap().unwrap();
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{script}\n{printed}{said}");
        printed
    }

    /// Runs the statements of the runbook in the schema that their first line names.
    pub(crate) async fn sql(&self, section: &str, service: &str, marker: &str) {
        let sql = self.block(section, "sql", marker);
        self.shop.schema(service).execute(&sql).await;
    }

    /// The same for a question.
    pub(crate) async fn answer(&self, section: &str, service: &str, marker: &str) -> Vec<String> {
        let sql = self.block(section, "sql", marker);
        self.shop.schema(service).texts(&sql).await
    }
}
