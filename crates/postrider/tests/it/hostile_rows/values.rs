//! What a column's type allows, and nobody expects. A value is made from its name, so that a failing run can say
//! which one it was, and one that looks for its cause can ask for that one only.

use fastrand::Rng;

/// What is written into one column of one row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    /// For Postgres every value is text, which the database reads as the column's type.
    Text(String),
    Bytes(Vec<u8>),
    /// SQLite: text that is not UTF-8.
    RawText(Vec<u8>),
    Int(i64),
    Real(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The types of columns, as far as hostile values differ by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Text(Option<usize>),
    Status,
    Json,
    Jsonb,
    Uuid,
    Int,
    BigInt,
    /// Not only integers.
    Number,
    Time,
    Bool,
    Bytes,
    /// Nothing but its own words: an enum.
    Closed,
    /// SQLite: an integer that counts on from the largest there is, and so never takes the last one.
    RowId,
}

/// A column of the table that a layout's `init` made.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) sql_type: String,
    pub(super) kind: Kind,
    pub(super) nullable: bool,
    /// SQLite stores a value of any type in any column.
    pub(super) lax: bool,
}

/// Ten million characters or bytes.
const LARGE: usize = 10_000_000;
pub(super) const LARGE_NAME: &str = "ten megabytes";

const TEXTS: &[&str] = &[
    "empty",
    "a space",
    "incompressible",
    "controls",
    "sql",
    "unicode",
    "template",
    "lines",
    "no topic",
    "dots",
    "null word",
    "nan word",
    "250 characters",
    LARGE_NAME,
];
const DOCUMENTS: &[&str] = &[
    "json null",
    "json number",
    "json huge number",
    "json text",
    "json array",
    "json empty key",
    "json deep array",
    "json deep object",
    "json odd headers",
    "json many members",
    "json long members",
    "json spaces",
    "json nan words",
    LARGE_NAME,
];
/// What `json` keeps as it is and `jsonb` refuses.
const KEPT_DOCUMENTS: &[&str] = &[
    "json lone surrogate",
    "json lone surrogate in a name",
    "json nul",
    "json twice",
];
const TIMES: &[&str] = &["infinity", "-infinity", "last year", "first year", "epoch"];
const NUMBERS: &[&str] = &[
    "nan",
    "number infinity",
    "number -infinity",
    "huge number",
    "tiny number",
    "minus zero",
];
/// What SQLite takes in any column. It has NULL for NaN.
const LAX: &[&str] = &[
    "nul",
    "no utf-8",
    "blob",
    "empty blob",
    "real infinity",
    "real -infinity",
    "real nan",
    "real",
    "smallest int",
    "largest int",
    "empty",
    "half json",
    "json with nan",
];

/// The names of the values that the column takes.
pub(super) fn names(column: &Column) -> Vec<&'static str> {
    let mut names: Vec<&str> = match &column.kind {
        Kind::Text(_) => TEXTS.to_vec(),
        Kind::Status => vec!["publishing", "failed", "dead", "published", "no status"],
        Kind::Json => [DOCUMENTS, KEPT_DOCUMENTS].concat(),
        Kind::Jsonb => DOCUMENTS.to_vec(),
        Kind::Uuid => vec!["nil", "max"],
        Kind::Int => vec!["smallest int4", "largest int4", "zero", "minus one"],
        Kind::BigInt => vec!["smallest int", "largest int", "zero", "minus one"],
        Kind::Number => NUMBERS.to_vec(),
        Kind::Time => TIMES.to_vec(),
        Kind::Bool => vec!["true"],
        Kind::Bytes => vec!["empty blob", "blob", "zeros", LARGE_NAME],
        Kind::Closed => Vec::new(),
        Kind::RowId => return vec!["smallest int", "zero", "minus one"],
    };
    if column.lax {
        names.extend(
            LAX.iter()
                .filter(|name| !names.contains(name))
                .copied()
                .collect::<Vec<_>>(),
        );
        if column.kind == Kind::Uuid {
            names.extend(TEXTS);
        }
    }
    if column.nullable {
        names.push("null");
    }
    names
}

/// The value of a name in a column.
pub(super) fn make(name: &str, column: &Column, random: &mut Rng) -> Value {
    let value = match column.kind {
        Kind::Json | Kind::Jsonb => document(name, random),
        Kind::Time if column.lax => lax_time(name),
        Kind::Time => time(name),
        Kind::Text(Some(max)) if !column.lax => text(name, random).map(|long| cut(&long, max)),
        _ => text(name, random),
    };
    value.unwrap_or_else(|| plain(name, column, random))
}

fn text(name: &str, random: &mut Rng) -> Option<Value> {
    Some(Value::Text(match name {
        "empty" => String::new(),
        "a space" => " ".into(),
        // From the length at which an index refuses it to about what one page of a table takes.
        "incompressible" => incompressible(random.usize(2_705..=8_000), random),
        "controls" => (1..0x20)
            .chain([0x7f, 0x85])
            .filter_map(char::from_u32)
            .collect(),
        "sql" => "'; DROP TABLE outbox; DROP TABLE outbox_events; --".into(),
        "unicode" => "\u{202e}\u{feff}e\u{301}\u{1f511}\u{10ffff}\u{fffd}\u{e000}".into(),
        "template" => "{event_type}{{topic}}$1%s\\\"'`".into(),
        "lines" => "a\r\nevent_id: b\n\n".into(),
        "no topic" => "a/b c*#?".into(),
        "dots" => "..".into(),
        "null word" => "NULL".into(),
        "nan word" => "NaN".into(),
        "250 characters" => "\u{1f511}".repeat(250),
        LARGE_NAME => "x".repeat(LARGE),
        "nul" => "a\0b".into(),
        _ => return None,
    }))
}

