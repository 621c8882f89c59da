//! The databases that the demo runs on. What its services need of one is a trait, so that they are written once.

mod postgres;
mod sqlite;

use std::sync::Arc;

use postrider::core::{Emitted, Event, InboxStore, Layout, ManagedStore, Purge, Transactions};
use postrider::stores::EmitError;

pub(super) use postgres::{Postgres, SCHEMA};
pub(super) use sqlite::Sqlite;

/// A database with an outbox, an inbox and the tables of the demo's own services.
pub(super) trait Database: Clone + Send + Sync + 'static {
    type Tx: Send + 'static;

    /// Creates what is missing, and says whether that was everything.
    fn prepare(&self, layout: &Layout) -> impl Future<Output = anyhow::Result<Found>> + Send;

    fn store(&self, layout: &Layout) -> Arc<dyn ManagedStore>;
    fn transactions(&self) -> impl Transactions<Tx = Self::Tx>;
    fn inbox(&self) -> impl InboxStore<Self::Tx>;
    fn inbox_upkeep(&self) -> impl Purge + 'static;

    /// Records an event in the caller's transaction.
    fn emit(
        &self,
        tx: &mut Self::Tx,
        event: Event,
    ) -> impl Future<Output = Result<Emitted, EmitError>> + Send;

    /// Runs an `INSERT … RETURNING` of one number in the caller's transaction.
    fn insert(
        tx: &mut Self::Tx,
        statement: &'static str,
        values: &[&str],
    ) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;
}

/// What a start finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// Tables of an earlier start, with their data.
    Data,
}

/// The services' own tables, in words that both databases know. Invoices and shipments have no unique key: an order that
/// is applied twice would be seen.
const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS invoices (order_number bigint NOT NULL, customer text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS shipments (order_number bigint NOT NULL, item text NOT NULL)",
];
