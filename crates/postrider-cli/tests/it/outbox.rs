//! An outbox of one's own for a test, with a config that names it.

use postrider::core::{Event, EventId, Layout};
use postrider::stores::postgres::{self, InitOptions, Outbox, PgPool};
use postrider_testkit::services::services;

use crate::binary::Project;

pub(crate) struct TestOutbox {
    pub(crate) layout: Layout,
    pub(crate) url: String,
    pub(crate) pool: PgPool,
}

impl TestOutbox {
    /// A schema of its own with nothing in it.
    pub(crate) async fn empty(layout: &str) -> Self {
        let schema = format!("cli_{}", uuid::Uuid::now_v7().simple());
        let url = &services().postgres_url;
        let create = format!("CREATE SCHEMA {schema}");
        let shared = postgres::connect(url, 1).unwrap();
        sqlx::query(sqlx::AssertSqlSafe(create))
            .execute(&shared)
            .await
            .unwrap();
        let mark = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{mark}options=-csearch_path%3D{schema}");
        let pool = postgres::connect(&url, 2).unwrap();
        Self {
            layout: Layout::preset(layout).unwrap(),
            url,
            pool,
        }
    }

    /// With the layout's table and its index.
    pub(crate) async fn create(layout: &str) -> Self {
        let outbox = Self::empty(layout).await;
        let options = InitOptions {
            claim_index: true,
            notify: false,
        };
        postgres::init(&outbox.pool, &outbox.layout, &options)
            .await
            .unwrap();
        outbox
    }

    /// A config with this outbox as `orders`, a memory broker, and `lines` for the outbox.
    pub(crate) fn config(&self, lines: &str) -> String {
        self.config_with("kind = \"memory\"", lines)
    }

    pub(crate) fn config_with(&self, broker: &str, lines: &str) -> String {
        let Self { layout, url, .. } = self;
        format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n\n[broker.main]\n{broker}\n\n[[outbox]]\nname = \"orders\"\n\
             database = \"{url}\"\nlayout = \"{}\"\nbroker = \"main\"\n{lines}\n",
            layout.name
        )
    }

    pub(crate) fn project(&self, lines: &str) -> Project {
        Project::new(&self.config(lines))
    }

    /// Commits one event of `event_type` for the aggregate `key`.
    pub(crate) async fn emit(&self, event_type: &str, key: &str) -> EventId {
        let event = Event::json(event_type, &serde_json::json!({ "orderId": key }))
            .unwrap()
            .aggregate_id(key);
        let id = event.id.clone();
        let mut tx = self.pool.begin().await.unwrap();
        Outbox::new(self.layout.clone())
            .emit(&mut tx, event)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        id
    }

    pub(crate) async fn count(&self, condition: &str) -> i64 {
        let query = format!("SELECT count(*) FROM outbox_events WHERE {condition}");
        sqlx::query_scalar(sqlx::AssertSqlSafe(query))
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }
}
