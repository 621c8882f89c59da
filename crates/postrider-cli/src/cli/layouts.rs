//! `postrider layouts`: the presets, to look at or to start an own layout from.

use std::process::ExitCode;

use clap::Subcommand;
use postrider::core::Layout;
use postrider::core::layout::{PRESETS, preset_source};
use serde_json::json;

use super::UsageError;
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Print a layout as TOML
    Show { name: String },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Some(Action::Show { name }) => show(&name, args.json)?,
        None => list(args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(name: &str, json: bool) -> anyhow::Result<()> {
    let source = preset_source(name).map_err(|error| UsageError(error.to_string()))?;
    match json {
        true => output::json(&Layout::preset(name)?)?,
        false => output::text(source)?,
    }
    Ok(())
}

fn list(json: bool) -> anyhow::Result<()> {
    let layouts = PRESETS
        .map(Layout::preset)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    if json {
        let names: Vec<_> = layouts
            .iter()
            .map(|layout| json!({ "name": layout.name, "table": layout.table, "topic": layout.topic }))
            .collect();
        output::json(&names)?;
        return Ok(());
    }
    let rows: Vec<[String; 3]> = layouts
        .iter()
        .map(|layout| {
            [
                layout.name.clone(),
                layout.table.to_string(),
                layout.topic.to_string(),
            ]
        })
        .collect();
    output::table(["LAYOUT", "TABLE", "TOPIC"], &rows)?;
    Ok(())
}
