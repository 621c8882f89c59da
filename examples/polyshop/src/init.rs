//! What has to be there before the services run: a schema with tables for each, and the topics.

use anyhow::{Context as _, bail};
use postrider::core::Layout;
use postrider::stores::postgres::{self, InboxLayout, InitOptions, PgPool};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;
use sqlx::AssertSqlSafe;

use crate::events::EVENTS;
use crate::settings::Settings;
use crate::{
    ANALYTICS_SERVICE, AUTH_SERVICE, INVENTORY_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE,
    PAYMENT_SERVICE, PRODUCT_SERVICE, SEARCH_SERVICE,
};

const PARTITIONS: i32 = 3;
const DEAD_LETTERS: &str = ".dlt";
/// 30 days: somebody has to look at them, and may be on holiday.
const DEAD_LETTERS_KEPT_MS: &str = "2592000000";

/// A service's tables.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    pub service: &'static str,
    domain: &'static str,
    pub outbox: bool,
    processed_events: bool,
}

/// The services and the roles they have: producer, consumer or both. Those of auth and product only produce.
pub const SERVICES: [Tables; 8] = [
    Tables::of(
        AUTH_SERVICE,
        include_str!("../sql/auth-service.sql"),
        true,
        false,
    ),
    Tables::of(
        PRODUCT_SERVICE,
        include_str!("../sql/product-service.sql"),
        true,
        false,
    ),
    Tables::of(
        INVENTORY_SERVICE,
        include_str!("../sql/inventory-service.sql"),
        true,
        true,
    ),
    Tables::of(
        ORDER_SERVICE,
        include_str!("../sql/order-service.sql"),
        true,
        true,
    ),
    Tables::of(
        PAYMENT_SERVICE,
        include_str!("../sql/payment-service.sql"),
        true,
        true,
    ),
    Tables::of(
        NOTIFICATION_SERVICE,
        include_str!("../sql/notification-service.sql"),
        true,
        true,
    ),
    Tables::of(
        SEARCH_SERVICE,
        include_str!("../sql/search-service.sql"),
        false,
        true,
    ),
    Tables::of(
        ANALYTICS_SERVICE,
        include_str!("../sql/analytics-service.sql"),
        false,
        true,
    ),
];

impl Tables {
    const fn of(
        service: &'static str,
        domain: &'static str,
        outbox: bool,
        processed_events: bool,
    ) -> Self {
        Self {
            service,
            domain,
            outbox,
            processed_events,
        }
    }

    /// The schema that the service's tables are in.
    pub fn schema(&self) -> String {
        self.service.replace('-', "_")
    }

    /// Creates what is missing, in the schema that is first on the search path.
    pub async fn create(&self, pool: &PgPool) -> anyhow::Result<()> {
        sqlx::raw_sql(self.domain).execute(pool).await?;
        if self.outbox {
            let options = InitOptions {
                claim_index: true,
                notify: false,
            };
            postgres::init(pool, &Layout::preset("polyshop")?, &options).await?;
        }
        if self.processed_events {
            postgres::inbox::init(pool, &InboxLayout::polyshop()).await?;
            postgres::parked::init(pool).await?;
        }
        Ok(())
    }
}

/// Prepares the database and the cluster; may be run again.
pub async fn init(settings: &Settings) -> anyhow::Result<()> {
    let pool = postgres::connect(&settings.database_url, 1)?;
    for tables in SERVICES {
        let schema = tables.schema();
        let create = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&pool).await?;
        let own = postgres::connect(&within(&settings.database_url, &schema), 1)?;
        let created = tables.create(&own).await;
        created.with_context(|| format!("tables of {}", tables.service))?;
    }
    create_topics(settings).await
}

/// The database's URL with a schema first on the search path.
pub fn within(database_url: &str, schema: &str) -> String {
    let joint = if database_url.contains('?') { '&' } else { '?' };
    format!("{database_url}{joint}options=-csearch_path%3D{schema}")
}

/// The topics of the events, and beside each its dead-letter topic.
pub async fn create_topics(settings: &Settings) -> anyhow::Result<()> {
    let names = EVENTS.map(|(event_type, _)| settings.topic(event_type));
    let names: Vec<String> = names
        .into_iter()
        .flat_map(|name| [format!("{name}{DEAD_LETTERS}"), name])
        .collect();
    let topics = names.iter().map(|name| {
        let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1));
        match name.ends_with(DEAD_LETTERS) {
            true => topic.set("retention.ms", DEAD_LETTERS_KEPT_MS),
            false => topic,
        }
    });
    let topics: Vec<NewTopic<'_>> = topics.collect();
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", &settings.kafka)
        .create()?;
    for result in admin.create_topics(&topics, &AdminOptions::new()).await? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, code)) => bail!("topic {name} was not created: {code}"),
        }
    }
    Ok(())
}
