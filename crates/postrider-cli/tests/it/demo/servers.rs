//! The same on real servers.

use postrider_testkit::eventually;
use postrider_testkit::kafka::{Kafka, fresh_topic_name};
use postrider_testkit::services::services;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};

use super::process::Place;
use super::settled;
use super::tables::Tables;

async fn execute(sql: &str) {
    let mut connection = PgConnection::connect(&services().postgres_url)
        .await
        .unwrap();
    let done = sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The demo's schema has one name, so each test has a database of its own.
async fn fresh_database() -> (String, String) {
    let name = format!("demo_{}", uuid::Uuid::now_v7().simple());
    execute(&format!("CREATE DATABASE {name}")).await;
    let mut url = url::Url::parse(&services().postgres_url).unwrap();
    url.set_path(&name);
    (name, url.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_runs_on_postgres_and_kafka() {
    let (place, (database, url), topic) =
        (Place::new(), fresh_database().await, fresh_topic_name());
    let args = [
        "--postgres",
        &url,
        "--kafka",
        &services().kafka,
        "--topic",
        &topic,
        "--rate",
        "20",
    ];
    let demo = place.start(&args).await;
    assert!(
        demo.text().contains("Schema postrider_demo was created"),
        "{}",
        demo.text()
    );
    let letters = format!("{topic}.dlt");
    assert!(
        demo.text()
            .contains(&format!("were created ({topic}, {letters})"))
    );

    let pool = PgPool::connect(&format!("{url}?options=-csearch_path%3Dpostrider_demo"))
        .await
        .unwrap();
    let tables = Tables::Server(pool);
    let placed = demo.answer("\"tea\",\"quantity\":2");
    let event_id = placed["event_id"].as_str().unwrap();
    let read = format!("/demo/topics/{topic}?last=100");
    eventually("the event is read from Kafka", async || {
        let shown = demo.get(&read).await;
        let messages = shown["messages"].as_array().unwrap();
        let mine = messages
            .iter()
            .any(|message| message["headers"]["event_id"] == event_id);
        mine.then_some(()).ok_or(shown.clone())
    })
    .await;
    eventually("a record is dead", async || {
        let list = demo.does(" dead list ");
        list.contains("nora").then_some(()).ok_or(list)
    })
    .await;
    demo.kill().await;

    // It stays, and the next start goes on with it.
    let args = [&args[..6], &["--rate", "0"]].concat();
    let demo = place.start(&args).await;
    assert!(
        demo.text().contains("was there, and the demo goes on"),
        "{}",
        demo.text()
    );
    settled(&demo, &tables).await;
    demo.stop().await;
    let published = tables.count("orders WHERE quantity > 0").await;
    let held = Kafka::shared().records(&topic).await.len() as i64;
    assert!(held >= published, "{held} of {published}");
    drop(tables);
    execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_is_enough() {
    let (place, (database, url), topic) =
        (Place::new(), fresh_database().await, fresh_topic_name());
    let kafka = &services().kafka;
    for args in [["--postgres", &url], ["--kafka", kafka]] {
        let demo = place
            .start(&[&args[..], &["--topic", &topic, "--rate", "0"]].concat())
            .await;
        let placed = demo.answer("\"tea\",\"quantity\":2");
        eventually("the event is on its topic", async || {
            let shown = demo.get(&format!("/demo/topics/{topic}")).await;
            let found = shown["messages"][0]["headers"]["event_id"] == placed["event_id"];
            found.then_some(()).ok_or(shown)
        })
        .await;
        demo.stop().await;
        assert!(place.files().is_empty(), "{:?}", place.files());
    }
    execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await;
}
