//! `docs/benchmarks.md`: tables, goals and charts from the stored results. Nobody writes a figure there by hand.

mod book;
mod chart;
mod goals;
mod tables;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::run::results::Results;
use book::Book;

const BEGIN: &str = "<!-- written by `postrider-bench report`: begin -->";
const END: &str = "<!-- written by `postrider-bench report`: end -->";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Results of `run`. Without any, the page is made again from those that are stored beside it.
    files: Vec<PathBuf>,
    /// The page; results and charts are stored in the folder of its name.
    #[arg(long, default_value_os_t = crate::run::root().join("docs/benchmarks.md"))]
    to: PathBuf,
}

pub(crate) fn report(args: &Args) -> anyhow::Result<()> {
    let folder = args.to.with_extension("");
    std::fs::create_dir_all(&folder)?;
    if !args.files.is_empty() {
        store(&args.files, &folder)?;
    }
    let made = make(&folder)?;
    let page = std::fs::read_to_string(&args.to).with_context(|| args.to.display().to_string())?;
    std::fs::write(&args.to, put_between(&page, &made.tables)?)?;
    for (name, svg) in &made.charts {
        std::fs::write(folder.join(name), svg)?;
    }
    Ok(())
}

/// Replaces what is stored by these.
fn store(files: &[PathBuf], folder: &Path) -> anyhow::Result<()> {
    let mut kept = Vec::new();
    for file in files {
        let mut results = Results::load(file)?;
        for measurement in &mut results.measurements {
            measurement.log = None;
        }
        let text = results.text()?;
        refuse_private(&text).with_context(|| file.display().to_string())?;
        let name = file.file_name().context("a file has a name")?;
        kept.push((folder.join(name), text));
    }
    for old in files_in(folder, "json")?
        .into_iter()
        .chain(files_in(folder, "svg")?)
    {
        std::fs::remove_file(old)?;
    }
    for (file, text) in kept {
        std::fs::write(file, text)?;
    }
    Ok(())
}

/// What is published says nothing about where it was measured.
fn refuse_private(text: &str) -> anyhow::Result<()> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let root = crate::run::root().display().to_string();
    let home = std::env::var("HOME").unwrap_or_default();
    for private in [host.trim(), &root, &home, "://"] {
        anyhow::ensure!(
            private.len() < 3 || !text.contains(private),
            "the results contain {private:?}, which must not be published: take it out by hand"
        );
    }
    Ok(())
}

fn files_in(folder: &Path, wanted: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == wanted) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

struct Made {
    tables: String,
    charts: Vec<(String, String)>,
}

fn make(folder: &Path) -> anyhow::Result<Made> {
    let runs = files_in(folder, "json")?
        .iter()
        .map(|file| Results::load(file))
        .collect::<Result<_, _>>()?;
    let name = folder.file_name().context("a folder has a name")?;
    Ok(made(&Book::new(runs), &name.to_string_lossy()))
}

/// `folder`: where the charts are, as the page sees it.
fn made(book: &Book, folder: &str) -> Made {
    if book.runs.is_empty() {
        return Made {
            tables: "\nNo run is stored yet.\n".into(),
            charts: Vec::new(),
        };
    }
    let charts = chart::all(book);
    let mut tables = tables::about(book);
    tables += &goals::table(book);
    for (name, _) in &charts {
        let alt = name.trim_end_matches(".svg").replace('-', " ");
        tables += &format!("\n![{alt}]({folder}/{name})\n");
    }
    tables += &tables::all(book);
    Made { tables, charts }
}

fn put_between(page: &str, tables: &str) -> anyhow::Result<String> {
    let missing = "the page has no marks for what is written by `report`";
    let (before, rest) = page.split_once(BEGIN).context(missing)?;
    let (_, after) = rest.split_once(END).context(missing)?;
    Ok(format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
}

#[cfg(test)]
mod tests;
