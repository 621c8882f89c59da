//! An outbox of any layout in a database of its own: a schema of Postgres, or a file of SQLite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering as Atomic};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::layout::State as LayoutState;
use postrider_core::{Event, Layout, ManagedStore, RecordId};
use postrider_stores::postgres::{
    InitOptions, Options, Outbox, PgPool, PostgresStore, connect, init,
};
use postrider_testkit::conformance::store::{Seen, Settings, State, StoreWorld};
use postrider_testkit::database::{Database, fresh_schema};
use uuid::Uuid;

/// What differs between the databases, as far as these tests care. SQL that both understand is not here.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    type Outbox: Send + Sync;

    async fn execute(&self, sql: &str);

    /// The first column of the first row, which must be text; `None` for NULL or no row.
    async fn text(&self, sql: &str) -> Option<String>;

    /// A time in the past, as an expression.
    fn ago(&self, ago: Duration) -> String;

    /// Makes every update and delete of a table fail from now on.
    async fn refuse_changes(&self, table: &str);

    fn relay(&self, url: &str, options: Options) -> Arc<dyn ManagedStore>;

    async fn emit(&self, outbox: &Self::Outbox, event: Event);
}

#[async_trait]
impl Backend for Database {
    type Outbox = Outbox;

    async fn execute(&self, sql: &str) {
        Database::execute(self, sql).await;
    }

    async fn text(&self, sql: &str) -> Option<String> {
        Database::text(self, sql).await
    }

    fn ago(&self, ago: Duration) -> String {
        format!("now() - interval '{}s'", ago.as_secs())
    }

    async fn refuse_changes(&self, table: &str) {
        let refuse = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                      $$ BEGIN RAISE EXCEPTION 'refused'; END $$";
        Database::execute(self, refuse).await;
        let trigger = format!(
            "CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {table} EXECUTE FUNCTION refuse()"
        );
        Database::execute(self, &trigger).await;
    }

    fn relay(&self, url: &str, options: Options) -> Arc<dyn ManagedStore> {
        Arc::new(PostgresStore::new(connect(url, 4).unwrap(), options))
    }

    async fn emit(&self, outbox: &Outbox, event: Event) {
        let mut tx = self.pool.begin().await.unwrap();
        outbox.emit(&mut tx, event).await.unwrap();
        tx.commit().await.unwrap();
    }
}

pub(crate) struct World<B: Backend = Database> {
    pub(crate) database: B,
    pub(crate) layout: Layout,
    pub(crate) outbox: B::Outbox,
    /// What relays connect with, each on its own.
    relay_url: String,
    /// Where enough attempts are death, looking needs to know how many.
    max_attempts: AtomicU32,
}

/// A preset with overrides, its tables and indexes made.
pub(crate) async fn world(preset: &str, overrides: &str) -> World {
    world_with(preset, overrides, "").await
}

/// The same, with statements to run first: a table of the test's own, for one.
pub(crate) async fn world_with(preset: &str, overrides: &str, sql: &str) -> World {
    let database = fresh_schema().await;
    database.execute(sql).await;
    let layout = layout(preset, overrides);
    let options = InitOptions {
        claim_index: true,
        notify: false,
    };
    init(&database.pool, &layout, &options).await.unwrap();
    let (url, outbox) = (database.url.clone(), Outbox::new(layout.clone()));
    World::new(database, &url, layout, outbox)
}

pub(crate) fn layout(preset: &str, overrides: &str) -> Layout {
    Layout::with_overrides(preset, overrides.parse().unwrap()).unwrap()
}

impl World {
    pub(crate) fn store(&self) -> PostgresStore {
        PostgresStore::new(self.relay_pool(), Options::new(self.layout.clone()))
    }

    fn relay_pool(&self) -> PgPool {
        connect(&self.relay_url, 4).unwrap()
    }

    /// Relays connect with these settings of the session, as a role may have by default.
    pub(crate) fn with_session(mut self, settings: &[(&str, &str)]) -> Self {
        let settings = settings
            .iter()
            .map(|(name, value)| format!("%20-c{name}%3D{value}"));
        self.relay_url = format!("{}{}", self.database.url, settings.collect::<String>());
        self
    }
}

impl<B: Backend> World<B> {
    pub(crate) fn new(database: B, url: &str, layout: Layout, outbox: B::Outbox) -> Self {
        Self {
            relay_url: url.into(),
            database,
            layout,
            outbox,
            max_attempts: AtomicU32::new(0),
        }
    }

