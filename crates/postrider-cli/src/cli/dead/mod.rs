//! `postrider dead`: records that were given up. Payloads are not shown.

mod change;
mod print;
mod which;

use std::process::ExitCode;

use clap::Subcommand;
use postrider::core::{Audited, RecordFilter, StoredRecord};

use super::UsageError;
use crate::wiring::Store;
use crate::{output, shown, topics};
use change::{Change, Verb};
use which::Which;

/// Most records that `show` prints.
const SHOWN_MAX: u32 = 1000;
/// Most acts that `show` prints of a record.
const ACTS_MAX: u32 = 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// One line per dead record, oldest first
    List {
        #[command(flatten)]
        which: Which,
        /// Most records to print
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
    },
    /// Everything that is known of dead records but their payload
    Show {
        #[command(flatten)]
        which: Which,
    },
    /// Make dead records pending again, with their attempts counted from 0
    Resend {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        change: Change,
    },
    /// Delete dead records for good, which frees their keys
    Discard {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        change: Change,
    },
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::List { which, limit } => list(&which, limit).await,
        Action::Show { which } => show(&which).await,
        Action::Resend { which, change } => change::run(&which, &change, Verb::Resend).await,
        Action::Discard { which, change } => change::run(&which, &change, Verb::Discard).await,
    }
}

async fn list(which: &Which, limit: u32) -> anyhow::Result<ExitCode> {
    let ((store, router), filter) = (which.store()?, which.filter());
    let mut page = store.find(&filter, None, limit).await?;
    topics::fill(&router, &mut page.items);
    if which.json {
        output::json(&page.items.iter().map(shown::record).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    print::table(&page.items)?;
    let Some(first) = page.items.first() else {
        output::note("no dead record matches");
        return Ok(ExitCode::SUCCESS);
    };
    if page.next.is_some() {
        let dead = store.count(&filter).await?;
        output::note(&format!("{limit} of {dead}; --limit prints more"));
    }
    let options = which.options();
    output::note(&format!(
        "to look closer:         postrider dead show{options} --id {id}\n\
         once the cause is gone: postrider dead resend{options} --id {id} (or --type, --key, --error, --all; --dry-run counts)",
        id = output::cell(&first.id.to_string(), usize::MAX),
    ));
    Ok(ExitCode::SUCCESS)
}

async fn show(which: &Which) -> anyhow::Result<ExitCode> {
    if which.is_open() {
        return Err(UsageError(format!("say which records by {}", which::OPTIONS)).into());
    }
    let (store, router) = which.store()?;
    let mut page = store.find(&which.filter(), None, SHOWN_MAX).await?;
    topics::fill(&router, &mut page.items);
    let mut shown = Vec::new();
    for record in &page.items {
        let acts = acts(&store, record).await;
        if which.json {
            shown.push(print::json_with(record, &acts));
        } else {
            output::text(&print::page(record, &acts))?;
        }
    }
    if which.json {
        output::json(&shown)?;
    }
    if page.next.is_some() {
        output::note(&format!("these are the first {SHOWN_MAX}"));
    }
    if page.items.is_empty() {
        output::note("no such record is dead");
        not_dead(which, &store, &[]).await?;
    }
    Ok(output::verdict(!page.items.is_empty()))
}

/// What was done to a record before. Without an audit table nothing was.
async fn acts(store: &Store, record: &StoredRecord) -> Vec<Audited> {
    let acts = store.audited(Some(&record.id), ACTS_MAX).await;
    acts.unwrap_or_default()
}

/// Says what became of the records that were named and are not dead, apart from those `known` to have been.
async fn not_dead(which: &Which, store: &Store, known: &[StoredRecord]) -> anyhow::Result<()> {
    const NAMED_MAX: u32 = 10;
    let mut ids = which.ids();
    ids.retain(|id| {
        !known
            .iter()
            .any(|record| record.id.to_string() == id.to_string())
    });
    if ids.is_empty() {
        return Ok(());
    }
    let filter = RecordFilter {
        ids,
        ..RecordFilter::default()
    };
    let found = store.find(&filter, None, NAMED_MAX).await?.items;
    for record in &found {
        let id = output::cell(&record.id.to_string(), usize::MAX);
        output::note(&format!("record {id} is {}", record.state.as_str()));
    }
    if found.is_empty() {
        output::note("there is no record with this id in the outbox");
    }
    Ok(())
}
