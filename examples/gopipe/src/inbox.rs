//! Task 2, the idempotent consumer, with its part of task 1: the table is created when somebody says so.

use postrider::consumer::middleware::Inbox;
use postrider::core::StoreError;
use postrider::core::layout::TableName;
use postrider::stores::postgres::{self, InboxLayout, PgInbox, PgPool};

/// Whose inbox, and where.
#[derive(Debug, Clone)]
pub struct InboxConfig {
    /// Default `processed_messages`.
    pub table: TableName,
    /// Identifies this consumer: each one handles a message once.
    pub subscriber: String,
}

impl InboxConfig {
    pub fn new(subscriber: impl Into<String>) -> Self {
        Self {
            table: InboxLayout::gopipe().table,
            subscriber: subscriber.into(),
        }
    }

    pub fn middleware(&self) -> Inbox<PgInbox> {
        Inbox::new(self.inbox()).subscriber(&self.subscriber)
    }

    pub fn inbox(&self) -> PgInbox {
        PgInbox::new(self.layout())
    }

    fn layout(&self) -> InboxLayout {
        InboxLayout {
            table: self.table.clone(),
            ..InboxLayout::gopipe()
        }
    }
}

/// What [`init_inbox`] runs, for those who manage schemas with a tool of their own.
pub fn inbox_schema(config: &InboxConfig) -> Vec<String> {
    postgres::inbox::ddl(&config.layout())
}

/// Creates the table where it is missing. May run any number of times, in any number of processes at once.
pub async fn init_inbox(pool: &PgPool, config: &InboxConfig) -> Result<(), StoreError> {
    postgres::inbox::init(pool, &config.layout()).await
}
