//! A pool, and whether a pooler stands between it and the server.
//!
//! A pooler in transaction mode gives every transaction another session of the server. What is left in a session is met by
//! somebody else: above all prepared statements, which the driver numbers from 1 on each of its connections. One that
//! does not track them (PgBouncer before 1.21) would let us run a statement that somebody else has prepared under the
//! same name. So, behind a pooler, every statement is in a transaction, which begins by removing such names and by
//! setting what a session of ours has elsewhere ([`AT_BEGIN`]); and the driver keeps none of its statements.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgQueryResult, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool, Postgres, Row as _};

use super::tx::Tx;

/// The driver sends these when it connects, and who is connected to a server has them from there. A pooler tracks
/// them and sets them by statements, or has had no need to.
pub(super) const IS_DIRECT: &str = "SELECT bool_and(source = 'client') FROM pg_catalog.pg_settings \
     WHERE name IN ('client_encoding', 'DateStyle', 'TimeZone')";

/// For everybody's transactions behind a pooler, once their own settings are made. The names are the driver's; a pooler
/// that tracks prepared statements gives them others.
pub(super) const AT_BEGIN: &str = "DO $postrider$
DECLARE
  statement text;
BEGIN
  FOR statement IN SELECT name FROM pg_catalog.pg_prepared_statements WHERE name ~ '^sqlx_s_[0-9]+$' LOOP
    EXECUTE format('DEALLOCATE %I', statement);
  END LOOP;
  IF current_setting('statement_timeout') = '0' THEN
    PERFORM set_config('statement_timeout', '5min', true);
  END IF;
  IF current_setting('client_connection_check_interval', true) IS NOT NULL AND version() LIKE '%linux%' THEN
    PERFORM set_config('client_connection_check_interval', '1s', true);
  END IF;
END
$postrider$";

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pool: PgPool,
    /// One of the three below.
    leads: Arc<AtomicU8>,
}

/// Where connections lead to: nobody has looked; so far to the server; to a pooler.
const UNKNOWN: u8 = 0;
const DIRECT: u8 = 1;
const POOLER: u8 = 2;

/// How a connection has to be used.
pub(super) enum Lent {
    Direct(PoolConnection<Postgres>),
    /// In transactions only.
    Pooled(PoolConnection<Postgres>),
}

impl Pool {
    /// Does no I/O: where its connections lead is looked at when they are first used.
    pub(super) fn new(pool: PgPool) -> Self {
        let leads = match keeps_no_statements(&pool.connect_options()) {
            true => POOLER,
            false => UNKNOWN,
        };
        Self {
            pool,
            leads: Arc::new(AtomicU8::new(leads)),
        }
    }

    /// Whether there is a pooler in between.
    pub(super) async fn is_behind_pooler(&self) -> Result<bool, sqlx::Error> {
        Ok(matches!(self.lend().await?, Lent::Pooled(_)))
    }

    pub(super) fn connect_options(&self) -> Arc<PgConnectOptions> {
        self.pool.connect_options()
    }

    /// A connection, and how it is to be used. Whatever was known of others, a new one is looked at: an address may lead
    /// elsewhere than before. One that has prepared statements is not new.
    pub(super) async fn lend(&self) -> Result<Lent, sqlx::Error> {
        loop {
            let mut connection = self.pool.acquire().await?;
            let has_statements = connection.cached_statements_size() > 0;
            match (self.leads.load(Relaxed), has_statements) {
                (POOLER, false) => return Ok(Lent::Pooled(connection)),
                // From before the pooler was found. Nothing tells where its statements are.
                (POOLER, true) => connection.close_on_drop(),
                (DIRECT, true) => return Ok(Lent::Direct(connection)),
                _ => {
                    if is_direct(&mut connection).await? {
                        mark_direct(&mut connection).await?;
                        let seen = self
                            .leads
                            .compare_exchange(UNKNOWN, DIRECT, Relaxed, Relaxed);
                        if seen != Err(POOLER) {
                            return Ok(Lent::Direct(connection));
                        }
                        continue;
                    }
                    self.pooler_found();
                    connection.close_on_drop();
                }
            }
        }
    }

    fn pooler_found(&self) {
        if self.leads.swap(POOLER, Relaxed) == POOLER {
            return;
        }
        let options = (*self.pool.connect_options()).clone();
        let (host, port) = (options.get_host().to_owned(), options.get_port());
        self.pool
            .set_connect_options(options.statement_cache_capacity(0));
        tracing::info!(
            host,
            port,
            "there is a pooler before the database: statements are prepared anew in every transaction"
        );
    }

    pub(super) async fn execute(&self, query: OneQuery<'_>) -> Result<PgQueryResult, sqlx::Error> {
        let mut tx = Tx::lend(self).await?;
        let done = query.execute(tx.connection()).await?;
        tx.give_back().await?;
        Ok(done)
    }

    pub(super) async fn fetch_all(&self, query: OneQuery<'_>) -> Result<Vec<PgRow>, sqlx::Error> {
        let mut tx = Tx::lend(self).await?;
        let rows = query.fetch_all(tx.connection()).await?;
        tx.give_back().await?;
        Ok(rows)
    }

    pub(super) async fn fetch_optional(
        &self,
        query: OneQuery<'_>,
    ) -> Result<Option<PgRow>, sqlx::Error> {
        let mut tx = Tx::lend(self).await?;
        let row = query.fetch_optional(tx.connection()).await?;
        tx.give_back().await?;
        Ok(row)
    }

    pub(super) async fn fetch_one(&self, query: OneQuery<'_>) -> Result<PgRow, sqlx::Error> {
        let row = self.fetch_optional(query).await?;
        row.ok_or(sqlx::Error::RowNotFound)
    }
}

pub(super) type OneQuery<'q> = Query<'q, Postgres, PgArguments>;

/// Whether nobody stands between this connection and its server. Prepares nothing.
pub(super) async fn is_direct(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let row = sqlx::raw_sql(IS_DIRECT).fetch_one(connection).await?;
    Ok(row.try_get_unchecked::<&str, _>(0)? == "t")
}

/// A statement that stays prepared says of a connection that it was looked at.
pub(super) async fn mark_direct(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1").execute(connection).await.map(drop)
}

/// `?statement-cache-capacity=0` in the URL.
fn keeps_no_statements(options: &PgConnectOptions) -> bool {
    let url = options.to_url_lossy();
    url.query_pairs()
        .any(|(name, value)| name == "statement-cache-capacity" && value == "0")
}
