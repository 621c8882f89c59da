//! Counting, cleaning up, and the indexes that claims want.

use postrider_core::layout::{Identifier, State, TableName};

use super::{Writer, is_one_of, literal, of};

impl Writer<'_> {
    /// $1 limit, $2 microseconds to keep. Nothing is left to purge where publishing deletes.
    pub(super) fn purge(&self) -> Option<String> {
        let published = match &self.layout.state {
            State::Delete | State::Append { .. } => return None,
            State::Timestamp { published_at } => format!("{} IS NOT NULL", of("o", published_at)),
            State::Flag {
                published,
                dead_is_flagged,
                ..
            } => {
                let error = self
                    .layout
                    .columns
                    .last_error
                    .as_ref()
                    .filter(|_| *dead_is_flagged);
                let alive = error.map(|error| format!(" AND {} IS NULL", of("o", error)));
                format!("{} = true{}", of("o", published), alive.unwrap_or_default())
            }
            State::Status {
                column, published, ..
            } => {
                format!("{} = {}", of("o", column), literal(published))
            }
        };
        let age = of(
            "o",
            self.layout
                .published_at()
                .unwrap_or(&self.layout.columns.created_at),
        );
        let (table, id) = (self.name(), self.id("o"));
        let kept = format!("-{}", (self.dialect.cast)("$2", "int8"));
        let oldest = (self.dialect.after)(self.dialect.now, &kept);
        Some(format!(
            "DELETE FROM {table} AS o WHERE {}",
            (self.dialect.among_selected)(
                &id,
                &format!(
                    "SELECT {id} FROM {table} AS o WHERE {published} AND {age} < {oldest}\nLIMIT $1 {}{}",
                    self.dialect.lock_to_delete, self.dialect.skipping_locked,
                )
            ),
        ))
    }

    /// pending, microseconds since the oldest of them was made, dead. With troubles $1 is the outbox.
    pub(super) fn backlog(&self) -> String {
        let created_at =
            (self.dialect.cast)(&of("o", &self.layout.columns.created_at), "timestamptz");
        let age = (self.dialect.micros_between)(&format!("min({created_at})"), self.dialect.clock);
        let dead_looks_pending = match self.layout.state {
            State::Flag {
                dead_is_flagged, ..
            } => !dead_is_flagged,
            State::Delete | State::Append { .. } => true,
            State::Timestamp { .. } | State::Status { .. } => false,
        };
        let not_dead = if dead_looks_pending {
            format!(
                " AND {} NOT IN (SELECT {} {} AND {})",
                self.id("o"),
                self.id("b"),
                self.join_troubles("b", 1),
                self.dead("b")
            )
        } else {
            String::new()
        };
        format!(
            "SELECT count(*) AS pending, {age} AS oldest,\n\
             (SELECT count(*) {} AND {}) AS dead\n\
             FROM {} AS o WHERE {}{not_dead}",
            self.join_troubles("b", 1),
            self.dead("b"),
            self.name(),
            self.pending("o"),
        )
    }

    /// A select that shows whether the claim finds an index: the same records, in the same order.
    pub(crate) fn claim_probe(&self) -> String {
        self.first_in_line(&self.id("o"), 100)
    }

    /// Of the records that a claim looks at, those that it comes to first.
    pub(crate) fn first_in_line(&self, list: &str, limit: u32) -> String {
        format!(
            "SELECT {list} FROM {} AS o WHERE {} ORDER BY {} LIMIT {limit}",
            self.name(),
            self.looked_at(),
            self.order("o")
        )
    }

    /// The records that a claim looks at. With order per key those are all that are not published, where it can lock
    /// rows: see `lease.rs`.
    pub(super) fn looked_at(&self) -> String {
        match &self.layout.state {
            State::Status { .. } if self.dialect.locks_rows && self.ordered_key().is_some() => {
                self.unsettled_by_row("o")
            }
            _ => self.pending("o"),
        }
    }

    /// How many records wait that have no id, up to a limit.
    pub(crate) fn null_ids(&self, limit: u32) -> String {
        format!(
            "SELECT count(*) FROM (SELECT 1 FROM {} AS o WHERE {} IS NULL AND {} LIMIT {limit}) AS n",
            self.name(),
            self.id("o"),
            self.unpublished("o")
        )
    }
}

