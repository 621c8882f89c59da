//! `postrider cleanup --once`: deletes published records that are older than their outbox keeps them.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use super::{ConfigArgs, UsageError, chosen};
use crate::config::{Cleanup, Outbox};
use crate::{output, wiring};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,
    /// Clean up and end; a running relay cleans up by itself
    #[arg(long, required = true)]
    once: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    debug_assert!(args.once, "the parser requires it");
    let config = args.config.load()?;
    let mut deleted = Vec::new();
    for outbox in chosen(&config, args.outbox.as_deref())? {
        match outbox.cleanup {
            Some(cleanup) => {
                let records = clean(outbox, cleanup).await;
                let records =
                    records.with_context(|| format!("clean-up of {} failed", outbox.name))?;
                deleted.push((&outbox.name, records));
            }
            None if args.outbox.is_some() => {
                let name = &outbox.name;
                let text =
                    format!("outbox {name} has no [outbox.cleanup], which says what to keep");
                return Err(UsageError(text).into());
            }
            None => output::note(&format!(
                "{}: has no [outbox.cleanup], nothing is deleted",
                outbox.name
            )),
        }
    }
    if args.json {
        let lines: Vec<_> = deleted
            .iter()
            .map(|(outbox, records)| json!({ "outbox": outbox, "deleted": records }))
            .collect();
        output::json(&lines)?;
    } else {
        let rows: Vec<[String; 2]> = deleted
            .iter()
            .map(|(outbox, records)| [outbox.to_string(), records.to_string()])
            .collect();
        output::table(["OUTBOX", "DELETED"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Batch by batch, each in its own statement, until one is not full.
async fn clean(outbox: &Outbox, cleanup: Cleanup) -> anyhow::Result<u64> {
    let store = wiring::store(outbox)?;
    let mut deleted = 0;
    loop {
        let batch = store.purge(cleanup.keep, cleanup.batch).await?;
        deleted += batch;
        if batch < u64::from(cleanup.batch) {
            return Ok(deleted);
        }
    }
}
