use crate::outbox::TestOutbox;

/// A0-13, by hand.
#[tokio::test]
async fn only_what_was_published_long_enough_ago_is_deleted() {
    let outbox = TestOutbox::create("polyshop").await;
    let insert = "INSERT INTO outbox_events (id, event_type, aggregate_id, version, payload, created_at, \
                  processed, processed_at) \
                  SELECT gen_random_uuid(), 'order.placed', 'a', 1, '{}', now() - interval '60 days', \
                  at IS NOT NULL, at FROM unnest(array[now() - interval '31 days', now() - interval '29 days', \
                  NULL]::timestamptz[]) at";
    sqlx::query(insert).execute(outbox.pool()).await.unwrap();
    let project = outbox.project("[outbox.cleanup]\nkeep = \"30d\"\nbatch = 1");
    project.run(&["cleanup", "--once"]).ok().prints("orders  1");
    assert_eq!(outbox.database.count("outbox_events").await, 2);
    assert_eq!(
        outbox
            .database
            .count("outbox_events WHERE processed_at < now() - interval '30 days'")
            .await,
        0
    );
    let again = project.run(&["cleanup", "--once", "--json"]).ok().json();
    assert_eq!(again[0]["deleted"], 0);
}

#[tokio::test]
async fn an_outbox_that_keeps_everything_is_left_alone() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    project
        .run(&["cleanup", "--once"])
        .ok()
        .says("nothing is deleted");
    project
        .run(&["cleanup", "--once", "--outbox", "orders"])
        .exits(2)
        .says("[outbox.cleanup]");
}
