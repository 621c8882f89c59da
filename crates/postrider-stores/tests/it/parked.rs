//! Parked keys in their table.

use futures::future::join_all;
use postrider_core::{ParkedKeys as _, Timestamp};
use postrider_stores::postgres::parked::{PgParkedKeys, ddl, init};
use postrider_testkit::database::{Database, fresh_schema};

async fn parked() -> (Database, PgParkedKeys) {
    let database = fresh_schema().await;
    init(&database.pool).await.unwrap();
    let keys = PgParkedKeys::new(database.pool.clone());
    (database, keys)
}

#[tokio::test]
async fn a_parked_key_is_parked_for_its_consumer_and_topic_until_it_is_freed() {
    let (_database, keys) = parked().await;
    let key = b"k\0\xff";
    assert!(!keys.is_parked("c", "t", key).await.unwrap());
    keys.park("c", "t", key, "why").await.unwrap();
    assert!(keys.is_parked("c", "t", key).await.unwrap());
    for (consumer, topic, key) in [("d", "t", &key[..]), ("c", "u", key), ("c", "t", b"k")] {
        assert!(!keys.is_parked(consumer, topic, key).await.unwrap());
        assert!(!keys.free(consumer, topic, key).await.unwrap());
    }
    assert!(keys.free("c", "t", key).await.unwrap());
    assert!(!keys.is_parked("c", "t", key).await.unwrap());
    assert!(!keys.free("c", "t", key).await.unwrap());
}

#[tokio::test]
async fn parking_again_keeps_the_first_reason_and_lists_are_bounded_oldest_first() {
    let (_database, keys) = parked().await;
    let long = "x\0".repeat(10_000);
    for (key, reason) in [
        ("a", "first"),
        ("b", &*long),
        ("a", "second"),
        ("c", "third"),
    ] {
        keys.park("c", "t", key.as_bytes(), reason).await.unwrap();
    }
    keys.park("other", "t", b"a", "theirs").await.unwrap();
    let list = keys.list("c", 2).await.unwrap();
    let names: Vec<&[u8]> = list.iter().map(|parked| &*parked.key).collect();
    assert_eq!(names, [b"a", b"b"]);
    assert_eq!((&*list[0].topic, &*list[0].reason), ("t", "first"));
    assert!(list[1].reason.len() <= 1024);
    let age = Timestamp::now().as_micros() - list[0].parked_at.as_micros();
    assert!((0..60_000_000).contains(&age.abs()), "{age}");
    assert_eq!(keys.list("c", 10).await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_that_create_the_table_at_once_all_succeed() {
    let database = fresh_schema().await;
    for result in join_all((0..16).map(|_| init(&database.pool))).await {
        result.unwrap();
    }
    for statement in ddl() {
        database.execute(&statement).await;
    }
    assert_eq!(database.count("postrider_parked_keys").await, 0);
}
