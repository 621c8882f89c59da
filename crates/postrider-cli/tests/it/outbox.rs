//! An outbox of one's own for a test, with a config that names it.

use postrider::core::{Event, EventId, Layout};
use postrider::stores::postgres::{self, InitOptions, Outbox, PgPool};
use postrider_testkit::database::{Database, fresh_schema};

use crate::binary::Project;

pub(crate) struct TestOutbox {
    pub(crate) layout: Layout,
    pub(crate) database: Database,
}

impl TestOutbox {
    /// A schema of its own with nothing in it.
    pub(crate) async fn empty(layout: &str) -> Self {
        let layout = Layout::preset(layout).unwrap();
        Self {
            layout,
            database: fresh_schema().await,
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.database.pool
    }

    pub(crate) fn url(&self) -> &str {
        &self.database.url
    }

    /// With the layout's table and its index.
    pub(crate) async fn create(layout: &str) -> Self {
        let outbox = Self::empty(layout).await;
        let options = InitOptions {
            claim_index: true,
            notify: false,
        };
        postgres::init(outbox.pool(), &outbox.layout, &options)
            .await
            .unwrap();
        outbox
    }

    /// A config with this outbox as `orders`, a memory broker, and `lines` for the outbox.
    pub(crate) fn config(&self, lines: &str) -> String {
        self.config_with("kind = \"memory\"", lines)
    }

    pub(crate) fn config_with(&self, broker: &str, lines: &str) -> String {
        let (layout, url) = (&self.layout, self.url());
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
        let mut tx = self.pool().begin().await.unwrap();
        Outbox::new(self.layout.clone())
            .emit(&mut tx, event)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        id
    }
}
