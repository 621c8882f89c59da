//! The backlog: a fresh table of a preset, filled with records of many keys, and a fresh topic.

use anyhow::Context as _;
use postrider::core::layout::TableName;
use postrider::core::{Layout, Ordering};
use postrider::stores::postgres::{self, InitOptions, PgPool};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

use crate::DrainArgs;

/// A way to drain: which layout, how much per claim, how many claims at a time.
#[derive(Clone, Copy)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    pub(crate) layout: &'static str,
    pub(crate) batch: u32,
    pub(crate) claims: u32,
    /// Small batches are slow; a part of the backlog is enough for their rate.
    pub(crate) part: u32,
    pub(crate) measures_limits: bool,
}

/// Small batches, one claim at a time: what the large modes are compared with.
const SMALL: (u32, u32) = (50, 1);

/// A stream's own batch, and as many claims as it has groups of lanes.
const STREAM: (u32, u32) = (3000, 2);

pub(crate) fn modes(args: &DrainArgs) -> [Mode; 7] {
    let large = (args.batch, args.claims);
    [
        Mode::new("hold", "polyshop", large, 1),
        Mode::new("stream", "native", STREAM, 1),
        Mode::new("hold, small", "polyshop", SMALL, 10),
        // Its three locked indexes make every settled record six index entries.
        Mode::new("hold, indexes", "packfinderz", large, 1),
        Mode::new("hold, indexes, small", "packfinderz", SMALL, 10),
        Mode::new("lease", "talkie", large, 1),
        Mode::new("lease, small", "talkie", SMALL, 10),
    ]
}

impl Mode {
    fn new(
        name: &'static str,
        layout: &'static str,
        (batch, claims): (u32, u32),
        part: u32,
    ) -> Self {
        Self {
            name,
            layout,
            batch,
            claims,
            part,
            measures_limits: name == "hold",
        }
    }
}

const KEYS: u32 = 10_000;
const PARTITIONS: i32 = 4;

/// A prepared backlog.
pub(crate) struct Work {
    pub(crate) pool: PgPool,
    pub(crate) layout: Layout,
    pub(crate) topic: String,
    pub(crate) records: u32,
}

impl Work {
    pub(crate) async fn drop_table(&self) -> anyhow::Result<()> {
        execute(
            &self.pool,
            &format!("DROP SCHEMA {} CASCADE", schema(&self.topic)),
        )
        .await
    }
}

/// The preset's layout as the bench uses it: ordered, payload as stored, one topic.
pub(crate) fn layout(preset: &str, topic: &str) -> anyhow::Result<Layout> {
    let mut layout = Layout::preset(preset)?;
    layout.ordering = Ordering::Key;
    layout.envelope = postrider::core::envelope::EnvelopeKind::None;
    layout.topic = topic.to_owned().try_into().map_err(anyhow::Error::msg)?;
    let table = format!("{}.{}", schema(topic), layout.table.name);
    layout.table = TableName::try_from(table).map_err(anyhow::Error::msg)?;
    Ok(layout)
}

pub(crate) async fn prepare(
    postgres: &str,
    kafka: &str,
    mode: Mode,
    args: &DrainArgs,
) -> anyhow::Result<Work> {
    let topic = format!("bench_{}_{}", mode.layout, suffix());
    let pool = postgres::connect(postgres, 4)?;
    let layout = layout(mode.layout, &topic)?;
    let records = args.records / mode.part;
    execute(&pool, &format!("CREATE SCHEMA {}", schema(&topic))).await?;
    postgres::init(
        &pool,
        &layout,
        &InitOptions {
            claim_index: true,
            notify: false,
        },
    )
    .await?;
    execute(&pool, &fill(&layout, records, args.bytes)).await?;
    execute(&pool, &format!("VACUUM ANALYZE {}", layout.table.quoted())).await?;
    execute(&pool, "CHECKPOINT").await?;
    create_topic(kafka, &topic).await?;
    Ok(Work {
        pool,
        layout,
        topic,
        records,
    })
}

fn fill(layout: &Layout, records: u32, bytes: u32) -> String {
    // 16 random hexadecimal digits a time, so that compression finds little.
    let filler = "substr(repeat(md5(n::text) || md5((n + 1)::text), 40), 1, {})"
        .replace("{}", &bytes.saturating_sub(60).to_string());
    let payload = format!("jsonb_build_object('n', n, 'note', {filler})");
    let key = format!("md5((n % {KEYS})::text)::uuid");
    let table = layout.table.quoted();
    // As our emit draws them: by time, then at random.
    let id =
        "(lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(n::text), 1, 19))::uuid";
    let rows = format!("FROM generate_series(1, {records}) n");
    // A stream's records draw their ids and times themselves.
    if layout.name == "native" {
        return format!(
            "INSERT INTO {table} (topic, key, type, payload) \
             SELECT 'bench', {key}::text, 'order.order.placed.v1', convert_to({payload}::text, 'UTF8') {rows}"
        );
    }
    let (columns, values) = match layout.name.as_str() {
        "talkie" => (
            "topic, key, payload_json",
            format!("'bench', {key}::text, {payload}"),
        ),
        "polyshop" => (
            "event_type, aggregate_id, payload",
            format!("'order.order.placed.v1', {key}::text, {payload}"),
        ),
        _ => (
            "event_type, aggregate_type, aggregate_id, payload_json",
            format!("'order_created', 'vendor_order', {key}, {payload}"),
        ),
    };
    format!(
        "INSERT INTO {table} (id, {columns}, created_at) SELECT {id}, {values}, clock_timestamp() {rows}"
    )
}

pub(crate) async fn create_topic(kafka: &str, topic: &str) -> anyhow::Result<()> {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", kafka)
        .create()?;
    let topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
    for result in admin.create_topics([&topic], &AdminOptions::new()).await? {
        result.map_err(|(topic, code)| anyhow::anyhow!("topic {topic}: {code}"))?;
    }
    Ok(())
}

pub(crate) async fn execute(pool: &PgPool, sql: &str) -> anyhow::Result<()> {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(pool)
        .await
        .with_context(|| sql.to_owned())?;
    Ok(())
}

/// A schema per topic, so that runs beside each other do not meet.
fn schema(topic: &str) -> String {
    topic.to_owned()
}

pub(crate) fn suffix() -> String {
    format!(
        "{:x}{:x}",
        std::process::id(),
        postrider::core::Timestamp::now().as_micros()
    )
}
