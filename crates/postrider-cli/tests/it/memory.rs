//! R4: what a relay holds in memory follows its settings, not what its rows contain.

use postrider_testkit::eventually;
use postrider_testkit::kafka::Kafka;

use crate::binary::{Project, Relay};
use crate::outbox::TestOutbox;

/// The peak of a relay with defaults, in kibibytes.
const PEAK_MAX: u64 = 128 * 1024;

/// Rows of 10 MB, as one statement: the text is made by the database.
const POLYSHOP: &str = "INSERT INTO outbox_events (aggregate_id, event_type, payload) \
    SELECT n::text, $1, json_build_object('data', repeat('x', 10000000)) FROM generate_series(1, 100) n";
const PACKFINDERZ: &str = "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
    SELECT id, (enum_range(NULL::event_type_enum))[1], (enum_range(NULL::aggregate_type_enum))[1], gen_random_uuid(), \
    jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', '2026-11-16T12:00:00Z', \
    'data', jsonb_build_object('text', repeat('x', 10000000))) \
    FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 100)) ids WHERE $1 <> ''";

/// With the settings of the allocator that the image and the unit come with.
fn project(outbox: &TestOutbox, broker: &str, topic: &str) -> Project {
    let config = outbox.config_with(broker, &format!("topic = \"{topic}\""));
    let image = include_str!("../../../../deploy/docker/Dockerfile");
    let settings = image.lines().find(|line| line.starts_with("ENV MALLOC_"));
    let settings = settings.unwrap().split_whitespace().skip(1);
    settings.fold(Project::new(&config), |project, setting| {
        let (name, value) = setting.split_once('=').unwrap();
        project.variable(name, value)
    })
}

/// In steps, since a gigabyte takes its time.
async fn until_none(outbox: &TestOutbox, waiting: &str, relay: &Relay) {
    for left in [80, 60, 40, 20, 0] {
        eventually("most are done", async || {
            match outbox.database.count(waiting).await {
                rows if rows <= left => Ok(()),
                rows => Err((rows, relay.text())),
            }
        })
        .await;
    }
}

/// Too large for the broker: each is dead, with its size.
#[tokio::test]
async fn a_hundred_rows_that_the_broker_never_takes_need_little_memory() {
    for (layout, insert, waiting, error) in [
        (
            "polyshop",
            POLYSHOP,
            "outbox_events WHERE error_message IS NULL",
            "error_message",
        ),
        (
            "packfinderz",
            PACKFINDERZ,
            "outbox_events WHERE last_error IS NULL",
            "last_error",
        ),
    ] {
        let outbox = TestOutbox::create(layout).await;
        let kafka = Kafka::shared();
        let topic = kafka.fresh_topic(1).await;
        let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", kafka.bootstrap());
        let project = project(&outbox, &broker, &topic);
        let rows = sqlx::query(insert).bind("order.placed");
        rows.execute(outbox.pool()).await.unwrap();
        let relay = project.relay().await;
        until_none(&outbox, waiting, &relay).await;
        let peak = relay.peak_kib();
        assert!(peak < PEAK_MAX, "{layout}: {peak} KiB");
        let told =
            format!("outbox_events WHERE {error} LIKE '%message of 100%bytes%limit of 1000000%'");
        assert_eq!(outbox.database.count(&told).await, 100, "{layout}");
        assert_eq!(kafka.records(&topic).await.len(), 0, "{layout}");
    }
}

/// Where the broker takes them, they are sent.
#[tokio::test]
async fn a_hundred_rows_of_ten_megabytes_are_sent_in_little_memory() {
    for (layout, insert, waiting) in [
        ("polyshop", POLYSHOP, "outbox_events WHERE NOT processed"),
        (
            "packfinderz",
            PACKFINDERZ,
            "outbox_events WHERE published_at IS NULL",
        ),
    ] {
        let outbox = TestOutbox::create(layout).await;
        let kafka = Kafka::shared();
        let topic = postrider_testkit::kafka::fresh_topic_name();
        let large = [("max.message.bytes", "12000000")];
        kafka.create_topic(&topic, 1, &large).await;
        let broker = format!(
            "kind = \"kafka\"\nbootstrap = \"{}\"\nmessage_bytes_max = 12000000",
            kafka.bootstrap()
        );
        let project = project(&outbox, &broker, &topic);
        let rows = sqlx::query(insert).bind("order.placed");
        rows.execute(outbox.pool()).await.unwrap();
        let relay = project.relay().await;
        until_none(&outbox, waiting, &relay).await;
        let peak = relay.peak_kib();
        assert!(peak < PEAK_MAX, "{layout}: {peak} KiB");
    }
}
