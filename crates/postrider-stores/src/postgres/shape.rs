//! Reads a table's shape from the catalogue. Never fails for a table that is not there: emit asks in the
//! caller's transaction, which an error would end.

use postrider_core::layout::TableName;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::pool::Pool;
use super::tx::{OPERATOR_MAX, Tx, bounded};
use crate::sql::statement::{Writer, audit_table, troubles_table};
use crate::sql::table::{Beside, Column, Details, Kind, Partitions, Rank, Rows, Table};

const TABLE: &str = "
SELECT format('%I.%I', n.nspname, c.relname), has_table_privilege(c.oid, 'DELETE'), to_regclass($2) IS NOT NULL,
  coalesce(has_table_privilege(to_regclass($2), 'SELECT') AND has_table_privilege(to_regclass($2), 'INSERT')
    AND has_table_privilege(to_regclass($2), 'UPDATE') AND has_table_privilege(to_regclass($2), 'DELETE'), false),
  quote_ident(current_user), to_regclass($3) IS NOT NULL,
  coalesce(has_table_privilege(to_regclass($3), 'SELECT') AND has_table_privilege(to_regclass($3), 'INSERT'), false),
  (SELECT coalesce(json_agg(ARRAY(
      SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
      WHERE a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) ORDER BY a.attname)), '[]')::text
    FROM pg_catalog.pg_index AS i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
      AND i.indpred IS NULL AND i.indexprs IS NULL),
  c.relkind = 'p',
  c.relkind IN ('r', 'p'), c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits AS h WHERE h.inhparent = c.oid),
  c.relkind = 'r' AND NOT c.relispartition AND NOT c.relhassubclass
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)";

/// A column's type may be a domain, which may be made of another one: the innermost says how long values may be, and each
/// may refuse NULL and more.
const COLUMNS: &str = "
SELECT a.attname::text, base.typname::text, base.typtype = 'e', format_type(a.atttypid, -1), NOT (a.attnotnull OR chain.filled),
  CASE WHEN a.attidentity <> '' THEN 'identity' ELSE pg_get_expr(d.adbin, d.adrelid) END,
  CASE WHEN base.typname IN ('varchar', 'bpchar') AND chain.typmod > 4 THEN chain.typmod - 4 END,
  ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = base.oid ORDER BY e.enumsortorder),
  EXISTS (
    SELECT FROM pg_catalog.pg_depend AS x JOIN pg_catalog.pg_sequence AS s ON s.seqcache > 1
      AND (x.classid = 'pg_catalog.pg_attrdef'::regclass AND x.objid = d.oid AND x.refobjid = s.seqrelid
        OR x.objid = s.seqrelid AND x.refobjid = a.attrelid AND x.refobjsubid = a.attnum)),
  has_column_privilege(a.attrelid, a.attnum, 'SELECT'), has_column_privilege(a.attrelid, a.attnum, 'UPDATE'),
  has_column_privilege(a.attrelid, a.attnum, 'INSERT'), chain.typmod,
  ARRAY(SELECT DISTINCT format_type(k.contypid, -1) FROM pg_catalog.pg_constraint AS k
    WHERE k.contypid = ANY(chain.types) AND k.contype = 'c' ORDER BY 1),
  ARRAY(SELECT quote_ident(k.conname) FROM pg_catalog.pg_constraint AS k
    WHERE k.conrelid = a.attrelid AND k.contype = 'c' AND a.attnum = ANY(k.conkey) ORDER BY 1)
FROM pg_catalog.pg_attribute AS a
CROSS JOIN LATERAL (
  WITH RECURSIVE chain(type, inner_type, typmod, filled, types) AS (
    SELECT t.oid, t.typbasetype, CASE t.typbasetype WHEN 0 THEN a.atttypmod ELSE t.typtypmod END, t.typnotnull, ARRAY[t.oid]
    FROM pg_catalog.pg_type AS t WHERE t.oid = a.atttypid
    UNION ALL
    SELECT t.oid, t.typbasetype, CASE t.typbasetype WHEN 0 THEN chain.typmod ELSE t.typtypmod END,
      chain.filled OR t.typnotnull, chain.types || t.oid
    FROM chain JOIN pg_catalog.pg_type AS t ON t.oid = chain.inner_type)
  SELECT type, typmod, filled, types FROM chain WHERE inner_type = 0) AS chain
