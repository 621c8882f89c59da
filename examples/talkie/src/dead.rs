//! Dead letters, by command: inspected, resent, purged.

use std::io::Write;

use anyhow::Context as _;
use clap::Subcommand;
use postrider::core::{Actor, ManagedStore, RecordFilter, RecordId};

/// Records per look.
const LIMIT: u32 = 1_000;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show dead letters, oldest first
    Inspect,
    /// Make dead letters pending again, with their retries counted from 0
    Resend(Which),
    /// Delete dead letters for good
    Purge(Which),
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// This one; may be repeated
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// All of them
    #[arg(long)]
    all: bool,
}

pub async fn run(
    command: &Command,
    letters: &dyn ManagedStore,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    match command {
        Command::Inspect => inspect(letters, out).await,
        Command::Resend(which) => {
            let resent = letters
                .resend(&which.ids(letters).await?, &operator())
                .await?;
            Ok(writeln!(out, "{resent} resent")?)
        }
        Command::Purge(which) => {
            let purged = letters
                .discard(&which.ids(letters).await?, &operator())
                .await?;
            Ok(writeln!(out, "{purged} purged")?)
        }
    }
}

/// Whoever has a shell with this binary and the database's address.
fn operator() -> Actor {
    Actor("talkie dead".into())
}

async fn inspect(letters: &dyn ManagedStore, out: &mut impl Write) -> anyhow::Result<()> {
    let dead = letters
        .find(&RecordFilter::dead(), None, LIMIT)
        .await?
        .items;
    for record in &dead {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        writeln!(
            out,
            "{} topic={} key={} attempts={} created={} error={}",
            record.id,
            or_dash(&record.topic),
            or_dash(&record.key),
            record.attempts,
            record.created_at,
            or_dash(&record.error)
        )?;
    }
    Ok(writeln!(out, "{} dead", dead.len())?)
}

impl Which {
    async fn ids(&self, letters: &dyn ManagedStore) -> anyhow::Result<Vec<RecordId>> {
        if self.all {
            let dead = letters
                .find(&RecordFilter::dead(), None, LIMIT)
                .await?
                .items;
            return Ok(dead.into_iter().map(|record| record.id).collect());
        }
        let uuid = |id: &String| {
            let id = id.parse().with_context(|| format!("{id} is not an id"))?;
            Ok(RecordId::Uuid(id))
        };
        self.id.iter().map(uuid).collect()
    }
}
