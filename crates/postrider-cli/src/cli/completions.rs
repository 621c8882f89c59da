//! `postrider completions` and `postrider man`: what shells and readers need, from the CLI's own definition.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;
use crate::output;

#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell whose script is printed
    shell: Shell,
}

#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Write a page for each verb into this folder, which is made; without it, the main page is printed
    dir: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "postrider", &mut script);
    output::text(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    match &args.dir {
        Some(dir) => {
            let wrote = std::fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
            wrote
                .with_context(|| format!("the man pages cannot be written to {}", dir.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            io::Write::write_all(&mut io::stdout(), &page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