JOIN pg_catalog.pg_type AS base ON base.oid = chain.type
LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum";

/// The table of this name, or nothing where there is none.
pub(super) async fn read(
    connection: &mut PgConnection,
    table: &TableName,
) -> Result<Option<Table>, sqlx::Error> {
    let name = table.quoted();
    let troubles = troubles_table(table).quoted();
    let found = sqlx::query(TABLE)
        .persistent(false)
        .bind(&name)
        .bind(troubles)
        .bind(audit_table(table).quoted())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(row) = found else { return Ok(None) };
    let columns = sqlx::query(COLUMNS)
        .persistent(false)
        .bind(&name)
        .fetch_all(&mut *connection)
        .await?;
    let unique: String = row.try_get(7)?;
    let partitions = if row.try_get(8)? {
        let found = sqlx::query(PARTITIONS).bind(&name);
        found.fetch_optional(&mut *connection).await?
    } else {
        None
    };
    Ok(Some(Table {
        full_name: row.try_get(0)?,
        may_delete: row.try_get(1)?,
        troubles: Beside::new(row.try_get(2)?, row.try_get(3)?),
        audit: Beside::new(row.try_get(5)?, row.try_get(6)?),
        role: row.try_get(4)?,
        columns: columns.iter().map(column).collect::<Result<_, _>>()?,
        is_plain: row.try_get(11)?,
        claim_index: false,
        unique: serde_json::from_str(&unique).map_err(|error| sqlx::Error::Decode(error.into()))?,
        rows: match (row.try_get(9)?, row.try_get(10)?) {
            (false, _) => Rows::Elsewhere,
            (true, true) => Rows::Inherited,
            (true, false) => Rows::Here,
        },
        partitions: partitions.as_ref().map(partitioned).transpose()?,
    }))
}

/// A unique index of each partition does not make one of the table.
const PARTITIONS: &str = "
SELECT ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid = p.partrelid AND a.attnum > 0 AND a.attnum = ANY(p.partattrs::int2[]) ORDER BY a.attnum),
  p.partexprs IS NOT NULL,
  ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid = p.partrelid AND a.attnum > 0 AND NOT a.attisdropped
      AND EXISTS (SELECT FROM pg_partition_tree(p.partrelid) AS l WHERE l.isleaf)
      AND NOT EXISTS (SELECT FROM pg_partition_tree(p.partrelid) AS l WHERE l.isleaf AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_attribute AS x ON x.attrelid = i.indrelid AND x.attnum = i.indkey[0]
        WHERE i.indrelid = l.relid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
          AND i.indnkeyatts = 1 AND x.attname = a.attname)))
FROM pg_catalog.pg_partitioned_table AS p WHERE p.partrelid = to_regclass($1)";

fn partitioned(row: &PgRow) -> Result<Partitions, sqlx::Error> {
    Ok(Partitions {
        by: row.try_get(0)?,
        by_expression: row.try_get(1)?,
        unique_in_each: row.try_get(2)?,
    })
}

const UNIQUE: &str = "
SELECT FROM pg_catalog.pg_index AS i
WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
  AND ARRAY(
    SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) ORDER BY a.attname
  ) = $2 AND i.indexprs IS NULL";

/// Whether no two rows may have the same values in these columns.
pub(super) async fn is_unique(
    connection: &mut PgConnection,
    table: &TableName,
    columns: &[&str],
) -> Result<bool, sqlx::Error> {
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    let unique = sqlx::query(UNIQUE).bind(table.quoted()).bind(columns);
    Ok(unique.fetch_optional(connection).await?.is_some())
}

fn column(row: &PgRow) -> Result<Column, sqlx::Error> {
    let chars_max: Option<i32> = row.try_get(6)?;
    let (base, is_enum): (&str, bool) = (row.try_get(1)?, row.try_get(2)?);
    Ok(Column {
        name: row.try_get(0)?,
        kind: kind(base, is_enum),
        sql_type: row.try_get(3)?,
        nullable: row.try_get(4)?,
        default: row.try_get(5)?,
        chars_max: chars_max.and_then(|chars| u32::try_from(chars).ok()),
        labels: row.try_get(7)?,
        sequence_cached: row.try_get(8)?,
        may_select: row.try_get(9)?,
        may_update: row.try_get(10)?,
        may_insert: row.try_get(11)?,
        details: Details {
            rank: rank(base, is_enum, row.try_get(12)?),
            given_again: false,
            domain_checks: row.try_get(13)?,
            table_checks: row.try_get(14)?,
        },
    })
}

