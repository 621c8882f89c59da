//! What people and scripts read: tables and JSON on stdout, errors on stderr, and the exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::UsageError;
use crate::config::ConfigError;

pub(crate) const FAILED: u8 = 1;
pub(crate) const ASKED_WRONGLY: u8 = 2;

/// 0, or 1 where something is not as it should be.
pub(crate) fn verdict(ok: bool) -> ExitCode {
    if ok { ExitCode::SUCCESS } else { FAILED.into() }
}

/// Prints the error with its causes, once, and gives the exit code for it.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    // Whoever read our output has seen enough (`postrider layouts | head -1`).
    let gone = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(gone) {
        return ExitCode::SUCCESS;
    }
    let mut text = format!("error: {error}\n");
    let mut said = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Some errors have their cause in their own text.
        if !said.contains(&cause) {
            text.push_str(&format!("  because: {cause}\n"));
            said.push_str(&cause);
        }
    }
    note(text.trim_end());
    let asked_wrongly = error.is::<ConfigError>() || error.is::<UsageError>();
    if asked_wrongly { ASKED_WRONGLY } else { FAILED }.into()
}

/// A line on stderr. With stderr gone there is nobody left to tell.
pub(crate) fn note(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

pub(crate) fn text(text: &str) -> io::Result<()> {
    io::stdout().write_all(text.as_bytes())
}

pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string_pretty(value)?;
    line.push('\n');
    text(&line)
}

/// Columns as wide as their widest cell.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let mut widths = head.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |cells: [&str; N]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut lines = line(head);
    for row in rows {
        lines.push_str(&line(row.each_ref().map(String::as_str)));
    }
    text(&lines)
}

/// One line of at most `chars_max` characters, without control characters that a terminal would obey.
pub(crate) fn cell(text: &str, chars_max: usize) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.chars().count() <= chars_max {
        return line;
    }
    line.chars().take(chars_max - 1).chain(['…']).collect()
}

/// As one word of a shell, whatever is in it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+@%=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_short_line_that_no_terminal_obeys() {
        assert_eq!(cell("a\n\u{1b}[31mb", 20), "a  [31mb");
        assert_eq!(cell("éééé", 3), "éé…");
        assert_eq!(cell("abc", 3), "abc");
    }
}
