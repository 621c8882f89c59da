//! What differs between databases, as data. A dialect starts from another one and replaces the few
//! parts that differ.

use super::table::Kind;

/// Pieces of SQL that the statements are put together from.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    /// The time at which the transaction began.
    pub now: &'static str,
    /// The same, readable.
    pub now_text: &'static str,
    /// The time at this very moment.
    pub clock: &'static str,
    /// What stands in definitions of columns for what is written there, replaced in turn.
    pub definitions: &'static [(&'static str, &'static str)],
    /// Whether there are enums, and comments on columns.
    pub describes: bool,
    /// What a column that holds a time may be.
    pub times: &'static [Kind],
    /// What such a column is called.
    pub time_type: &'static str,
    /// What a column that is true or false may be.
    pub flags: &'static [Kind],
    /// Where a row stands, for as long as nobody changes it.
    pub row: &'static str,
    /// Locks the selected rows against everybody, to delete them.
    pub lock_to_delete: &'static str,
    /// Locks the selected rows against those who would change them, not against those who only refer to them.
    pub lock_to_update: &'static str,
    /// Behind a lock: passes over rows that somebody else has locked.
    pub skipping_locked: &'static str,
    /// Whether a statement that writes may stand in another's WITH. Otherwise the two are run one after the other.
    pub writes_nest: bool,
    /// Whether one insert takes list parameters, one per column. Otherwise there is one insert per event.
    pub inserts_lists: bool,
    /// Whether rows can be locked one by one. Otherwise whoever writes keeps every other writer away.
    pub locks_rows: bool,
    /// A text's hash, from 0 to 2³¹ - 1 and the same for every client of the database.
    pub hash: fn(text: &str) -> String,
    /// What stands for a key in indexes and look-ups: a hash where an index entry has a longest length, and never the
    /// same as for an id. Keys that share a hash would hold each other up, which whoever can write a key can have
    /// without any hash.
    pub key_token: fn(text: &str) -> String,
    /// The same for a record's id.
    pub id_token: fn(text: &str) -> String,
    /// The type of both.
    pub token_type: &'static str,
    /// What a list parameter of texts is selected from, as `v.x`.
    pub texts: fn(parameter: u32) -> String,
    pub cast: fn(value: &str, sql_type: &str) -> String,
    /// Whether a value is one of a list parameter's.
    pub among: fn(value: &str, parameter: u32, sql_type: &str) -> String,
    /// A select of a list parameter's values.
    pub values: fn(parameter: u32, sql_type: &str) -> String,
    /// Whether a value is one of those that a select gives, which is run once.
    pub among_selected: fn(value: &str, select: &str) -> String,
    /// List parameters side by side, one row per position, under a name.
    pub rows: fn(lists: &[List<'_>], name: &str) -> String,
    /// The same with one more column, `n`: the position, from 1 on.
    pub numbered_rows: fn(lists: &[List<'_>], name: &str) -> String,
    /// A time and a number of microseconds after it.
    pub after: fn(time: &str, micros: &str) -> String,
    /// Microseconds from the first time to the second; none where the first comes later.
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

impl Dialect {
    /// A column's definition, or a table's, as this database has it.
    pub(crate) fn defined(&self, definition: &str) -> String {
        let replace = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
        self.definitions.iter().fold(definition.into(), replace)
    }
}

/// A list parameter and the column that it becomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'a> {
    pub parameter: u32,
    pub sql_type: &'a str,
    pub name: &'a str,
}

pub(crate) fn list<'a>(parameter: u32, sql_type: &'a str, name: &'a str) -> List<'a> {
    List {
        parameter,
        sql_type,
        name,
    }
}

#[cfg(feature = "postgres")]
pub(crate) const POSTGRES: Dialect = Dialect {
    now: "now()",
    now_text: "now()::text",
    clock: "clock_timestamp()",
    definitions: &[],
    describes: true,
    times: &[Kind::Time, Kind::LocalTime],
    time_type: "timestamptz",
    flags: &[Kind::Bool],
    row: "ctid",
    lock_to_delete: "FOR UPDATE OF o",
    lock_to_update: "FOR NO KEY UPDATE OF o",
    skipping_locked: " SKIP LOCKED",
    writes_nest: true,
    inserts_lists: true,
    locks_rows: true,
    hash: |text| format!("(hashtext({text}) & 2147483647)"),
    key_token: |text| format!("hashtextextended({text} COLLATE \"C\", 0)"),
    id_token: |text| format!("hashtextextended({text} COLLATE \"C\", 1)"),
    token_type: "bigint",
    texts: |parameter| format!("unnest(${parameter}::text[]) AS v(x)"),
    cast: |value, sql_type| format!("{value}::{sql_type}"),
    among: |value, parameter, sql_type| format!("{value} = ANY(${parameter}::{sql_type}[])"),
    values: |parameter, sql_type| format!("SELECT unnest(${parameter}::{sql_type}[])"),
    among_selected: |value, select| format!("{value} = ANY(ARRAY(\n{select}))"),
    rows: |lists, name| {
        let (lists, columns) = unnested(lists);
        format!("{lists} AS {name}({columns})")
    },
    numbered_rows: |lists, name| {
        let (lists, columns) = unnested(lists);
        format!("{lists} WITH ORDINALITY AS {name}({columns}, n)")
    },
    after: |time, micros| format!("{time} + {micros} * interval '1 microsecond'"),
    // Times without an end cannot be subtracted. A time that lies ahead, or before our era, is taken for its bound.
    micros_between: |from, to| {
        let bound = format!("least(greatest({from}, '0001-01-01 00:00:00+00'), {to})");
        // A bound takes the place of NULL, too.
        format!(
            "CASE WHEN {from} IS NOT NULL THEN (extract(epoch FROM {to} - {bound}) * 1000000)::int8 END"
        )
    },
    epoch: "'epoch'::timestamptz",
    left: |text, chars| format!("left({text}, {chars})"),
    contains: |text, part| format!("strpos(lower({text}), lower({part})) > 0"),
    octets: |value| format!("octet_length({value})"),
};

#[cfg(feature = "postgres")]
fn unnested(lists: &[List<'_>]) -> (String, String) {
    let parameters: Vec<String> = lists
        .iter()
        .map(|list| format!("${}::{}[]", list.parameter, list.sql_type))
        .collect();
    let names: Vec<&str> = lists.iter().map(|list| list.name).collect();
    (
        format!("unnest({})", parameters.join(", ")),
        names.join(", "),
    )
}

/// The parameter that holds the time, in microseconds since 1970: SQLite's own clock knows milliseconds only.
#[cfg(feature = "sqlite")]
pub(crate) const CLOCK_PARAMETER: usize = 30;

/// Times are integers, microseconds since 1970. A list parameter is a JSON array; lists side by side are one JSON array of
/// rows, in the parameter of the first.
#[cfg(feature = "sqlite")]
pub(crate) const SQLITE: Dialect = Dialect {
    now: "$30",
    now_text: "strftime('%Y-%m-%d %H:%M:%fZ', $30 / 1000000.0, 'unixepoch')",
    clock: "$30",
    definitions: &[
        ("jsonb", "json"),
        // TEXT in a type's name keeps SQLite from making numbers of what looks like one.
        ("json", "JSON TEXT"),
        (" DEFAULT gen_random_uuid()", ""),
        ("uuid PRIMARY KEY", "UUID TEXT NOT NULL PRIMARY KEY"),
        ("uuid", "UUID TEXT"),
        (
            "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            "INTEGER PRIMARY KEY AUTOINCREMENT",
        ),
        ("bigserial PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"),
        ("bytea", "BLOB"),
        ("timestamptz", "TIMESTAMP INTEGER"),
        ("clock_timestamp()", "now()"),
        ("now()", "(CAST(unixepoch('subsec') * 1000000 AS INTEGER))"),
    ],
    describes: false,
    times: &[Kind::Time, Kind::Int],
    time_type: "INTEGER (microseconds since 1970)",
    flags: &[Kind::Bool, Kind::Int],
    row: "rowid",
    lock_to_delete: "",
    lock_to_update: "",
    skipping_locked: "",
    writes_nest: false,
    inserts_lists: false,
    locks_rows: false,
    hash: |text| {
        // The ends of keys differ more than their beginnings do. Keys that it does not tell apart share a lane.
        let chars = [
            (1, 1),
            (2, 31),
            (3, 17),
            (4, 13),
            (5, 7),
            (6, 29),
            (7, 19),
            (8, 23),
        ];
        let parts = chars.map(|(at, weight)| {
            format!("{weight} * coalesce(unicode(substr({text}, -{at}, 1)), 0)")
        });
        format!("({})", parts.join(" + "))
    },
    key_token: |text| format!("('k' || {text})"),
    id_token: |text| format!("('i' || {text})"),
    token_type: "text",
    texts: |parameter| format!("(SELECT value AS x FROM json_each(${parameter})) AS v"),
    cast: |value, sql_type| {
        let sql_type = sql_type.to_ascii_lowercase();
        match sql_type.as_str() {
            list if list.ends_with("[]") => value.to_owned(),
            text if text.contains("text") || text.contains("char") => {
                format!("CAST({value} AS TEXT)")
            }
            int if int.contains("int") => format!("CAST({value} AS INTEGER)"),
            _ => value.to_owned(),
        }
    },
    among: |value, parameter, _| format!("{value} IN (SELECT value FROM json_each(${parameter}))"),
    among_selected: |value, select| format!("{value} IN (\n{select})"),
    values: |parameter, _| format!("SELECT value FROM json_each(${parameter})"),
    rows: |lists, name| json_rows(lists, "", name),
    numbered_rows: |lists, name| json_rows(lists, ", r.key + 1 AS n", name),
    after: |time, micros| format!("({time} + {micros})"),
    micros_between: |from, to| format!("({to} - {from})"),
    epoch: "0",
    left: |text, chars| format!("substr({text}, 1, {chars})"),
    contains: |text, part| format!("instr(lower({text}), lower({part})) > 0"),
    octets: |value| format!("octet_length({value})"),
};

#[cfg(feature = "sqlite")]
fn json_rows(lists: &[List<'_>], more: &str, name: &str) -> String {
    let columns: Vec<String> = (0..)
        .zip(lists)
        .map(|(position, list)| format!("r.value ->> {position} AS {}", list.name))
        .collect();
    let parameter = lists.first().map_or(1, |list| list.parameter);
    format!(
        "(SELECT {}{more} FROM json_each(${parameter}) AS r) AS {name}",
        columns.join(", ")
    )
}
