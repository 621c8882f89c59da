//! What keeps Postgres from updating a record in place. A HOT update puts the new version onto the old one's page and
//! writes no index. It takes room on that page, and no index that reads a changed column: in its key, in an expression or
//! in its condition.

use postrider_core::layout::{ClaimMode, Identifier};
use postrider_core::{Finding, Level};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::postgres::outbox::writer;
use crate::postgres::pool::Pool;
use crate::postgres::{Inner, shape};
use crate::sql::statement::Writer;
use crate::sql::table::Table;

/// Pages that are filled further have no room for a second version of every record. Measured: all claims were HOT at 50,
/// three of four at 60, two of five at 70, none at 100.
const FILLFACTOR_MAX: i32 = 50;
const FILLFACTOR_GOOD: i32 = 45;
/// Indexes that one finding names.
const NAMED_MAX: usize = 5;
/// Fewer updates than these say little about their kind.
const UPDATES_MIN: i64 = 1_000;

pub(super) async fn findings(inner: &Inner, table: &Table) -> Result<Vec<Finding>, sqlx::Error> {
    let writer = writer(&inner.options, table);
    let updates = Updates {
        claim: names(&writer.changed_by_claim()),
        settle: names(&writer.changed_by_settle()),
        has_published_at: inner.options.layout.published_at().is_some(),
    };
    if updates.settle.is_empty() {
        return Ok(Vec::new());
    }
    let indexes = read(&inner.pool, &writer).await?;
    let mut findings: Vec<Finding> = indexes
        .iter()
        .filter_map(|index| updates.finding(index, &indexes))
        .collect();
    let claims_fit = !indexes.iter().any(|index| index.reads_any(&updates.claim));
    if !updates.claim.is_empty() && claims_fit {
        let fillfactor = fillfactor(&inner.pool, &table.full_name).await?;
        findings.extend(fillfactor.and_then(|percent| full_pages(percent, table, &indexes)));
    }
    Ok(findings)
}

/// How many of the updates so far were HOT, where claims could be and were not. Settles are not, for the claims' own index.
pub(crate) async fn share(inner: &Inner, table: &Table) -> Result<Option<Finding>, sqlx::Error> {
    if inner.options.layout.claim != ClaimMode::Lease {
        return Ok(None);
    }
    let updates = sqlx::query(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_catalog.pg_stat_user_tables WHERE relid = to_regclass($1)",
    )
    .bind(&table.full_name);
    let row = inner.pool.fetch_optional(updates).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(too_few(&table.full_name, row.try_get(0)?, row.try_get(1)?))
}

/// At best every second update is HOT: a claim, then a settle that is not.
fn too_few(table: &str, updates: i64, hot: i64) -> Option<Finding> {
    if updates < UPDATES_MIN || hot.saturating_mul(10) >= updates.saturating_mul(4) {
        return None;
    }
    let message = format!(
        "{hot} of {updates} updates were HOT ({} %) since the server began to count, where half can be: claims, not settles",
        hot.saturating_mul(100) / updates
    );
    let remedy = "see what `postrider check` says of the table's indexes and its fillfactor; transactions that are open for long and a \
                  late vacuum leave pages without room too";
    Some(Finding::new(Level::Note, table, message).remedy(remedy))
}

fn names(columns: &[&Identifier]) -> Vec<String> {
    columns
        .iter()
        .map(|column| column.as_str().to_owned())
        .collect()
}

#[derive(Debug)]
struct Index {
    name: String,
    partial: bool,
    constraint: Option<String>,
    /// The columns that it holds.
    holds: Vec<String>,
    /// Those that only its expressions or its condition read.
    reads: Vec<String>,
    /// Claims walk it.
    claims: bool,
}

/// A summarizing index has kept nobody from HOT updates since Postgres 16. Of expressions and conditions the catalogue
/// knows the columns as dependencies.
const INDEXES: &str = "
SELECT format('%I.%I', n.nspname, c.relname), i.indpred IS NOT NULL,
  (SELECT quote_ident(k.conname) FROM pg_catalog.pg_constraint AS k WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid LIMIT 1),
  ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND a.attnum = ANY(i.indkey::int2[]) ORDER BY a.attnum),
  ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND a.attnum <> ALL(i.indkey::int2[]) AND EXISTS (
      SELECT FROM pg_catalog.pg_depend AS d WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
        AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = i.indrelid AND d.refobjsubid = a.attnum)
    ORDER BY a.attnum),
  c.relname::text = ANY($2)
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_am AS m ON m.oid = c.relam
WHERE i.indrelid = to_regclass($1) AND i.indislive
  AND NOT (m.amname = 'brin' AND current_setting('server_version_num')::int >= 160000)
ORDER BY 1";

async fn read(pool: &Pool, writer: &Writer<'_>) -> Result<Vec<Index>, sqlx::Error> {
    let walked = shape::claim_indexes(pool, writer).await?;
    let indexes = sqlx::query(INDEXES)
        .bind(writer.layout.table.quoted())
        .bind(walked);
    let rows = pool.fetch_all(indexes).await?;
    let indexes = rows.iter().map(index).collect::<Result<Vec<_>, _>>()?;
    let attempts = writer.layout.columns.attempts.as_ref();
    // A condition on the attempts is one that a record which never failed does not meet.
    let of_failed = |index: &Index| {
        index.partial
            && attempts.is_some_and(|name| index.reads.iter().any(|read| read == name.as_str()))
    };
    Ok(indexes
        .into_iter()
        .filter(|index| !of_failed(index))
        .collect())
}

fn index(row: &PgRow) -> Result<Index, sqlx::Error> {
    Ok(Index {
        name: row.try_get(0)?,
        partial: row.try_get(1)?,
        constraint: row.try_get(2)?,
        holds: row.try_get(3)?,
        reads: row.try_get(4)?,
        claims: row.try_get(5)?,
    })
}

