//! `postrider replay`: published records that are still stored are sent again, marked by a header.

mod command;
mod run;

use std::io::{IsTerminal as _, Write as _};
use std::num::NonZeroU32;
use std::process::ExitCode;

use postrider::core::layout::State;
use postrider::core::{RecordFilter, RecordId, RecordState, StoredRecord, Timestamp};
use postrider::replay::{ReplayOptions, Resume};
use serde_json::json;

use super::{ConfigArgs, UsageError, one};
use crate::config::Outbox;
use crate::wiring::{self, Store};
use crate::{moment, output};

/// Records that a dry run names.
const SHOWN: u32 = 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// The outbox; needed where the config has several
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,
    /// Only records that were created at this time or later: RFC 3339, or an age such as 2h
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    since: Option<Timestamp>,
    /// Only records that were created before this time; now unless it is given
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    until: Option<Timestamp>,
    /// Only records of this event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only records of this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only this record; may be repeated
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Every published record that is still stored
    #[arg(long, conflicts_with_all = ["since", "until", "event_type", "key", "id"])]
    all: bool,
    /// Send all of them to this topic, not to where they went
    #[arg(long, value_name = "TOPIC")]
    to_topic: Option<String>,
    /// Most records a second, for example 200/s
    #[arg(long, value_name = "N/s", value_parser = rate)]
    rate: Option<NonZeroU32>,
    /// Go on where a replay with the same filters ended, which printed this
    #[arg(long, value_name = "CURSOR")]
    from: Option<Resume>,
    /// Leave out records that the broker or the routes refuse, instead of ending there
    #[arg(long)]
    skip_refused: bool,
    /// Count the records, show the first of them, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before sending
    #[arg(long, short)]
    yes: bool,
    /// Print JSON, and no progress
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    if !args.all && args.is_open() {
        let text = "say which records by --since, --until, --type, --key or --id, or say --all";
        return Err(UsageError(text.into()).into());
    }
    // An age means another time in the command that continues, so it is a time from here on.
    args.until.get_or_insert(Timestamp::now());
    let config = args.config.load()?;
    let outbox = one(&config, args.outbox.as_deref())?;
    if matches!(outbox.layout.state, State::Delete) {
        let text =
            "its layout deletes records once they are published, so there is nothing to replay";
        return Err(UsageError(format!("outbox {}: {text}", outbox.name)).into());
    }
    let store = wiring::store(outbox)?;
    let records = store.count(&args.filter()).await?;
    if args.dry_run {
        return dry_run(&args, &store, records).await;
    }
    match confirm(&args, outbox, records)? {
        true => run::send(&args, &config, outbox, store).await,
        false => {
            output::note("nothing was sent");
            Ok(output::verdict(false))
        }
    }
}

impl Args {
    fn is_open(&self) -> bool {
        self.since.is_none()
            && self.until.is_none()
            && self.event_type.is_none()
            && self.key.is_none()
            && self.id.is_empty()
    }

    fn filter(&self) -> RecordFilter {
        RecordFilter {
            ids: self.id.iter().map(|id| RecordId::from(&**id)).collect(),
            event_type: self.event_type.clone(),
            key: self.key.clone(),
            since: self.since,
            until: self.until,
            ..RecordFilter::in_state(RecordState::Published)
        }
    }

    fn options(&self, outbox: &Outbox) -> ReplayOptions {
        ReplayOptions {
            filter: self.filter(),
            to_topic: self.to_topic.as_deref().map(Into::into),
            rate: self.rate,
            from: self.from.clone(),
            skip: self.skip_refused,
            publish_timeout: outbox.publish_timeout,
            ..ReplayOptions::default()
        }
    }

    /// Who names records wants to know when one of them cannot be replayed.
    fn found_all(&self, records: u64) -> bool {
        records >= self.id.len() as u64
    }
}

async fn dry_run(args: &Args, store: &Store, records: u64) -> anyhow::Result<ExitCode> {
    let cursor = args.from.as_ref().map(|from| &from.cursor);
    let first = store.find(&args.filter(), cursor, SHOWN).await?.items;
    let left = records.saturating_sub(args.from.as_ref().map_or(0, |from| from.passed));
    if args.json {
        let ids: Vec<String> = first.iter().map(|record| record.id.to_string()).collect();
        output::json(&json!({ "records": left, "first": ids }))?;
    } else {
        let rows: Vec<[String; 4]> = first.iter().map(row).collect();
        output::table(["ID", "TYPE", "KEY", "CREATED"], &rows)?;
        output::note(&format!(
            "{left} records would be sent again; these are the first"
        ));
    }
    Ok(output::verdict(args.found_all(records)))
}

/// Asks on a terminal; elsewhere `--yes` is needed.
fn confirm(args: &Args, outbox: &Outbox, records: u64) -> anyhow::Result<bool> {
    let passed = args.from.as_ref().map_or(0, |from| from.passed);
    let to = match &args.to_topic {
        Some(topic) => format!("topic {topic}"),
        None => "where they went".into(),
    };
    let question = format!(
        "{} published records of outbox {} are sent again to {to}.",
        records.saturating_sub(passed),
        outbox.name
    );
    if args.yes || records == 0 {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(UsageError(format!("{question} Say --yes to send them")).into());
    }
    write!(std::io::stderr(), "{question} Go on? [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn row(record: &StoredRecord) -> [String; 4] {
    let or_dash = |text: &Option<String>| output::cell(text.as_deref().unwrap_or("-"), 40);
    [
        output::cell(&record.id.to_string(), 60),
        or_dash(&record.event_type),
        or_dash(&record.key),
        record.created_at.to_string(),
    ]
}

fn rate(text: &str) -> Result<NonZeroU32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    number
        .parse()
        .map_err(|_| format!("`{text}` is no rate; give records a second, for example 200/s"))
}
