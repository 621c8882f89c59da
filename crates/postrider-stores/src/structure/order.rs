//! Whether the order columns can put records into the order of their insertion. Two records of a key that share a value are
//! put in the order of the next column, and where that says nothing of insertion, half of them are turned around.

use postrider_core::layout::{Identifier, State};
use postrider_core::{Finding, Layout, Level, Ordering};

use crate::sql::dialect::Dialect;
use crate::sql::table::{Column, Kind, Rank, Table};

/// Defaults that are in no order.
const RANDOM: &[&str] = &[
    "gen_random_uuid",
    "uuid_generate_v4",
    "uuidv4",
    "random(",
    "randomblob(",
];

pub(super) fn findings(layout: &Layout, dialect: &Dialect, table: &Table) -> Vec<Finding> {
    if matches!(layout.state, State::Append { .. }) {
        return Vec::new();
    }
    let judge = Judge {
        layout,
        dialect,
        table,
    };
    judge.findings()
}

struct Judge<'a> {
    layout: &'a Layout,
    dialect: &'a Dialect,
    table: &'a Table,
}

impl Judge<'_> {
    /// Goes on from column to column for as long as records share values.
    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut shared: Option<(&Column, &str)> = None;
        let mut columns = self
            .layout
            .order
            .iter()
            .filter_map(|name| self.table.column(name));
        loop {
            let column = columns.next();
            match (column.map(|column| &column.details.rank), column) {
                (Some(Rank::Coarse(why)), Some(column)) => {
                    shared = shared.or(Some((column, why)));
                }
                (Some(Rank::Zoneless(coarse)), Some(column)) => {
                    findings.push(self.zoneless(column));
                    match coarse {
                        Some(why) => shared = shared.or(Some((column, why))),
                        None => return findings,
                    }
                }
                (Some(Rank::Fine), _) => return findings,
                (next, _) => {
                    findings.extend(match (shared, next, column) {
                        (Some((coarse, why)), _, next) => Some(self.coarse(coarse, why, next)),
                        (None, Some(Rank::Never(why)), Some(column)) => {
                            Some(self.never(column, why))
                        }
                        (None, _, Some(column)) => Some(self.free(column)),
                        (None, _, None) => None,
                    });
                    return findings;
                }
            }
        }
    }

    fn coarse(&self, column: &Column, why: &str, next: Option<&Column>) -> Finding {
        let name = &column.name;
        let then = match next {
            Some(next) => format!(
                "are put in the order of column {}, which is not that of their insertion",
                next.name
            ),
            None => "are in no order".into(),
        };
        let message = format!(
            "column {name} (as order) {why}: records of a key that share such a value {then}"
        );
        self.finding(Level::Error, column, message)
    }

    fn zoneless(&self, column: &Column) -> Finding {
        let message = format!(
            "column {} (as order) is a time without a time zone, which each session writes in its own: where their zones \
             differ, and when clocks are set back, a later record of a key sorts first",
            column.name
        );
        self.finding(Level::Warning, column, message)
    }

    fn never(&self, column: &Column, why: &str) -> Finding {
        let message = format!(
            "column {} (as order) {why}: its order is not that in which records were inserted",
            column.name
        );
        self.finding(Level::Error, column, message)
    }

    fn free(&self, column: &Column) -> Finding {
        let default = column.default.as_deref().unwrap_or_default().to_lowercase();
        let random = RANDOM.iter().any(|word| default.contains(word));
        let (level, says) = match random {
            true => (
                Level::Error,
                "has random values: records of a key are in no order",
            ),
            false => (
                Level::Warning,
                "has values that whoever writes the record makes: records of a key are in the order of their insertion only \
                 where each is greater than all before it, and UUIDs of version 7 tell no two of a millisecond apart",
            ),
        };
        let message = format!("column {} (as order) {says}", column.name);
        self.finding(level, column, message)
    }

    /// Without order per key nothing is promised that could break.
    fn finding(&self, level: Level, column: &Column, message: String) -> Finding {
        let by_key = self.layout.ordering == Ordering::Key;
        let level = if by_key { level } else { Level::Note };
        let mut remedy = match self.finer(column) {
            Some(alter) => format!("{alter}; or name"),
            None => "name".into(),
        };
        remedy += match self.dialect.locks_rows {
            true => " a column in `order` that is drawn from a sequence at the insert",
            false => " an INTEGER PRIMARY KEY in `order`, the sequence of the rows",
        };
        if by_key {
            remedy += ", or set ordering = \"none\"";
        }
        Finding::new(level, column.name.as_str(), message).remedy(remedy)
    }

    /// The statement that makes a time of it that can order.
    fn finer(&self, column: &Column) -> Option<String> {
        let name: Identifier = column.name.clone().try_into().ok()?;
        let name = name.quoted();
        let using = match column.kind {
            Kind::Time => String::new(),
            Kind::LocalTime => format!(" USING {name} AT TIME ZONE 'UTC'"),
            _ => return None,
        };
        let locks_rows = self.dialect.locks_rows;
        locks_rows.then(|| {
            format!(
                "ALTER TABLE {} ALTER COLUMN {name} TYPE timestamptz{using}",
                self.table.full_name
            )
        })
    }
}
