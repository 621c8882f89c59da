//! What the demo's tables hold, by SQL of the test's own.

use std::collections::BTreeSet;
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

pub(crate) enum Tables {
    File(SqlitePool),
    Server(PgPool),
}

impl Tables {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(folder.join("demo.db"))
            .read_only(true);
        Self::File(SqlitePool::connect_lazy_with(options))
    }

    /// The first column of every row.
    pub(crate) async fn numbers(&self, sql: &str) -> Vec<i64> {
        let query = AssertSqlSafe(sql);
        let read = match self {
            Self::File(pool) => sqlx::query_scalar(query).fetch_all(pool).await,
            Self::Server(pool) => sqlx::query_scalar(query).fetch_all(pool).await,
        };
        read.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub(crate) async fn count(&self, from: &str) -> i64 {
        self.numbers(&format!("SELECT count(*) FROM {from}")).await[0]
    }

    /// Everything that can be published was applied by both consumers, nothing twice. Says what is missing.
    pub(crate) async fn applied_once(&self) -> Result<(), Missing> {
        let placed = self
            .numbers("SELECT number FROM orders WHERE quantity > 0")
            .await;
        let shippable = "SELECT number FROM orders WHERE quantity > 0 AND item <> 'piano'";
        let shippable = self.numbers(shippable).await;
        let billed = self.numbers("SELECT order_number FROM invoices").await;
        let shipped = self.numbers("SELECT order_number FROM shipments").await;
        let entries =
            |consumer: &str| format!("processed_messages WHERE subscriber = '{consumer}'");
        let inbox = [
            self.count(&entries("billing")).await,
            self.count(&entries("shipping")).await,
        ];
        let missing = Missing {
            invoices: missing(&placed, &billed),
            shipments: missing(&shippable, &shipped),
        };
        if !missing.invoices.is_empty() || !missing.shipments.is_empty() {
            return Err(missing);
        }
        assert_eq!(inbox, [placed.len() as i64, shippable.len() as i64]);
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) invoices: Vec<i64>,
    pub(crate) shipments: Vec<i64>,
}

/// What is not applied yet. Nothing may be applied twice, and nothing that was not to be.
fn missing(expected: &[i64], applied: &[i64]) -> Vec<i64> {
    let mut once = BTreeSet::new();
    for number in applied {
        assert!(once.insert(*number), "order {number} was applied twice");
        assert!(expected.contains(number), "order {number} was applied");
    }
    let missing = expected.iter().filter(|number| !once.contains(number));
    missing.copied().collect()
}
