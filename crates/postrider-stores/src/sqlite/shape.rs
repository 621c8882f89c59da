//! Reads a table's shape from the file's schema.

use postrider_core::layout::TableName;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use crate::sql::statement::{audit_table, troubles_table};
use crate::sql::table::{self, Beside, Column, Details, Kind, Rank, Table};

/// The name as the table has it, whatever the case that a config names it in.
const TABLE: &str = "SELECT name, wr FROM pragma_table_list WHERE schema = $1 AND lower(name) = lower($2) AND type <> 'view'";

/// name, declared type, NOT NULL, default, whether it is the primary key's only column
const COLUMNS: &str = "SELECT c.name, c.type, c.\"notnull\", c.dflt_value, c.pk, \
     (SELECT count(*) FROM pragma_table_xinfo($2, $1) AS k WHERE k.pk > 0), c.hidden \
     FROM pragma_table_xinfo($2, $1) AS c WHERE c.hidden <> 1 ORDER BY c.cid";

const UNIQUE: &str = "SELECT i.name FROM pragma_index_list($2, $1) AS i WHERE i.\"unique\" AND NOT i.partial \
     AND (SELECT json_group_array(name) FROM (SELECT x.name FROM pragma_index_info(i.name, $1) AS x ORDER BY x.name)) = $3";

/// The columns of every index that no two rows may have the same entry in, and whether it is the primary key's. An
/// expression has no name.
const UNIQUES: &str = "SELECT i.origin = 'pk', (SELECT json_group_array(x.name) FROM pragma_index_info(i.name, $1) AS x) \
     FROM pragma_index_list($2, $1) AS i WHERE i.\"unique\" AND NOT i.partial";

const DEFINITION: &str = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = $1";

/// The table of this name, or nothing where there is none.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<Option<Table>, sqlx::Error> {
    let Some((name, rowless)) = found(connection, table).await? else {
        return Ok(None);
    };
    let (mut unique, key_indexed) = uniques(connection, table, &name).await?;
    let definition: Option<String> = sqlx::query_scalar(DEFINITION)
        .bind(&name)
        .fetch_optional(&mut *connection)
        .await?;
    let numbers = Numbers {
        given: !rowless && !key_indexed,
        never_again: has_word(&definition.unwrap_or_default(), "AUTOINCREMENT"),
    };
    let columns = sqlx::query(COLUMNS)
        .bind(schema(table))
        .bind(&name)
        .fetch_all(&mut *connection)
        .await?;
    let troubles = find(connection, &troubles_table(table)).await?;
    let audit = find(connection, &audit_table(table)).await?;
    let columns: Vec<(Column, bool)> = columns
        .iter()
        .map(|row| column(row, &numbers))
        .collect::<Result<_, _>>()?;
    for (column, _) in columns.iter().filter(|(_, is_rowid)| *is_rowid) {
        unique.push(vec![column.name.clone()]);
    }
    Ok(Some(Table {
        full_name: name,
        columns: columns.into_iter().map(|(column, _)| column).collect(),
        unique,
        partitions: None,
        rows: table::Rows::Here,
        may_delete: true,
        role: "this user".into(),
        is_plain: true,
        claim_index: false,
        troubles: Beside::new(troubles.is_some(), true),
        audit: Beside::new(audit.is_some(), true),
    }))
}

/// What a table's own number of each row is.
struct Numbers {
    /// Whether an integer primary key is that number. It is not without such numbers, nor where it is declared DESC.
    given: bool,
    /// Whether no number is given twice.
    never_again: bool,
}

/// The sets of columns that no two rows share, and whether the primary key has an index.
async fn uniques(
    connection: &mut SqliteConnection,
    table: &TableName,
    name: &str,
) -> Result<(Vec<Vec<String>>, bool), sqlx::Error> {
    let found = sqlx::query(UNIQUES)
        .bind(schema(table))
        .bind(name)
        .fetch_all(connection)
        .await?;
    let (mut unique, mut key_indexed) = (Vec::new(), false);
    for row in &found {
        key_indexed |= row.try_get::<i64, _>(0)? == 1;
        let names: String = row.try_get(1)?;
        // An index by an expression has no name for it, and is left out.
        unique.extend(serde_json::from_str::<Vec<String>>(&names).ok());
    }
    Ok((unique, key_indexed))
}

/// Whether a statement has a word outside of names, strings and comments.
fn has_word(sql: &str, word: &str) -> bool {
    let mut plain = String::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' | '"' | '`' => rest[1..].find(first).map(|at| at + 2),
            '[' => rest.find(']').map(|at| at + 1),
            '-' if rest.starts_with("--") => rest.find('\n'),
            '/' if rest.starts_with("/*") => rest.find("*/").map(|at| at + 2),
            _ => {
                plain.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        plain.push(' ');
        rest = end.map_or("", |end| &rest[end..]);
    }
    let mut words = plain.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.any(|found| found.eq_ignore_ascii_case(word))
}

/// The name that a table has in the file, if it is there.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<Option<String>, sqlx::Error> {
    Ok(found(connection, table).await?.map(|(name, _)| name))
}

