//! What differs between databases, as data. A dialect starts from another one and replaces the few
//! parts that differ.

/// Pieces of SQL that the statements are put together from.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    /// The time at which the transaction began.
    pub now: &'static str,
    /// The time at this very moment.
    pub clock: &'static str,
    /// Where a row stands, for as long as nobody changes it.
    pub row: &'static str,
    /// Locks the selected rows and waits for those that somebody else has locked.
    pub lock_waiting: &'static str,
    /// Locks the selected rows and passes over those that somebody else has locked.
    pub lock_skipping: &'static str,
    /// A text's hash, from 0 to 2³¹ - 1 and the same for every client of the database.
    pub hash: fn(text: &str) -> String,
    pub cast: fn(value: &str, sql_type: &str) -> String,
    /// Whether a value is one of a list parameter's.
    pub among: fn(value: &str, parameter: u32, sql_type: &str) -> String,
    /// A select of a list parameter's values.
    pub values: fn(parameter: u32, sql_type: &str) -> String,
    /// List parameters side by side, one row per position.
    pub rows: fn(parameters: &[(u32, &str)]) -> String,
    /// A time and a number of microseconds after it.
    pub after: fn(time: &str, micros: &str) -> String,
    /// Microseconds from the first time to the second.
    pub micros_between: fn(from: &str, to: &str) -> String,
    /// The beginning of 1970, UTC.
    pub epoch: &'static str,
    /// A text's first characters.
    pub left: fn(text: &str, chars: u32) -> String,
    /// Whether a text contains another, in any case.
    pub contains: fn(text: &str, part: &str) -> String,
    /// How many bytes a text or a binary has.
    pub octets: fn(value: &str) -> String,
}

pub(crate) const POSTGRES: Dialect = Dialect {
    now: "now()",
    clock: "clock_timestamp()",
    row: "ctid",
    lock_waiting: "FOR UPDATE OF o",
    lock_skipping: "FOR UPDATE OF o SKIP LOCKED",
    hash: |text| format!("(hashtext({text}) & 2147483647)"),
    cast: |value, sql_type| format!("{value}::{sql_type}"),
    among: |value, parameter, sql_type| format!("{value} = ANY(${parameter}::{sql_type}[])"),
    values: |parameter, sql_type| format!("SELECT unnest(${parameter}::{sql_type}[])"),
    rows: |parameters| {
        let lists: Vec<String> = parameters
            .iter()
            .map(|(number, sql_type)| format!("${number}::{sql_type}[]"))
            .collect();
        format!("unnest({})", lists.join(", "))
    },
    after: |time, micros| format!("{time} + {micros} * interval '1 microsecond'"),
    micros_between: |from, to| format!("(extract(epoch FROM {to} - {from}) * 1000000)::int8"),
    epoch: "'epoch'::timestamptz",
    left: |text, chars| format!("left({text}, {chars})"),
    contains: |text, part| format!("strpos(lower({text}), lower({part})) > 0"),
    octets: |value| format!("octet_length({value})"),
};
