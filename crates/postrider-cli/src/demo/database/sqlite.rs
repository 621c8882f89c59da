//! A SQLite file: nothing to install.

use std::sync::Arc;

use anyhow::Context as _;
use postrider::core::{
    Emitted, Event, InboxStore, Layout, ManagedStore, Purge, StoreError, Transactions,
};
use postrider::stores::EmitError;
use postrider::stores::sqlite::{
    self, InboxLayout, InitOptions, Options, Outbox, SqliteInbox, SqliteStore, SqliteTransactions,
    Tx,
};
use sqlx::Row as _;

use super::{Database, Found, TABLES};

const READERS: u32 = 4;
const ORDERS: &str = "CREATE TABLE IF NOT EXISTS orders (number integer PRIMARY KEY, \
                      customer text NOT NULL, item text NOT NULL, quantity bigint NOT NULL)";

#[derive(Clone)]
pub(in super::super) struct Sqlite {
    file: sqlite::Database,
    outbox: Outbox,
    inbox: SqliteInbox,
}

impl Sqlite {
    pub(in super::super) fn open(url: &str, layout: &Layout) -> Result<Self, StoreError> {
        Ok(Self {
            file: sqlite::connect(url, READERS)?,
            outbox: Outbox::new(layout.clone()),
            inbox: SqliteInbox::new(InboxLayout::gopipe()),
        })
    }
}

impl Database for Sqlite {
    type Tx = Tx;

    async fn prepare(&self, layout: &Layout) -> anyhow::Result<Found> {
        let found = match self.file.path().exists() {
            true => Found::Data,
            false => Found::Nothing,
        };
        sqlite::init(&self.file, layout, &InitOptions { claim_index: true }).await?;
        sqlite::inbox::init(&self.file, self.inbox.layout()).await?;
        let mut tx = self.file.begin().await?;
        for table in [ORDERS].into_iter().chain(TABLES) {
            let created = sqlx::query(table).execute(&mut *tx).await;
            created.context("the tables of the demo's services cannot be created")?;
        }
        self.file.commit(tx).await?;
        Ok(found)
    }

    fn store(&self, layout: &Layout) -> Arc<dyn ManagedStore> {
        let options = Options::new(layout.clone());
        Arc::new(SqliteStore::new(self.file.clone(), options))
    }

    fn transactions(&self) -> impl Transactions<Tx = Tx> {
        SqliteTransactions::new(self.file.clone())
    }

    fn inbox(&self) -> impl InboxStore<Tx> {
        self.inbox.clone()
    }

    fn inbox_upkeep(&self) -> impl Purge + 'static {
        self.inbox.upkeep(self.file.clone())
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