    /// An event as this layout takes it.
    pub(crate) fn event(&self, key: Option<&str>, number: u32) -> Event {
        let event = Event::raw("order_created", format!("{{\"n\":{number}}}"));
        let columns = &self.layout.columns;
        let event = if columns.topic.is_some() {
            event.topic("orders")
        } else {
            event
        };
        let event = match &columns.aggregate_type {
            Some(_) => Event {
                aggregate_type: Some("vendor_order".into()),
                ..event
            },
            None => event,
        };
        let key = match self.layout.name.as_str() {
            "packfinderz" => Some(uuid(key.unwrap_or("none")).to_string()),
            "polyshop" | "debezium" => Some(key.unwrap_or("none").to_owned()),
            "gopipe" => None,
            _ => key.map(ToOwned::to_owned),
        };
        if columns.aggregate_id.is_some() {
            Event {
                aggregate_id: key,
                ..event
            }
        } else {
            Event { key, ..event }
        }
    }

    pub(crate) async fn emit(&self, event: Event) -> RecordId {
        let id = event.id.to_string();
        self.database.emit(&self.outbox, event).await;
        match id.parse() {
            Ok(id) if self.makes_ids() => RecordId::Uuid(id),
            _ => self.last_id().await,
        }
    }

    /// Whether the id of an event is that of its record.
    fn makes_ids(&self) -> bool {
        self.layout.columns.event_id.as_ref() == Some(&self.layout.columns.id)
    }

    async fn last_id(&self) -> RecordId {
        let latest: Vec<String> = (self.layout.order.iter())
            .map(|column| format!("o.{} DESC", column.quoted()))
            .collect();
        let sql = format!(
            "SELECT CAST({} AS text) FROM {} AS o ORDER BY {} LIMIT 1",
            self.layout.columns.id.quoted(),
            self.layout.table.quoted(),
            latest.join(", ")
        );
        let id = self.database.text(&sql).await.expect("has rows");
        id.parse().map_or(RecordId::Text(id.into()), RecordId::Int)
    }

    /// A value of a record's row as text, or `None` for NULL or no row.
    async fn value(&self, id: &RecordId, expression: &str) -> Option<String> {
        let (table, column) = (self.layout.table.quoted(), self.layout.columns.id.quoted());
        self.database
            .text(&format!(
                "SELECT CAST(({expression}) AS text) FROM {table} WHERE CAST({column} AS text) = '{id}'"
            ))
            .await
    }

    async fn trouble(&self, id: &RecordId, column: &str) -> Option<String> {
        let kept = match self.layout.state {
            LayoutState::Append { .. } => format!("{} WHERE position", self.beside("_troubles")),
            _ => "postrider_troubles WHERE record_id".into(),
        };
        self.database
            .text(&format!(
                "SELECT CAST({column} AS text) FROM {kept} = '{id}'"
            ))
            .await
    }

