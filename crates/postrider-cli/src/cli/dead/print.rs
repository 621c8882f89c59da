//! A record as people and scripts read it.

use std::io;

use postrider::core::{Audited, StoredRecord};
use serde_json::{Value, json};

use crate::{output, shown};

const ERROR_CHARS_MAX: usize = 60;
const WORD_CHARS_MAX: usize = 40;

pub(super) fn table(records: &[StoredRecord]) -> io::Result<()> {
    let rows: Vec<[String; 6]> = records.iter().map(row).collect();
    output::table(["ID", "TYPE", "KEY", "ATTEMPTS", "CREATED", "ERROR"], &rows)
}

fn row(record: &StoredRecord) -> [String; 6] {
    [
        output::cell(&record.id.to_string(), usize::MAX),
        or_dash(record.event_type.as_ref(), WORD_CHARS_MAX),
        or_dash(record.key.as_ref(), WORD_CHARS_MAX),
        record.attempts.to_string(),
        record.created_at.to_string(),
        or_dash(record.error.as_ref(), ERROR_CHARS_MAX),
    ]
}

/// Everything, one line each, and what was done to it.
pub(super) fn page(record: &StoredRecord, acts: &[Audited]) -> String {
    let whole = |text: &Option<String>| or_dash(text.as_ref(), usize::MAX);
    let payload = record
        .payload_bytes
        .map_or_else(|| "NULL".into(), |bytes| format!("{bytes} bytes"));
    let lines = [
        ("id", output::cell(&record.id.to_string(), usize::MAX)),
        (
            "event id",
            output::cell(record.event_id.as_str(), usize::MAX),
        ),
        ("type", whole(&record.event_type)),
        ("aggregate", aggregate(record)),
        ("key", whole(&record.key)),
        ("topic", whole(&record.topic)),
        ("attempts", record.attempts.to_string()),
        ("created at", record.created_at.to_string()),
        ("payload", payload),
        ("error", whole(&record.error)),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        text.push_str(&format!("{:<12}{value}\n", format!("{name}:")));
    }
    for Audited { at, by, act } in acts.iter().rev() {
        let (by, action) = (
            output::cell(&by.0, usize::MAX),
            output::cell(&act.action, usize::MAX),
        );
        text.push_str(&format!("{:<12}{at} {action} by {by}\n", "before:"));
    }
    text.push('\n');
    text
}

fn aggregate(record: &StoredRecord) -> String {
    let parts = [&record.aggregate_type, &record.aggregate_id];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    or_dash(
        Some(&parts.join(" ")).filter(|text| !text.is_empty()),
        usize::MAX,
    )
}

fn or_dash(text: Option<&String>, chars_max: usize) -> String {
    output::cell(text.map_or("-", String::as_str), chars_max)
}

pub(super) fn json_with(record: &StoredRecord, acts: &[Audited]) -> Value {
    let act = |Audited { at, by, act }: &Audited| json!({ "at": at.to_string(), "by": by.0, "action": act.action, "detail": act.detail });
    let mut value = shown::record(record);
    value["acts"] = acts.iter().rev().map(act).collect();
    value
}
