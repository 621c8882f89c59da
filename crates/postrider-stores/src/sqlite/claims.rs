//! Who holds what. SQLite locks no rows, and a write transaction that stayed open while its records are published would
//! keep every other writer of the file away. So a claim is a row in `postrider_claims`, written in one short transaction,
//! with the lanes or the records that it holds.
//!
//! A claim has ended when its row is gone, its time is over, or nobody is there to hold it: the process is gone, or this
//! process has let go of it. Whoever claims next deletes the row, and from then on its holder can settle nothing.

use std::collections::HashSet;
use std::sync::Arc;

use postrider_core::layout::TableName;
use serde_json::Value;
use sqlx::{Row as _, SqliteConnection};

use super::Inner;
use super::bind::Bound;
use super::process::{self, Presence};

pub(super) const CLAIMS: &str = "postrider_claims";

/// Every statement on the table of claims.
#[derive(Debug)]
pub(super) struct Statements {
    /// outbox → token, process, until, held
    read: Arc<str>,
    /// → processes
    processes: Arc<str>,
    /// tokens
    delete: Arc<str>,
    /// token, outbox, process, until, held
    insert: Arc<str>,
}

impl Statements {
    pub(super) fn new(outbox: &TableName) -> Self {
        let table = table(outbox).quoted();
        Self {
            read: format!("SELECT token, process, until, held FROM {table} WHERE outbox = $1").into(),
            processes: format!("SELECT DISTINCT process FROM {table}").into(),
            delete: format!(
                "DELETE FROM {table} WHERE token IN (SELECT value FROM json_each($1))"
            )
            .into(),
            insert: format!(
                "INSERT INTO {table} (token, outbox, process, until, held) VALUES ($1, $2, $3, $4, $5)"
            )
            .into(),
        }
    }
}

/// Beside the outbox.
pub(super) fn table(outbox: &TableName) -> TableName {
    outbox.sibling(CLAIMS.to_owned().try_into().expect("is a name"))
}

pub(super) fn create(outbox: &TableName) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (\n  token TEXT NOT NULL PRIMARY KEY,\n  outbox TEXT NOT NULL,\n  \
         process TEXT NOT NULL,\n  until TIMESTAMP INTEGER NOT NULL,\n  held JSON TEXT NOT NULL\n)",
        table(outbox).quoted()
    )
}

/// What others hold of an outbox.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Lanes, or records' ids, as JSON has them.
    pub(super) held: Vec<Value>,
    /// Tokens of claims that have ended.
    ended: Vec<String>,
    /// Processes that are gone.
    gone: HashSet<String>,
}

impl Others {
    pub(super) async fn read(
        inner: &Inner,
        outbox: &str,
        here: &Presence,
        connection: &mut SqliteConnection,
    ) -> Result<Self, sqlx::Error> {
        let now = postrider_core::Timestamp::now().as_micros();
        let read = Bound::new(&inner.claims.read).text(1, outbox);
        let mut others = Self::default();
        for row in read.rows(connection).await? {
            let (token, process): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let (until, held): (i64, String) = (row.try_get(2)?, row.try_get(3)?);
            let is_over = until <= now;
            let is_dropped = process == here.name && !process::is_open(&token);
            let is_alone = process != here.name && others.is_gone(inner, &process);
            if is_over || is_dropped || is_alone {
                others.ended.push(token);
            } else {
                let held: Vec<Value> = serde_json::from_str(&held).unwrap_or_default();
                others.held.extend(held);
            }
        }
        Ok(others)
    }

    fn is_gone(&mut self, inner: &Inner, process: &str) -> bool {
        if !self.gone.contains(process) && process::is_gone(inner.database.path(), process) {
            self.gone.insert(process.to_owned());
        }
        self.gone.contains(process)
    }

    /// Makes what has ended end for its holder too. Must be followed by a commit.
    pub(super) async fn end(
        &self,
        inner: &Inner,
        connection: &mut SqliteConnection,
    ) -> Result<bool, sqlx::Error> {
        if self.ended.is_empty() {
            return Ok(false);
        }
        let delete = Bound::new(&inner.claims.delete).texts(1, &self.ended);
        delete.execute(connection).await?;
        Ok(true)
    }

    /// The wanted lanes that nobody holds.
    pub(super) fn free(&self, wanted: Vec<u32>) -> Vec<u32> {
        let held: HashSet<u64> = self.held.iter().filter_map(Value::as_u64).collect();
        let free = |lane: &u32| !held.contains(&u64::from(*lane));
        wanted.into_iter().filter(free).collect()
    }
}

/// The processes that claims name, whatever their outbox.
pub(super) async fn processes(
    inner: &Inner,
    connection: &mut SqliteConnection,
) -> Result<HashSet<String>, sqlx::Error> {
    let rows = Bound::new(&inner.claims.processes).rows(connection).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// Writes a claim down.
pub(super) async fn begin(
    inner: &Inner,
    claim: &New<'_>,
    connection: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    let insert = Bound::new(&inner.claims.insert)
        .text(1, claim.token)
        .text(2, claim.outbox)
        .text(3, claim.process)
        .int(4, claim.until)
        .list(5, claim.held.clone());
    insert.execute(connection).await.map(drop)
}

#[derive(Debug)]
pub(super) struct New<'a> {
    pub token: &'a str,
    pub outbox: &'a str,
    pub process: &'a str,
    pub until: i64,
    pub held: Vec<Value>,
}

/// Ends a claim; false if it had ended before.
pub(super) async fn end(
    inner: &Inner,
    token: &str,
    connection: &mut SqliteConnection,
) -> Result<bool, sqlx::Error> {
    let delete = Bound::new(&inner.claims.delete).texts(1, [token]);
    Ok(delete.execute(connection).await?.rows_affected() > 0)
}