/// Nothing for a partitioned table, whose partitions have their own.
async fn fillfactor(pool: &Pool, table: &str) -> Result<Option<i32>, sqlx::Error> {
    let percent = sqlx::query(
        "SELECT coalesce(substring(array_to_string(c.reloptions, ',') FROM 'fillfactor=([0-9]+)')::int4, 100) \
         FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass($1) AND c.relkind = 'r'",
    )
    .bind(table);
    let row = pool.fetch_optional(percent).await?;
    row.map(|row| row.try_get(0)).transpose()
}

fn full_pages(percent: i32, table: &Table, indexes: &[Index]) -> Option<Finding> {
    if percent <= FILLFACTOR_MAX {
        return None;
    }
    let message = format!(
        "pages are filled to {percent} %, which leaves no room for the second version that a claim writes of every record: one that \
         finds none adds {} instead of none",
        entries(&indexes.iter().collect::<Vec<_>>())
    );
    let remedy = format!(
        "ALTER TABLE {} SET (fillfactor = {FILLFACTOR_GOOD}): pages that are written from now on keep room",
        table.full_name
    );
    Some(Finding::new(Level::Note, &table.full_name, message).remedy(remedy))
}

impl Index {
    fn reads_any(&self, columns: &[String]) -> bool {
        !self.of(columns).is_empty()
    }

    /// Those of the columns that it reads in any way.
    fn of<'a>(&self, columns: &'a [String]) -> Vec<&'a str> {
        let own = |column: &&String| self.holds.contains(column) || self.reads.contains(column);
        columns.iter().filter(own).map(String::as_str).collect()
    }

    /// Whether a record's new version gets an entry where these columns change and the update is not HOT. A condition that
    /// reads one of them is taken for one that the record no longer meets.
    fn gets_entry(&self, changed: &[String]) -> bool {
        let holds = changed.iter().any(|column| self.holds.contains(column));
        !self.partial || holds || !self.reads_any(changed)
    }
}

/// What the relay changes in each record that it publishes.
struct Updates {
    claim: Vec<String>,
    settle: Vec<String>,
    has_published_at: bool,
}

impl Updates {
    fn finding(&self, index: &Index, all: &[Index]) -> Option<Finding> {
        let said: Vec<String> = [self.by_claims(index, all), self.by_settles(index, all)]
            .into_iter()
            .flatten()
            .collect();
        if said.is_empty() {
            return None;
        }
        let finding = Finding::new(
            Level::Note,
            format!("index {}", index.name),
            said.join(". "),
        );
        Some(finding.remedy(self.remedy(index)))
    }

    fn by_claims(&self, index: &Index, all: &[Index]) -> Option<String> {
        let columns = index.of(&self.claim);
        if columns.is_empty() {
            return None;
        }
        let written: Vec<&Index> = getting_entries(all, &self.claim);
        Some(format!(
            "reads {}, which every claim changes: no claim is a HOT update, and each claimed record adds {} instead of none",
            columns.join(" and "),
            entries(&written)
        ))
    }

    /// The claims' own index reads what a settle changes, and is worth it. Beside it, only what gets an entry costs.
    fn by_settles(&self, index: &Index, all: &[Index]) -> Option<String> {
        let columns = index.of(&self.settle);
        let claims_prevent = all
            .iter()
            .any(|index| index.claims && index.reads_any(&self.settle));
        let free = claims_prevent && !index.gets_entry(&self.settle);
        if columns.is_empty() || index.claims || free {
            return None;
        }
        let columns = columns.join(" and ");
        let written = getting_entries(all, &self.settle);
        Some(if claims_prevent {
            format!(
                "reads {columns}, which settling changes: each settled record adds {}. The index that claims need keeps settles from \
                 being HOT; without this one it is one entry fewer",
                entries(&written)
            )
        } else {
            format!(
                "reads {columns}, which settling changes: no settle is a HOT update, and each settled record adds {} instead of none",
                entries(&written)
            )
        })
    }

    fn remedy(&self, index: &Index) -> String {
        let drop = format!("DROP INDEX CONCURRENTLY {}", index.name);
        if index.claims {
            return format!(
                "give the table a column for the time of publishing and name it in the layout (published_at), then {drop} and \
                 `postrider init --claim-index`: the index that claims need can do without the status then"
            );
        }
        if let Some(constraint) = &index.constraint {
            return format!("see whether constraint {constraint} must name the column");
        }
        let mut remedy = format!("if no query of yours needs it: {drop}");
        if index.partial && self.has_published_at && index.reads_any(&self.claim) {
            remedy += "; WHERE published_at IS NULL is a condition that claims do not change";
        }
        if !index.partial
            && index
                .holds
                .first()
                .is_some_and(|first| self.settle.contains(first))
        {
            remedy += ". Cleanup finds old records by it, where it is by the time of publishing: keep it where the table is large";
        }
        remedy
    }
}

fn getting_entries<'a>(all: &'a [Index], changed: &[String]) -> Vec<&'a Index> {
    all.iter()
        .filter(|index| index.gets_entry(changed))
        .collect()
}

/// How many, and where.
fn entries(indexes: &[&Index]) -> String {
    let named: Vec<&str> = indexes
        .iter()
        .take(NAMED_MAX)
        .map(|index| index.name.as_str())
        .collect();
    let more = indexes.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let up_to = if indexes.iter().any(|index| index.partial) {
        "up to "
    } else {
        ""
    };
    let count = indexes.len();
    let word = if count == 1 { "entry" } else { "entries" };
    format!("{up_to}{count} index {word} ({}{more})", named.join(", "))
}
