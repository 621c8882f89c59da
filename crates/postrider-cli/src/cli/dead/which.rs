//! Which dead records are meant.

use postrider::core::{RecordFilter, RecordId, Router, Timestamp};

use super::super::{ConfigArgs, one};
use crate::moment;
use crate::wiring::{self, Store};

pub(super) const OPTIONS: &str =
    "--id, --type, --key, --topic, --error, --older-than or --newer-than";

#[derive(clap::Args)]
pub(super) struct Which {
    #[command(flatten)]
    config: ConfigArgs,
    /// The outbox; needed where the config has several
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,
    /// Only this record; may be repeated
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Only records of this event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only records of this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only records whose topic column says this
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Only records whose error contains this, in any case
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only records that were created longer ago, for example 2h, or before a time
    #[arg(long, value_name = "AGE", value_parser = moment::parse)]
    older_than: Option<Timestamp>,
    /// Only records that were created within this age, or since a time
    #[arg(long, value_name = "AGE", value_parser = moment::parse)]
    newer_than: Option<Timestamp>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Which {
    /// The outbox's table, and where its records go.
    pub(super) fn store(&self) -> anyhow::Result<(Store, Router)> {
        let config = self.config.load()?;
        let outbox = one(&config, self.outbox.as_deref())?;
        Ok((wiring::store(outbox)?, wiring::router(outbox)))
    }

    pub(super) fn filter(&self) -> RecordFilter {
        RecordFilter {
            ids: self.ids(),
            event_type: self.event_type.clone(),
            key: self.key.clone(),
            topic: self.topic.clone(),
            error: self.error.clone(),
            since: self.newer_than,
            until: self.older_than,
            ..RecordFilter::dead()
        }
    }

    pub(super) fn ids(&self) -> Vec<RecordId> {
        let mut ids: Vec<RecordId> = self.id.iter().map(|id| id.as_str().into()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether every dead record is meant.
    pub(super) fn is_open(&self) -> bool {
        self.filter() == RecordFilter::dead()
    }

    /// For a command that is suggested.
    pub(super) fn options(&self) -> String {
        let option = |outbox: &String| format!(" --outbox {outbox}");
        let outbox = self.outbox.as_ref().map(option).unwrap_or_default();
        format!("{}{outbox}", self.config.option())
    }
}