fn rank(base: &str, is_enum: bool, typmod: i32) -> Rank {
    let coarse = match typmod {
        0 => Some("keeps whole seconds".to_owned()),
        1..=5 => Some(format!("keeps {typmod} digits of a second")),
        _ => None,
    };
    match base {
        _ if is_enum => Rank::Never("has the few values of its type"),
        "timestamptz" => coarse.map_or(Rank::Fine, Rank::Coarse),
        "timestamp" => Rank::Zoneless(coarse),
        "date" => Rank::Coarse("keeps whole days".into()),
        "float4" => Rank::Coarse("keeps six digits of a number".into()),
        "bool" => Rank::Never("has two values"),
        "time" | "timetz" => Rank::Never("begins again every day"),
        "uuid" | "text" | "varchar" | "bpchar" | "name" | "citext" | "bytea" | "json" | "jsonb" => {
            Rank::Free
        }
        _ => Rank::Fine,
    }
}

fn kind(type_name: &str, is_enum: bool) -> Kind {
    match type_name {
        _ if is_enum => Kind::Enum,
        "uuid" => Kind::Uuid,
        "int2" | "int4" | "int8" => Kind::Int,
        // Not bpchar: read as it stands it has blanks at its end, and as text it has none, so an id would not find itself.
        "text" | "varchar" | "name" => Kind::Text,
        "json" => Kind::Json,
        "jsonb" => Kind::Jsonb,
        "bytea" => Kind::Bytes,
        "bool" => Kind::Bool,
        "timestamptz" => Kind::Time,
        "timestamp" => Kind::LocalTime,
        _ => Kind::Other,
    }
}

/// Asks the planner whether the claim can walk an index in order, and whether that index holds pending
/// records only: one of all records would be walked from the oldest published one on.
pub(super) async fn has_claim_index(pool: &Pool, writer: &Writer<'_>) -> Result<bool, sqlx::Error> {
    Ok(!claim_indexes(pool, writer).await?.is_empty())
}

/// The names of the indexes that such a claim walks.
pub(super) async fn claim_indexes(
    pool: &Pool,
    writer: &Writer<'_>,
) -> Result<Vec<String>, sqlx::Error> {
    let plan = explain(pool, &writer.claim_probe()).await?;
    if plan
        .iter()
        .any(|node| matches!(node.kind.as_str(), "Sort" | "Seq Scan"))
    {
        return Ok(Vec::new());
    }
    let names: Vec<String> = plan.into_iter().filter_map(|node| node.index).collect();
    let partial = sqlx::query(
        "SELECT c.relname::text FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid \
         WHERE i.indrelid = to_regclass($1) AND c.relname = ANY($2) AND (i.indpred IS NOT NULL OR NOT $3)",
    )
    .bind(writer.layout.table.quoted())
    .bind(&names)
    .bind(writer.claim_index_condition().is_some());
    let rows = pool.fetch_all(partial).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub kind: String,
    pub index: Option<String>,
}

/// The nodes of a select's plan, if it prefers any index over none.
pub(super) async fn explain(pool: &Pool, select: &str) -> Result<Vec<Node>, sqlx::Error> {
    let text = format!(
        "{}; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off; \
         EXPLAIN (FORMAT JSON) {select}",
        bounded(OPERATOR_MAX)
    );
    let (tx, rows) = Tx::begin(pool, text.into()).await?;
    let json: String = rows
        .first()
        .map_or(Ok(String::new()), |row| row.try_get_unchecked(0))?;
    tx.rollback().await?;
    let plan: serde_json::Value =
        serde_json::from_str(&json).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let mut nodes = Vec::new();
    collect(&plan[0]["Plan"], &mut nodes);
    Ok(nodes)
}

fn collect(node: &serde_json::Value, nodes: &mut Vec<Node>) {
    let text = |name: &str| node[name].as_str().map(ToOwned::to_owned);
    nodes.push(Node {
        kind: text("Node Type").unwrap_or_default(),
        index: text("Index Name"),
    });
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect(child, nodes);
    }
}
