//! A Postgres server. Everything is in a schema of its own, which comes first on the search path of every connection.

use std::sync::Arc;

use anyhow::Context as _;
use postrider::core::{
    Emitted, Event, InboxStore, Layout, ManagedStore, Purge, StoreError, Transactions,
};
use postrider::stores::EmitError;
use postrider::stores::postgres::{
    self, InboxLayout, InitOptions, Options, Outbox, PgInbox, PgPool, PgTransactions,
    PostgresStore, Tx,
};
use sqlx::Row as _;

use super::{Database, Found, TABLES};

pub(in super::super) const SCHEMA: &str = "postrider_demo";

const CONNECTIONS: u32 = 24;
const ORDERS: &str = "CREATE TABLE IF NOT EXISTS orders \
                      (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
                      customer text NOT NULL, item text NOT NULL, quantity bigint NOT NULL)";

#[derive(Clone)]
pub(in super::super) struct Postgres {
    pool: PgPool,
    outbox: Outbox,
    inbox: PgInbox,
}

impl Postgres {
    /// The URL must name the schema: see [`Self::in_schema`].
    pub(in super::super) fn open(url: &str, layout: &Layout) -> Result<Self, StoreError> {
        Ok(Self {
            pool: postgres::connect(url, CONNECTIONS)?,
            outbox: Outbox::new(layout.clone()),
            inbox: PgInbox::new(InboxLayout::gopipe()),
        })
    }

    /// The same URL, with which unqualified names are those of the demo's schema.
    pub(in super::super) fn in_schema(url: &str) -> Result<String, url::ParseError> {
        let mut url = url::Url::parse(url)?;
        url.query_pairs_mut()
            .append_pair("options[search_path]", SCHEMA);
        Ok(url.into())
    }

    async fn create_schema(&self) -> Result<Found, sqlx::Error> {
        let known = sqlx::query("SELECT to_regnamespace($1) IS NOT NULL")
            .bind(SCHEMA)
            .fetch_one(&self.pool)
            .await?;
        if known.try_get(0)? {
            return Ok(Found::Data);
        }
        sqlx::query("CREATE SCHEMA IF NOT EXISTS postrider_demo")
            .execute(&self.pool)
            .await?;
        Ok(Found::Nothing)
    }
}

impl Database for Postgres {
    type Tx = Tx;

    async fn prepare(&self, layout: &Layout) -> anyhow::Result<Found> {
        let answers = self.pool.acquire().await;
        drop(answers.context(
            "Postgres does not answer; are the address, the user and the password of --postgres right?",
        )?);
        let found = self.create_schema().await;
        let found = found.context(
            "the schema postrider_demo cannot be created; the user needs CREATE on the database",
        )?;
        let options = InitOptions {
            claim_index: true,
            notify: false,
        };
        postgres::init(&self.pool, layout, &options).await?;
        postgres::inbox::init(&self.pool, self.inbox.layout()).await?;
        for table in [ORDERS].into_iter().chain(TABLES) {
            let created = sqlx::query(table).execute(&self.pool).await;
            created.context("the tables of the demo's services cannot be created")?;
        }
        Ok(found)
    }

    fn store(&self, layout: &Layout) -> Arc<dyn ManagedStore> {
        let options = Options::new(layout.clone());
        Arc::new(PostgresStore::new(self.pool.clone(), options))
    }

    fn transactions(&self) -> impl Transactions<Tx = Tx> {
        PgTransactions::new(self.pool.clone())
    }

    fn inbox(&self) -> impl InboxStore<Tx> {
        self.inbox.clone()
    }

    fn inbox_upkeep(&self) -> impl Purge + 'static {
        self.inbox.upkeep(self.pool.clone())
    }

    async fn emit(&self, tx: &mut Tx, event: Event) -> Result<Emitted, EmitError> {
        self.outbox.emit(tx, event).await
    }

    async fn insert(
        tx: &mut Tx,
        statement: &'static str,
        values: &[&str],
    ) -> Result<i64, sqlx::Error> {
        let insert = values.iter().fold(sqlx::query(statement), |query, value| {
            query.bind(value.to_string())
        });
        insert.fetch_one(&mut **tx).await?.try_get(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_keeps_what_it_had() {
        let url = Postgres::in_schema("postgres://me:p%40ss@host:5433/db?sslmode=disable").unwrap();
        let expected = "postgres://me:p%40ss@host:5433/db?sslmode=disable&options%5Bsearch_path%5D=postrider_demo";
        assert_eq!(url, expected);
    }
}
