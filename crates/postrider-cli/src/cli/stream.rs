//! `postrider stream`: where an append-only outbox was read up to, and starting anew after a restore.

use std::process::ExitCode;

use anyhow::Context as _;
use postrider::core::layout::ClaimMode;
use postrider::stores::postgres::GroupStatus;
use serde_json::json;

use super::{ConfigArgs, UsageError, chosen};
use crate::config::Outbox;
use crate::{output, wiring};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show where every group of lanes stands
    Status(StatusArgs),
    /// Go on in a database that was restored from a dump: what was not read is published, in order
    ReAnchor(ReAnchorArgs),
}

#[derive(clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ReAnchorArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The outbox
    #[arg(long, value_name = "NAME")]
    outbox: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Status(args) => status(args).await,
        Action::ReAnchor(args) => re_anchor(args).await,
    }
}

async fn status(args: StatusArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.load()?;
    let mut found: Vec<(&str, Vec<GroupStatus>)> = Vec::new();
    for outbox in chosen(&config, args.outbox.as_deref())? {
        if args.outbox.is_some() {
            streams(outbox)?;
        } else if outbox.layout.claim != ClaimMode::Stream {
            continue;
        }
        let groups = wiring::stream_store(outbox)?.stream_status().await;
        let groups =
            groups.with_context(|| format!("cannot read the stream of {}", outbox.name))?;
        found.push((&outbox.name, groups));
    }
    let all = || {
        found
            .iter()
            .flat_map(|(name, groups)| groups.iter().map(move |group| (*name, group)))
    };
    for (name, group) in all() {
        if let Some(reason) = &group.refused {
            output::note(&format!("{name}, group {}: {reason}", group.group));
        }
    }
    if args.json {
        let lines: Vec<_> = all().map(|(name, group)| shown(name, group)).collect();
        output::json(&lines)?;
    } else {
        let rows: Vec<[String; 6]> = all()
            .map(|(name, group)| {
                [
                    name.to_owned(),
                    group.group.to_string(),
                    group.version.to_string(),
                    group.epoch.to_string(),
                    group.position.to_string(),
                    group.from_snapshot.clone(),
                ]
            })
            .collect();
        let head = ["OUTBOX", "GROUP", "VERSION", "EPOCH", "POSITION", "FROM"];
        output::table(head, &rows)?;
    }
    let refused = all().any(|(_, group)| group.refused.is_some());
    Ok(if refused {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn shown(outbox: &str, group: &GroupStatus) -> serde_json::Value {
    json!({
        "outbox": outbox,
        "group": group.group,
        "version": group.version,
        "epoch": group.epoch,
        "position": group.position,
        "from": group.from_snapshot,
        "to": group.to_snapshot,
        "system_identifier": group.system_identifier,
        "timeline": group.timeline,
        "refused": group.refused,
    })
}

async fn re_anchor(args: ReAnchorArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.load()?;
    for outbox in chosen(&config, Some(&args.outbox))? {
        streams(outbox)?;
        let anchored = wiring::stream_store(outbox)?.re_anchor().await;
        let anchored =
            anchored.with_context(|| format!("{} could not be re-anchored", outbox.name))?;
        if args.json {
            output::json(&json!({ "outbox": outbox.name, "unread": anchored.unread }))?;
        } else {
            output::text(&format!(
                "{}: goes on here; {} records are to be published\n",
                outbox.name, anchored.unread
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn streams(outbox: &Outbox) -> Result<(), UsageError> {
    if outbox.layout.claim == ClaimMode::Stream {
        return Ok(());
    }
    Err(UsageError(format!(
        "outbox {} has layout {}, which is not read as a stream",
        outbox.name, outbox.layout.name
    )))
}