    /// A table beside an append-only outbox.
    fn beside(&self, suffix: &str) -> String {
        let name = format!("{}{suffix}", self.layout.table.name.as_str());
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    /// An append-only record says nothing itself: the progress of its group does.
    async fn was_read(&self, id: &RecordId) -> bool {
        let (outbox, progress) = (self.beside(""), self.beside("_stream"));
        let sql = format!(
            "SELECT pg_visible_in_snapshot(o.xid, s.from_snapshot) OR s.to_snapshot IS NOT NULL AND \
             pg_visible_in_snapshot(o.xid, s.to_snapshot) AND o.position <= s.position \
             FROM {outbox} AS o JOIN {progress} AS s \
             ON s.grp = (hashtext(coalesce(o.key, o.position::text)) & 2147483647) % 32 % s.groups \
             WHERE o.position = {id}"
        );
        self.database
            .text(&format!("SELECT ({sql})::text"))
            .await
            .as_deref()
            == Some("true")
    }

    async fn state(&self, id: &RecordId) -> State {
        if self.value(id, "1").await.is_none() {
            return State::Gone;
        }
        let max = self.max_attempts.load(Atomic::Relaxed);
        let is_dead = match &self.layout.state {
            LayoutState::Timestamp { published_at } => {
                let attempts = self.layout.columns.attempts.as_ref().unwrap().quoted();
                format!("{} IS NULL AND {attempts} >= {max}", published_at.quoted())
            }
            LayoutState::Status { column, dead, .. } => format!("{} = '{dead}'", column.quoted()),
            LayoutState::Flag {
                published,
                dead_is_flagged: true,
                ..
            } => {
                format!("{} AND error_message IS NOT NULL", published.quoted())
            }
            _ => format!(
                "{}",
                self.trouble(id, "CASE WHEN dead THEN 'true' END")
                    .await
                    .as_deref()
                    == Some("true")
            ),
        };
        let is_published = match &self.layout.state {
            LayoutState::Timestamp { published_at } => {
                format!("{} IS NOT NULL", published_at.quoted())
            }
            LayoutState::Status {
                column, published, ..
            } => format!("{} = '{published}'", column.quoted()),
            LayoutState::Flag { published, .. } => format!("{} IS TRUE", published.quoted()),
            LayoutState::Append { .. } if self.trouble(id, "1").await.is_some() => "false".into(),
            LayoutState::Append { .. } => self.was_read(id).await.to_string(),
            LayoutState::Delete => "false".into(),
        };
        let is = async |what: &str| {
            let yes = format!("CASE WHEN {what} THEN 'yes' END");
            self.value(id, &yes).await.is_some()
        };
        match (is(&is_dead).await, is(&is_published).await) {
            (true, _) => State::Dead,
            (_, true) => State::Published,
            _ => State::Pending,
        }
    }
}

#[async_trait]
impl<B: Backend> StoreWorld for World<B> {
    fn relay(&self, settings: Settings) -> Arc<dyn ManagedStore> {
        self.max_attempts
            .store(settings.max_attempts, Atomic::Relaxed);
        let options = Options {
            max_attempts: settings.max_attempts,
            on_dead: settings.on_dead,
            lease: settings.lease,
            ..Options::new(self.layout.clone())
        };
        self.database.relay(&self.relay_url, options)
    }

    async fn insert_like(
        &self,
        event_type: &str,
        topic: &str,
        key: Option<&str>,
        number: u32,
    ) -> RecordId {
        let mut event = self.event(key, number);
        event.event_type = event_type.into();
        event.topic = event.topic.map(|_| topic.into());
        self.emit(event).await
    }

    async fn refuse_changes(&self) {
        let mut tables = vec![self.layout.table.quoted()];
        if self.layout.needs_troubles() {
            tables.push("postrider_troubles".into());
        }
        if let LayoutState::Append { .. } = self.layout.state {
            tables.push(self.beside("_troubles"));
        }
        for table in tables {
            self.database.refuse_changes(&table).await;
        }
    }

    async fn drop_audit(&self) {
        self.database.execute("DROP TABLE postrider_audit").await;
    }

    async fn look(&self, id: &RecordId) -> Seen {
        let columns = &self.layout.columns;
        let attempts = match &columns.attempts {
            Some(attempts) => self.value(id, &attempts.quoted()).await,
            None => self.trouble(id, "attempts").await,
        };
        let error = match &columns.last_error {
            Some(error) => self.value(id, &error.quoted()).await,
            None => self.trouble(id, "last_error").await,
        };
        Seen {
            state: self.state(id).await,
            attempts: attempts.map_or(0, |attempts| attempts.parse().unwrap()),
            error,
        }
    }

    async fn age(&self, id: &RecordId, ago: Duration) {
        let column = self
            .layout
            .published_at()
            .unwrap_or(&self.layout.columns.created_at)
            .quoted();
        let (table, key) = (self.layout.table.quoted(), self.layout.columns.id.quoted());
        let set = format!("{column} = {}", self.database.ago(ago));
        self.database
            .execute(&format!(
                "UPDATE {table} SET {set} WHERE CAST({key} AS text) = '{id}' AND {column} IS NOT NULL"
            ))
            .await;
    }

    fn keeps_published(&self) -> bool {
        !matches!(self.layout.state, LayoutState::Delete)
    }

    fn purges_single_records(&self) -> bool {
        !matches!(self.layout.state, LayoutState::Append { .. })
    }

    fn frees_dropped_claims(&self) -> bool {
        !matches!(self.layout.state, LayoutState::Status { .. })
    }
}

/// The same id for the same word.
fn uuid(word: &str) -> Uuid {
    let number = word
        .bytes()
        .fold(7_u128, |number, byte| number * 257 + u128::from(byte));
    Uuid::from_u128(number)
}

/// PackFinderz' own example of an event.
pub(crate) fn license_changed(store: Uuid) -> Event {
    let payload = serde_json::json!({ "licenseId": "l1", "storeId": store, "status": "pending" });
    Event::json("license_status_changed", &payload)
        .unwrap()
        .aggregate("license", store.to_string())
}
