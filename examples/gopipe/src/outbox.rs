//! Task 3, outputs that are captured in the handler's transaction, with its part of task 1.

use postrider::consumer::middleware::CaptureOutbox;
use postrider::core::layout::TableName;
use postrider::core::{Layout, LayoutError, StoreError};
use postrider::stores::postgres::{self, Outbox, PgPool};

/// Which outbox, and where its events go.
#[derive(Debug, Clone)]
pub struct OutboxConfig {
    layout: Layout,
    /// For every output that does not name a topic itself.
    pub topic: String,
}

impl OutboxConfig {
    /// The table `outbox`.
    pub fn new(topic: impl Into<String>) -> Result<Self, LayoutError> {
        Ok(Self {
            layout: Layout::preset("gopipe")?,
            topic: topic.into(),
        })
    }

    #[must_use]
    pub fn table(mut self, table: TableName) -> Self {
        self.layout.table = table;
        self
    }

    pub fn middleware(&self) -> CaptureOutbox<Outbox> {
        CaptureOutbox::new(Outbox::new(self.layout.clone())).topic(&self.topic)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// What [`init_outbox`] runs, for those who manage schemas with a tool of their own.
pub fn outbox_schema(config: &OutboxConfig) -> Vec<String> {
    postgres::table_ddl(&config.layout)
}

/// Creates the table and its indexes where it is missing, and nothing else. May run any number of times, in any number of
/// processes at once.
pub async fn init_outbox(pool: &PgPool, config: &OutboxConfig) -> Result<(), StoreError> {
    postgres::init_table(pool, &config.layout).await
}
