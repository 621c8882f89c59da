//! Reads a table's shape from the file's schema.

use postrider_core::layout::TableName;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use crate::sql::statement::{audit_table, troubles_table};
use crate::sql::table::{Beside, Column, Kind, Table};

/// The name as the table has it, whatever the case that a config names it in.
const TABLE: &str = "SELECT name FROM pragma_table_list WHERE schema = $1 AND lower(name) = lower($2) AND type <> 'view'";

/// name, declared type, NOT NULL, default, whether it is the primary key's only column
const COLUMNS: &str = "SELECT c.name, c.type, c.\"notnull\", c.dflt_value, c.pk, \
     (SELECT count(*) FROM pragma_table_xinfo($2, $1) AS k WHERE k.pk > 0), c.hidden \
     FROM pragma_table_xinfo($2, $1) AS c WHERE c.hidden <> 1 ORDER BY c.cid";

const UNIQUE: &str = "SELECT i.name FROM pragma_index_list($2, $1) AS i WHERE i.\"unique\" AND NOT i.partial \
     AND (SELECT json_group_array(name) FROM (SELECT x.name FROM pragma_index_info(i.name, $1) AS x ORDER BY x.name)) = $3";

/// The table of this name, or nothing where there is none.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<Option<Table>, sqlx::Error> {
    let Some(name) = find(connection, table).await? else {
        return Ok(None);
    };
    let columns = sqlx::query(COLUMNS)
        .bind(schema(table))
        .bind(&name)
        .fetch_all(&mut *connection)
        .await?;
    let troubles = find(connection, &troubles_table(table)).await?;
    let audit = find(connection, &audit_table(table)).await?;
    Ok(Some(Table {
        full_name: name,
        columns: columns.iter().map(column).collect::<Result<_, _>>()?,
        may_delete: true,
        role: "this user".into(),
        claim_index: false,
        troubles: Beside::new(troubles.is_some(), true),
        audit: Beside::new(audit.is_some(), true),
    }))
}

/// The name that a table has in the file, if it is there.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<Option<String>, sqlx::Error> {
    let found = sqlx::query(TABLE)
        .bind(schema(table))
        .bind(table.name.as_str().to_owned())
        .fetch_optional(connection)
        .await?;
    found.map(|row| row.try_get(0)).transpose()
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

fn column(row: &SqliteRow) -> Result<Column, sqlx::Error> {
    let sql_type: String = row.try_get(1)?;
    let not_null: i64 = row.try_get(2)?;
    let default: Option<String> = row.try_get(3)?;
    let (key, keys): (i64, i64) = (row.try_get(4)?, row.try_get(5)?);
    let generated = row.try_get::<i64, _>(6)? > 1;
    // An integer primary key is the row's own number, which SQLite gives.
    let is_rowid = key == 1 && keys == 1 && sql_type.eq_ignore_ascii_case("integer");
    let drawn = (is_rowid || generated).then(|| "identity".to_owned());
    Ok(Column {
        name: row.try_get(0)?,
        kind: kind(&sql_type),
        sql_type,
        nullable: not_null == 0 && !is_rowid,
        default: default.or(drawn),
        chars_max: None,
        labels: Vec::new(),
        sequence_cached: false,
        may_select: true,
        may_update: true,
        may_insert: true,
    })
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
