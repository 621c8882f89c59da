//! Resending and discarding: counted first, then done in the outbox's order, batch by batch.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use postrider::core::{Actor, RecordId, Router};
use serde_json::json;

use super::super::{UsageError, caller};
use super::which::{OPTIONS, Which};
use super::{not_dead, print};
use crate::wiring::Store;
use crate::{output, shown, topics};

/// Records that are changed at a time, in one transaction.
const BATCH: u32 = 1000;
/// Records that a dry run names.
const NAMED_MAX: u32 = 20;

#[derive(clap::Args)]
pub(super) struct Change {
    /// Every dead record of the outbox
    #[arg(long, conflicts_with_all = ["id", "event_type", "key", "topic", "error", "older_than", "newer_than"])]
    all: bool,
    /// Count the records, name the first of them, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Who does it, for the audit; by default the user and the host
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Do not ask on a terminal
    #[arg(long, short)]
    yes: bool,
}

/// What is done to a dead record.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Resend,
    Discard,
}

impl Verb {
    fn done(self) -> &'static str {
        match self {
            Self::Resend => "resent",
            Self::Discard => "discarded",
        }
    }
}

pub(super) async fn run(which: &Which, change: &Change, verb: Verb) -> anyhow::Result<ExitCode> {
    if which.is_open() && !change.all {
        let text = format!("say which records by {OPTIONS}, or say --all");
        return Err(UsageError(text).into());
    }
    let (store, router) = which.store()?;
    let count = store.count(&which.filter()).await?;
    let named = which.ids().len() as u64;
    if count < named {
        let dead = store.find(&which.filter(), None, BATCH).await?.items;
        not_dead(which, &store, &dead).await?;
    }
    if change.dry_run {
        dry_run(which, (&store, &router), verb, count).await?;
        return Ok(output::verdict(count >= named));
    }
    if !confirmed(change, verb, count)? {
        output::note("nothing is changed");
        return Ok(output::verdict(false));
    }
    let by = change
        .by
        .as_ref()
        .map_or_else(caller::actor, |by| Actor(by.clone()));
    let changed = change_all(which, &store, verb, count, &by).await?;
    let done = verb.done();
    if which.json {
        output::json(&json!({ done: changed }))?;
    } else {
        output::text(&format!("{changed} {done}\n"))?;
    }
    if changed != count {
        output::note(&format!(
            "{count} were dead before; somebody else changed the others"
        ));
    }
    // Who names records wants to know when one of them is not dead.
    Ok(output::verdict(changed >= named))
}

async fn dry_run(
    which: &Which,
    (store, router): (&Store, &Router),
    verb: Verb,
    count: u64,
) -> anyhow::Result<()> {
    let mut first = store.find(&which.filter(), None, NAMED_MAX).await?.items;
    topics::fill(router, &mut first);
    if which.json {
        let records: Vec<_> = first.iter().map(shown::record).collect();
        return Ok(output::json(
            &json!({ "dry_run": true, "count": count, "records": records }),
        )?);
    }
    print::table(&first)?;
    let shown = if count > u64::from(NAMED_MAX) {
        "; these are the first"
    } else {
        ""
    };
    output::note(&format!("{count} records would be {}{shown}", verb.done()));
    Ok(())
}

/// Asks where somebody can answer. Scripts are taken at their word.
fn confirmed(change: &Change, verb: Verb, count: u64) -> anyhow::Result<bool> {
    let done = verb.done();
    if change.yes || count == 0 {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        output::note(&format!("{count} dead records match"));
        return Ok(true);
    }
    let finality = match verb {
        Verb::Resend => "",
        Verb::Discard => " for good",
    };
    write!(
        std::io::stderr(),
        "{count} dead records are {done}{finality}. Go on? [y/N] "
    )?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// No more than were counted: what dies in the meantime was not meant. What dies again lies behind the cursor and is not
/// touched twice. A batch may cut a key's run in two: the key stays parked by the rest until that is resent as well.
async fn change_all(
    which: &Which,
    store: &Store,
    verb: Verb,
    count: u64,
    by: &Actor,
) -> anyhow::Result<u64> {
    let filter = which.filter();
    let (mut left, mut changed, mut from) = (count, 0, None);
    while left > 0 {
        let batch = u32::try_from(left).unwrap_or(BATCH).min(BATCH);
        let only = || format!("only {changed} of {count} {}", verb.done());
        let page = store.find(&filter, from.as_ref(), batch).await;
        let page = page.with_context(only)?;
        let ids: Vec<RecordId> = page.items.into_iter().map(|record| record.id).collect();
        let done = match verb {
            Verb::Resend => store.resend(&ids, by).await,
            Verb::Discard => store.discard(&ids, by).await,
        };
        changed += done.with_context(only)?;
        left = left.saturating_sub(ids.len() as u64);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    Ok(changed)
}
