//! `postrider dead`: records that were given up. Payloads are not shown.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use postrider::core::{Actor, RecordFilter, RecordId, StoredRecord};
use serde_json::{Value, json};

use super::{ConfigArgs, UsageError, chosen};
use crate::output;
use crate::wiring::{self, Store};

/// Records that are read, resent or discarded at a time.
const BATCH: u32 = 1000;
/// Records that a dry run names.
const DRY_RUN_MAX: u32 = 10_000;
const ERROR_CHARS_MAX: usize = 60;

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

#[derive(clap::Args)]
struct Which {
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Change {
    /// Every dead record of the outbox
    #[arg(long, conflicts_with_all = ["id", "event_type", "key"])]
    all: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// What is done to a dead record.
#[derive(Clone, Copy)]
enum Verb {
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

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::List { which, limit } => {
            let records = find(&which.store()?, &which.filter(), limit).await?;
            which.print(&records)?;
        }
        Action::Show { which } => return show(&which).await,
        Action::Resend { which, change } => return alter(&which, &change, Verb::Resend).await,
        Action::Discard { which, change } => return alter(&which, &change, Verb::Discard).await,
    }
    Ok(ExitCode::SUCCESS)
}

impl Which {
    fn store(&self) -> anyhow::Result<Store> {
        let config = self.config.load()?;
        match chosen(&config, self.outbox.as_deref())?.as_slice() {
            [outbox] => Ok(wiring::store(outbox)?),
            several => {
                let names: Vec<&str> = several.iter().map(|outbox| &*outbox.name).collect();
                let text = format!("name one outbox by --outbox: {}", names.join(", "));
                Err(UsageError(text).into())
            }
        }
    }

    fn filter(&self) -> RecordFilter {
        RecordFilter {
            ids: self.id.iter().map(|id| record_id(id)).collect(),
            event_type: self.event_type.clone(),
            key: self.key.clone(),
            ..RecordFilter::dead()
        }
    }

    fn is_open(&self) -> bool {
        self.id.is_empty() && self.event_type.is_none() && self.key.is_none()
    }

    fn print(&self, records: &[StoredRecord]) -> anyhow::Result<()> {
        if self.json {
            let lines: Vec<Value> = records.iter().map(to_json).collect();
            return Ok(output::json(&lines)?);
        }
        let rows: Vec<[String; 6]> = records.iter().map(row).collect();
        Ok(output::table(
            ["ID", "TYPE", "KEY", "ATTEMPTS", "CREATED", "ERROR"],
            &rows,
        )?)
    }
}

async fn show(which: &Which) -> anyhow::Result<ExitCode> {
    if which.is_open() {
        return Err(UsageError("name records by --id, --type or --key".into()).into());
    }
    let records = find(&which.store()?, &which.filter(), BATCH).await?;
    if which.json {
        which.print(&records)?;
    } else {
        for record in &records {
            output::text(&page(record))?;
        }
    }
    if records.is_empty() {
        output::note("no such record is dead");
    }
    Ok(output::verdict(!records.is_empty()))
}

async fn alter(which: &Which, change: &Change, verb: Verb) -> anyhow::Result<ExitCode> {
    if which.is_open() && !change.all {
        let text = "name records by --id, --type or --key, or say --all";
        return Err(UsageError(text.into()).into());
    }
    let store = which.store()?;
    let records = match change.dry_run {
        true => {
            let records = find(&store, &which.filter(), DRY_RUN_MAX).await?;
            which.print(&records)?;
            records.len() as u64
        }
        false => alter_all(&store, &which.filter(), verb).await?,
    };
    let done = verb.done();
    match change.dry_run {
        true => output::note(&format!("{records} records would be {done}")),
        false if which.json => output::json(&json!({ done: records }))?,
        false => output::text(&format!("{records} {done}\n"))?,
    }
    // Who names records wants to know when one of them is not dead.
    Ok(output::verdict(records >= which.id.len() as u64))
}

async fn find(
    store: &Store,
    filter: &RecordFilter,
    limit: u32,
) -> anyhow::Result<Vec<StoredRecord>> {
    Ok(store.find(filter, None, limit).await?.items)
}

/// Works through the records in the outbox's order, batch by batch. What dies again in the meantime lies behind, and is
/// not touched twice.
async fn alter_all(store: &Store, filter: &RecordFilter, verb: Verb) -> anyhow::Result<u64> {
    let by = Actor("postrider dead".into());
    let (mut altered, mut from) = (0, None);
    loop {
        let page = store.find(filter, from.as_ref(), BATCH).await?;
        let ids: Vec<RecordId> = page.items.into_iter().map(|record| record.id).collect();
        let batch = match verb {
            Verb::Resend => store.resend(&ids, &by).await,
            Verb::Discard => store.discard(&ids, &by).await,
        };
        altered += batch.with_context(|| format!("only {altered} {}", verb.done()))?;
        from = page.next;
        if from.is_none() {
            return Ok(altered);
        }
    }
}

/// In the type that the text looks like; the store compares it as its column's type.
fn record_id(text: &str) -> RecordId {
    if let Ok(number) = text.parse() {
        return RecordId::Int(number);
    }
    match text.parse() {
        Ok(uuid) => RecordId::Uuid(uuid),
        Err(_) => RecordId::Text(text.into()),
    }
}

fn row(record: &StoredRecord) -> [String; 6] {
    let or_dash = |text: &Option<String>| output::cell(text.as_deref().unwrap_or("-"), 40);
    [
        record.id.to_string(),
        or_dash(&record.event_type),
        or_dash(&record.key),
        record.attempts.to_string(),
        record.created_at.to_string(),
        output::cell(record.error.as_deref().unwrap_or("-"), ERROR_CHARS_MAX),
    ]
}

fn page(record: &StoredRecord) -> String {
    let or_dash = |text: &Option<String>| output::cell(text.as_deref().unwrap_or("-"), usize::MAX);
    format!(
        "id:         {}\ntype:       {}\nkey:        {}\ntopic:      {}\nattempts:   {}\n\
         created at: {}\nerror:      {}\n\n",
        output::cell(&record.id.to_string(), usize::MAX),
        or_dash(&record.event_type),
        or_dash(&record.key),
        or_dash(&record.topic),
        record.attempts,
        record.created_at,
        or_dash(&record.error),
    )
}

fn to_json(record: &StoredRecord) -> Value {
    json!({
        "id": record.id.to_string(),
        "event_type": record.event_type,
        "key": record.key,
        "topic": record.topic,
        "attempts": record.attempts,
        "created_at": record.created_at.to_string(),
        "error": record.error,
    })
}