/// The same, and whether its rows have no numbers.
async fn found(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<Option<(String, bool)>, sqlx::Error> {
    let found = sqlx::query(TABLE)
        .bind(schema(table))
        .bind(table.name.as_str().to_owned())
        .fetch_optional(connection)
        .await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some((row.try_get(0)?, row.try_get::<i64, _>(1)? == 1)))
}

/// Whether no two rows may have the same values in these columns.
pub(super) async fn is_unique(
    connection: &mut SqliteConnection,
    table: &TableName,
    columns: &[&str],
) -> Result<bool, sqlx::Error> {
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    let unique = sqlx::query(UNIQUE)
        .bind(schema(table))
        .bind(table.name.as_str().to_owned())
        .bind(serde_json::Value::from(columns).to_string());
    Ok(unique.fetch_optional(connection).await?.is_some())
}

fn schema(table: &TableName) -> String {
    (table.schema.as_ref()).map_or("main".to_owned(), |schema| schema.as_str().to_owned())
}

/// A column, and whether it is the row's own number.
fn column(row: &SqliteRow, numbers: &Numbers) -> Result<(Column, bool), sqlx::Error> {
    let sql_type: String = row.try_get(1)?;
    let not_null: i64 = row.try_get(2)?;
    let default: Option<String> = row.try_get(3)?;
    let (key, keys): (i64, i64) = (row.try_get(4)?, row.try_get(5)?);
    let generated = row.try_get::<i64, _>(6)? > 1;
    // An integer primary key is the row's own number, which SQLite gives.
    let is_rowid =
        numbers.given && key == 1 && keys == 1 && sql_type.eq_ignore_ascii_case("integer");
    let drawn = (is_rowid || generated).then(|| "identity".to_owned());
    let column = Column {
        name: row.try_get(0)?,
        kind: kind(&sql_type),
        details: Details {
            rank: rank(&sql_type),
            given_again: is_rowid && !numbers.never_again,
            ..Details::default()
        },
        sql_type,
        nullable: not_null == 0 && !is_rowid,
        default: default.or(drawn),
        chars_max: None,
        labels: Vec::new(),
        sequence_cached: false,
        may_select: true,
        may_update: true,
        may_insert: true,
    };
    Ok((column, is_rowid))
}

fn rank(declared: &str) -> Rank {
    match kind(declared) {
        Kind::Bool => Rank::Never("has two values"),
        Kind::LocalTime => Rank::Coarse("keeps seconds, or at best milliseconds, as text".into()),
        Kind::Int | Kind::Time => Rank::Fine,
        Kind::Other if !declared.is_empty() => Rank::Fine,
        _ => Rank::Free,
    }
}

/// By the words of the declared type, as SQLite itself goes by them.
fn kind(declared: &str) -> Kind {
    let declared = declared.to_ascii_uppercase();
    let says = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    match () {
        () if says(&["BLOB"]) => Kind::Bytes,
        () if says(&["UUID"]) => Kind::Uuid,
        () if says(&["JSON"]) => Kind::Json,
        () if says(&["BOOL"]) => Kind::Bool,
        () if says(&["TIME", "DATE"]) && says(&["INT"]) => Kind::Time,
        () if says(&["TIME", "DATE"]) => Kind::LocalTime,
        () if says(&["INT"]) => Kind::Int,
        () if says(&["CHAR", "CLOB", "TEXT"]) => Kind::Text,
        () => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_where_it_is_one() {
        for (sql, expected) in [
            (
                "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)",
                true,
            ),
            (
                "create table t (id integer primary key autoincrement, x)",
                true,
            ),
            (
                "CREATE TABLE t (id INTEGER PRIMARY KEY -- AUTOINCREMENT\n)",
                false,
            ),
            (
                "CREATE TABLE t (id INTEGER PRIMARY KEY /* AUTOINCREMENT */)",
                false,
            ),
            (
                "CREATE TABLE \"AUTOINCREMENT\" ([AUTOINCREMENT] TEXT DEFAULT 'AUTOINCREMENT')",
                false,
            ),
            (
                "CREATE TABLE t (autoincrements INTEGER PRIMARY KEY) -- ",
                false,
            ),
            (
                "CREATE TABLE t (a TEXT DEFAULT 'it''s', id INTEGER PRIMARY KEY AUTOINCREMENT) --",
                true,
            ),
            ("'", false),
        ] {
            assert_eq!(has_word(sql, "AUTOINCREMENT"), expected, "{sql}");
        }
    }

    #[test]
    fn a_declared_type_says_what_a_column_holds() {
        for (declared, expected) in [
            ("INTEGER", Kind::Int),
            ("TIMESTAMP INTEGER", Kind::Time),
            ("DATETIME", Kind::LocalTime),
            ("UUID TEXT", Kind::Uuid),
            ("JSON TEXT", Kind::Json),
            ("varchar(20)", Kind::Text),
            ("boolean", Kind::Bool),
            ("BLOB", Kind::Bytes),
            ("", Kind::Other),
        ] {
            assert_eq!(kind(declared), expected, "{declared}");
        }
    }
}
