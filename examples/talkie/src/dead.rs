//! Dead letters, by command: inspected, resent, purged.

use std::io::Write;

use anyhow::Context as _;
use clap::Subcommand;
use postrider::core::{Actor, Cursor, ManagedStore, RecordFilter, RecordId, StoredRecord};

/// Records per look, and per change.
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
            let mut resent = 0;
            which
                .each(letters, async |ids| {
                    resent += letters.resend(ids, &operator()).await?;
                    Ok(())
                })
                .await?;
            Ok(writeln!(out, "{resent} resent")?)
        }
        Command::Purge(which) => {
            let mut purged = 0;
            which
                .each(letters, async |ids| {
                    purged += letters.discard(ids, &operator()).await?;
                    Ok(())
                })
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
    let mut dead = 0;
    let mut from = None;
    loop {
        let (records, next) = page(letters, from).await?;
        for record in &records {
            show(record, out)?;
        }
        dead += records.len();
        if next.is_none() {
            return Ok(writeln!(out, "{dead} dead")?);
        }
        from = next;
    }
}

fn show(record: &StoredRecord, out: &mut impl Write) -> std::io::Result<()> {
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
    )
}

/// Dead letters, oldest first, from where the last page ended.
async fn page(
    letters: &dyn ManagedStore,
    from: Option<Cursor>,
) -> anyhow::Result<(Vec<StoredRecord>, Option<Cursor>)> {
    let filter = RecordFilter::dead();
    let page = letters.find(&filter, from.as_ref(), LIMIT).await?;
    Ok((page.items, page.next))
}

impl Which {
    /// Passes on the ids in parts. All are those that are dead when it is their turn: none is met twice, so that a letter
    /// that dies again meanwhile ends nothing up in a circle.
    async fn each(
        &self,
        letters: &dyn ManagedStore,
        mut change: impl AsyncFnMut(&[RecordId]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.all {
            let uuid = |id: &String| {
                let id = id.parse().with_context(|| format!("{id} is not an id"))?;
                Ok(RecordId::Uuid(id))
            };
            let ids = self
                .id
                .iter()
                .map(uuid)
                .collect::<anyhow::Result<Vec<_>>>()?;
            return change(&ids).await;
        }
        let mut from = None;
        loop {
            let (records, next) = page(letters, from).await?;
            let ids: Vec<RecordId> = records.into_iter().map(|record| record.id).collect();
            change(&ids).await?;
            if next.is_none() {
                return Ok(());
            }
            from = next;
        }
    }
}
