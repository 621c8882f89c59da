//! `postrider verify`: an outbox compared with what its broker holds.

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use postrider::Verify;
use postrider::core::Timestamp;
use postrider::verify::{Report, Stage, Suspect, Tally, VerifyError, VerifyOptions};
use serde_json::{Value, json};

use super::{ConfigArgs, UsageError, one};
use crate::config::Outbox;
use crate::progress::Progress;
use crate::{moment, output, wiring};

/// The least often that the progress is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// The outbox; needed where the config has several
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,
    /// Records that were created at this time or later: RFC 3339, or an age such as 2h
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    since: Timestamp,
    /// Records that were created before this time; now unless it is given
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    until: Option<Timestamp>,
    /// How far the clocks of services, database, relays and brokers may be apart
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = humantime::parse_duration)]
    slack: Duration,
    /// Exit with 0 though some are of this kind; may be repeated
    #[arg(long, value_name = "KIND")]
    allow: Vec<Kind>,
    /// Print JSON, and no progress
    #[arg(long)]
    json: bool,
}

/// What can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Lost,
    Duplicated,
    Inverted,
    Unknown,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let until = args.until.unwrap_or_else(Timestamp::now);
    if args.since >= until {
        let text = format!("--since {} is not before --until {until}", args.since);
        return Err(UsageError(text).into());
    }
    let config = args.config.load()?;
    let outbox = one(&config, args.outbox.as_deref())?;
    let options = VerifyOptions {
        slack: args.slack,
        ..VerifyOptions::new(args.since, until)
    };
    let verify = Verify::new(
        wiring::store(outbox)?,
        wiring::readback_of(&config, outbox)?,
        outbox.layout.clone(),
        wiring::router(outbox),
        options,
    );
    let report = watched(verify, args.json).await.map_err(asked_wrongly)?;
    let found = kinds(&report);
    let ok = found.iter().all(|(kind, tally)| {
        tally.is_none_or(|tally| tally.count == 0) || args.allow.contains(kind)
    });
    match args.json {
        true => output::json(&to_json(outbox, &report, ok))?,
        false => print(outbox, &report)?,
    }
    Ok(output::verdict(ok))
}

async fn watched(verify: Verify, quiet: bool) -> Result<Report, VerifyError> {
    let (mut shown, mut progress) = (Progress::new(quiet), verify.progress());
    let running = verify.run();
    tokio::pin!(running);
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            Ok(()) = progress.changed() => {}
            () = tokio::time::sleep(TELL_EVERY) => {}
        }
        let now = *progress.borrow_and_update();
        let stage = match now.stage {
            Stage::Outbox => "reading the outbox",
            Stage::Broker => "reading the topics",
            Stage::Lookup => "looking for ids in the outbox",
        };
        shown.tell(stage, now.done, now.total, None);
    };
    shown.end();
    ended
}

/// Some errors ask for another range or layout: exit code 2.
fn asked_wrongly(error: VerifyError) -> anyhow::Error {
    match error {
        VerifyError::NoEventId { .. }
        | VerifyError::TooMany { .. }
        | VerifyError::TooManyTopics { .. } => UsageError(error.to_string()).into(),
        error => error.into(),
    }
}

/// In the order in which they matter; `None` where the outbox makes no such promise.
fn kinds(report: &Report) -> [(Kind, Option<&Tally>); 4] {
    [
        (Kind::Lost, Some(&report.lost)),
        (Kind::Inverted, report.inverted.as_ref()),
        (Kind::Duplicated, Some(&report.duplicated)),
        (Kind::Unknown, Some(&report.unknown)),
    ]
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Duplicated => "duplicated",
            Self::Inverted => "inverted",
            Self::Unknown => "unknown",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Lost => "published records that the broker does not have",
            Self::Duplicated => "records that it has more than once, replays left out",
            Self::Inverted => "records that it has before an earlier one of their key",
            Self::Unknown => {
                "messages with an event id that the outbox does not have; those of purged records look the same"
            }
        }
    }
}

fn print(outbox: &Outbox, report: &Report) -> anyhow::Result<()> {
    output::text(&format!(
        "outbox {}, records created from {} to {}\n{} published, {} waiting, {} dead; {} messages read of {} topics, \
         {} of them replays, {} not of this outbox\n\n",
        outbox.name,
        report.since,
        report.until,
        report.published,
        report.waiting,
        report.dead,
        report.messages,
        report.topics,
        report.replayed,
        report.foreign,
    ))?;
    let mut rows = Vec::new();
    for (kind, tally) in kinds(report) {
        let (count, meaning) = match tally {
            Some(tally) => (tally.count.to_string(), kind.meaning()),
            None => ("-".into(), "not checked: the outbox keeps no order per key"),
        };
        rows.push([kind.name().into(), count, meaning.into()]);
    }
    output::table(["WHAT", "COUNT", "MEANING"], &rows)?;
    for (kind, tally) in kinds(report) {
        let Some(tally) = tally.filter(|tally| !tally.first.is_empty()) else {
            continue;
        };
        let (named, count) = (tally.first.len(), tally.count);
        output::text(&format!("\n{} ({named} of {count}):\n", kind.name()))?;
        let rows: Vec<[String; 4]> = tally.first.iter().map(row).collect();
        output::table(["EVENT ID", "TYPE", "KEY", "SEEN"], &rows)?;
    }
    for note in &report.notes {
        output::note(&format!("note: {note}"));
    }
    Ok(())
}

fn row(suspect: &Suspect) -> [String; 4] {
    let or_dash = |text: &Option<String>| output::cell(text.as_deref().unwrap_or("-"), 40);
    [
        output::cell(suspect.event_id.as_str(), 60),
        or_dash(&suspect.event_type),
        or_dash(&suspect.key),
        output::cell(&suspect.seen, 160),
    ]
}

fn to_json(outbox: &Outbox, report: &Report, ok: bool) -> Value {
    let tally = |tally: &Tally| {
        let first: Vec<Value> = tally.first.iter().map(suspect).collect();
        json!({ "count": tally.count, "first": first })
    };
    json!({
        "ok": ok,
        "outbox": outbox.name,
        "since": report.since.to_string(),
        "until": report.until.to_string(),
        "published": report.published,
        "waiting": report.waiting,
        "dead": report.dead,
        "topics": report.topics,
        "messages": report.messages,
        "replayed": report.replayed,
        "foreign": report.foreign,
        "lost": tally(&report.lost),
        "duplicated": tally(&report.duplicated),
        "inverted": report.inverted.as_ref().map(tally),
        "unknown": tally(&report.unknown),
        "notes": report.notes,
    })
}

fn suspect(suspect: &Suspect) -> Value {
    json!({
        "event_id": suspect.event_id,
        "record": suspect.record.as_ref().map(ToString::to_string),
        "event_type": suspect.event_type,
        "key": suspect.key,
        "seen": suspect.seen,
    })
}
