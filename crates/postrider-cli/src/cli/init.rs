//! `postrider init`: creates what an outbox needs, or prints the statements for somebody else to run.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use postrider::core::Layout;

use super::{ConfigArgs, UsageError, chosen};
use crate::config::{DatabaseKind, DatabaseUrl, Environment, Reference, Sources};
use crate::output;
use crate::wiring::{self, InitOptions};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only this outbox of the config
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    outbox: Option<String>,
    /// Without a config: the layout to create
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// With --layout: where to create it; a URL, env:NAME or file:PATH
    #[arg(long, value_name = "URL", requires = "layout")]
    database: Option<String>,
    /// With --layout: another name for its table
    #[arg(long, value_name = "TABLE", requires = "layout")]
    table: Option<String>,
    /// With --layout native: groups of lanes, each read by one relay at a time
    #[arg(long, value_name = "NUMBER", requires = "layout")]
    groups: Option<u32>,
    /// With --layout native: the type of the payload column, bytea or json
    #[arg(long, value_name = "TYPE", requires = "layout")]
    payload: Option<String>,
    /// Print the statements and change nothing
    #[arg(long)]
    print: bool,
    /// Also create the index that keeps claims fast on a long backlog
    #[arg(long)]
    claim_index: bool,
    /// Also create the trigger that wakes relays at once; it costs a lock at commit. SQLite needs none
    #[arg(long)]
    notify: bool,
}

/// A table to create, and where.
struct Target {
    name: String,
    layout: Layout,
    database: Option<DatabaseUrl>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = InitOptions {
        claim_index: args.claim_index,
        notify: args.notify,
    };
    for target in targets(&args)? {
        let Target {
            name,
            layout,
            database,
        } = target;
        if args.print {
            let kind = database.map_or(DatabaseKind::Postgres, |database| database.kind());
            print(kind, &layout, &options)?;
            continue;
        }
        let needed = || UsageError("--layout needs --database, or --print".into());
        let database = database.ok_or_else(needed)?;
        let done = wiring::init(&database, &layout, &options).await;
        done.with_context(|| format!("{name} could not be initialised in {database}"))?;
        output::note(&format!(
            "{name}: table {} is ready in {database}",
            layout.table
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn targets(args: &Args) -> anyhow::Result<Vec<Target>> {
    let Some(name) = &args.layout else {
        let config = args.config.load()?;
        let chosen = chosen(&config, args.outbox.as_deref())?;
        let target = |outbox: &crate::config::Outbox| Target {
            name: outbox.name.clone(),
            layout: outbox.layout.clone(),
            database: Some(outbox.database.clone()),
        };
        return Ok(chosen.into_iter().map(target).collect());
    };
    let mut overrides = toml::Table::new();
    if let Some(table) = &args.table {
        overrides.insert("table".into(), table.as_str().into());
    }
    let mut state = toml::Table::new();
    if let Some(groups) = args.groups {
        state.insert("groups".into(), i64::from(groups).into());
    }
    if let Some(payload) = &args.payload {
        state.insert("payload".into(), payload.as_str().into());
    }
    if !state.is_empty() {
        overrides.insert("state".into(), state.into());
    }
    let usage = |error: &dyn std::error::Error| UsageError(error.to_string());
    let layout = Layout::with_overrides(name, overrides).map_err(|error| usage(&error))?;
    let sources = Sources::new(Environment::of_process(), Path::new(""));
    let database = args
        .database
        .as_deref()
        .map(|url| {
            Reference::new(url)
                .resolve(&sources)
                .and_then(DatabaseUrl::new)
        })
        .transpose()
        .map_err(|error| UsageError(format!("--database: {error}")))?;
    Ok(vec![Target {
        name: name.clone(),
        layout,
        database,
    }])
}

fn print(kind: DatabaseKind, layout: &Layout, options: &InitOptions) -> anyhow::Result<()> {
    for statement in wiring::ddl(kind, layout, options) {
        output::text(&format!(
            "{};\n",
            statement.trim_end().trim_end_matches(';')
        ))?;
    }
    Ok(())
}