impl Writer<'_> {
    /// What an index for the claim must be restricted to.
    pub(crate) fn claim_index_condition(&self) -> Option<String> {
        Some(self.unsettled_by_row("")).filter(|condition| condition != "true")
    }
}

/// The index that the claim walks.
pub(crate) fn claim_index(writer: &Writer<'_>) -> Index {
    Index {
        name: index_name(writer, "claim"),
        columns: writer.order(""),
        condition: writer.claim_index_condition(),
    }
}

/// The index of records that failed, are dead or are being published, where they stand in the outbox.
pub(crate) fn troubled_index(writer: &Writer<'_>) -> Option<Index> {
    // Never by a key: an index entry has a longest length, and a key that is longer could not be settled.
    let (columns, condition) = match &writer.layout.state {
        State::Timestamp { .. } => {
            let failed = format!("{} AND {} > 0", writer.unpublished(""), writer.attempts(""));
            (writer.order(""), failed)
        }
        // Claims find what blocks a key on their way: see `lease.rs`.
        State::Status { .. } if writer.dialect.locks_rows => return None,
        State::Status {
            column,
            failed,
            publishing,
            dead,
            retry_at,
            ..
        } => {
            let condition = match writer.ordered_key() {
                Some(_) => is_one_of(&column.quoted(), &[failed, publishing, dead]),
                None => is_one_of(&column.quoted(), &[failed, dead]),
            };
            (retry_at.quoted(), condition)
        }
        State::Flag { .. } | State::Delete | State::Append { .. } => return None,
    };
    Some(Index {
        name: index_name(writer, "troubled"),
        columns,
        condition: Some(condition),
    })
}

/// The index by which dead records of a status column are found, where rows can be locked. It reads neither the status nor
/// the time of the claim: then no claim would be a HOT update, see `docs/layouts.md`. So it holds what has failed and is not
/// published, and is written when an attempt fails.
pub(crate) fn dead_index(writer: &Writer<'_>) -> Option<Index> {
    let State::Status {
        published_at: Some(published_at),
        ..
    } = &writer.layout.state
    else {
        return None;
    };
    writer.layout.columns.attempts.as_ref()?;
    (writer.dialect.locks_rows).then(|| Index {
        name: index_name(writer, "dead"),
        columns: writer.order(""),
        condition: Some(format!(
            "{} IS NULL AND {} > 0",
            published_at.quoted(),
            writer.attempts("")
        )),
    })
}

/// The name of the constraint that lets dead records be looked for among those that have failed.
pub(crate) fn dead_check(outbox: &TableName) -> Identifier {
    suffixed(&outbox.name, "_postrider_dead_was_tried")
}

/// An index on the outbox.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub name: Identifier,
    pub columns: String,
    pub condition: Option<String>,
}

impl Index {
    /// `how` is `IF NOT EXISTS` or `CONCURRENTLY`.
    pub(crate) fn create(&self, how: &str, table: &str) -> String {
        let condition = self
            .condition
            .as_ref()
            .map(|text| format!(" WHERE {text}"))
            .unwrap_or_default();
        format!(
            "CREATE INDEX {how} {} ON {table} ({}){condition}",
            self.name.quoted(),
            self.columns
        )
    }
}

/// A name made of the table's, cut to the length that names may have.
fn index_name(writer: &Writer<'_>, purpose: &str) -> Identifier {
    suffixed(&writer.layout.table.name, &format!("_postrider_{purpose}"))
}

pub(crate) fn suffixed(name: &Identifier, suffix: &str) -> Identifier {
    let name = name.as_str();
    let end = name.floor_char_boundary(63 - suffix.len());
    format!("{}{suffix}", &name[..end])
        .try_into()
        .expect("is a name")
}