fn cut(long: &Value, max: usize) -> Value {
    match long {
        Value::Text(text) => Value::Text(text.chars().take(max).collect()),
        other => other.clone(),
    }
}

pub(super) fn incompressible(length: usize, random: &mut Rng) -> String {
    (0..length).map(|_| random.alphanumeric()).collect()
}

fn document(name: &str, random: &mut Rng) -> Option<Value> {
    const DEEP: usize = 3_000;
    Some(Value::Text(match name {
        "json null" => "null".into(),
        "json number" => "-7".into(),
        "json huge number" => format!("[1e400, -0.0, {}]", "9".repeat(400)),
        "json text" => "\"text\"".into(),
        "json array" => "[1, {}]".into(),
        "json empty key" => "{\"\": \"\"}".into(),
        "json deep array" => format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP)),
        "json deep object" => format!("{}1{}", "{\"a\":".repeat(DEEP), "}".repeat(DEEP)),
        "json odd headers" => concat!(
            "{\"id\": null, \"event_id\": {\"a\": []}, \"traceparent\": \"\\n\", \"traceId\": 7, ",
            "\"content-type\": false, \"a\\r\\nb\": \"c\\r\\nd\"}"
        )
        .into(),
        "json many members" => {
            let members: Vec<String> = (0..10_000).map(|n| format!("\"m{n}\":{n}")).collect();
            format!("{{{}}}", members.join(","))
        }
        "json long members" => {
            let long = incompressible(8_000, random);
            format!("{{\"id\": \"{long}\", \"{long}\": \"{long}\"}}")
        }
        "json spaces" => " \n\t { \"a\" :\r\n [ ] } ".into(),
        "json nan words" => "{\"id\": \"NaN\", \"a\": \"Infinity\", \"-Infinity\": []}".into(),
        "json lone surrogate" => "{\"a\": \"\\ud800\"}".into(),
        "json lone surrogate in a name" => "{\"\\udfff\": 1}".into(),
        "json nul" => "{\"id\": \"a\\u0000b\"}".into(),
        "json twice" => "{\"id\": \"a\", \"id\": \"b\", \"a\": 1, \"a\": 2}".into(),
        LARGE_NAME => format!("{{\"a\": \"{}\"}}", "x".repeat(LARGE)),
        "empty" => String::new(),
        "half json" => "{\"a\": ".into(),
        "nul" => "{\"a\": \"\0\"}".into(),
        _ => return None,
    }))
}

fn time(name: &str) -> Option<Value> {
    Some(match name {
        "infinity" | "-infinity" => name.into(),
        "last year" => "294276-12-31 23:59:59.999999+00".into(),
        "first year" => "4713-01-01 00:00:00+00 BC".into(),
        "epoch" => "1970-01-01 00:00:00+00".into(),
        _ => return None,
    })
}

/// SQLite's times are microseconds since 1970.
fn lax_time(name: &str) -> Option<Value> {
    Some(match name {
        "infinity" => Value::Real(f64::INFINITY),
        "-infinity" => Value::Real(f64::NEG_INFINITY),
        "last year" => Value::Int(9_223_371_331_199_999_999),
        "first year" => Value::Int(-210_866_803_200_000_000),
        "epoch" => Value::Int(0),
        "half json" => "yesterday".into(),
        _ => return None,
    })
}

fn plain(name: &str, column: &Column, random: &mut Rng) -> Value {
    match name {
        "null" => Value::Null,
        "nil" => "00000000-0000-0000-0000-000000000000".into(),
        "max" => "ffffffff-ffff-ffff-ffff-ffffffffffff".into(),
        "smallest int4" => Value::Int(i32::MIN.into()),
        "largest int4" => Value::Int(i32::MAX.into()),
        "smallest int" => Value::Int(i64::MIN),
        "largest int" => Value::Int(i64::MAX),
        "zero" => Value::Int(0),
        "minus one" => Value::Int(-1),
        "true" if column.lax => Value::Int(1),
        "true" => "true".into(),
        "publishing" | "failed" | "published" => name.into(),
        "dead" => "dead_lettered".into(),
        "no status" => "PENDING ".into(),
        "blob" => Value::Bytes((0..=u8::MAX).rev().collect()),
        "empty blob" => Value::Bytes(Vec::new()),
        "zeros" => Value::Bytes(vec![0; 3_000]),
        LARGE_NAME => Value::Bytes(vec![0xff; LARGE]),
        "no utf-8" => Value::RawText(vec![b'a', 0xff, 0xfe, random.u8(0x80..)]),
        "real infinity" => Value::Real(f64::INFINITY),
        "real -infinity" => Value::Real(f64::NEG_INFINITY),
        "real nan" => Value::Real(f64::NAN),
        "nan" => "NaN".into(),
        "number infinity" => "Infinity".into(),
        "number -infinity" => "-Infinity".into(),
        "huge number" => "1e300".into(),
        "tiny number" => "-1e-300".into(),
        "minus zero" => "-0".into(),
        "json with nan" => "{\"a\": NaN, \"id\": -Infinity}".into(),
        "real" => Value::Real(-0.5e-300),
        "half json" => "{\"a\": ".into(),
        _ => text(name, random).unwrap_or_else(|| panic!("{name:?} is no value of {column:?}")),
    }
}
