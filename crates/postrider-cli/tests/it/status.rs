use crate::binary::Project;
use crate::outbox::TestOutbox;

#[tokio::test]
async fn status_is_read_from_the_table_with_no_relay_running() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    let empty = project
        .run(&["status", "--max-age", "0s", "--max-dead", "0", "--json"])
        .ok()
        .json();
    assert_eq!(empty["outboxes"][0]["pending"], 0);
    assert!(empty["outboxes"][0]["oldest_age_seconds"].is_null());

    outbox.emit("order.placed", "7").await;
    outbox.emit("order.placed", "8").await;
    let waiting = project.run(&["status", "--json"]).ok().json();
    assert_eq!(waiting["ok"], true);
    assert_eq!(waiting["outboxes"][0]["outbox"], "orders");
    assert_eq!(waiting["outboxes"][0]["pending"], 2);
    assert_eq!(waiting["outboxes"][0]["dead"], 0);
    assert!(
        waiting["outboxes"][0]["oldest_age_seconds"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    project
        .run(&["status"])
        .ok()
        .prints("OUTBOX  PENDING")
        .prints("orders  2");
}

#[tokio::test]
async fn limits_set_the_exit_code() {
    let outbox = TestOutbox::create("packfinderz").await;
    let project = outbox.project("max_attempts = 3");
    let insert = "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, \
                  created_at, attempt_count) SELECT gen_random_uuid(), \
                  (enum_range(NULL::event_type_enum))[1], (enum_range(NULL::aggregate_type_enum))[1], \
                  gen_random_uuid(), '{}', now() - interval '1 hour', attempts FROM unnest(array[0, 3]) attempts";
    sqlx::query(insert).execute(outbox.pool()).await.unwrap();
    project
        .run(&["status", "--max-age", "2h", "--max-dead", "1"])
        .ok();
    let old = project.run(&["status", "--max-age", "10m"]).exits(1);
    old.says("orders: the oldest waiting event is 1h")
        .says("more than 10m")
        .prints("orders  1");
    project
        .run(&["status", "--max-dead", "0"])
        .exits(1)
        .says("1 records are dead, more than 0");
    let json = project
        .run(&["status", "--max-dead", "0", "--json"])
        .exits(1)
        .json();
    assert_eq!(json["ok"], false);
    assert_eq!(json["outboxes"][0]["dead"], 1);
}

#[tokio::test]
async fn one_database_that_is_away_does_not_hide_the_others() {
    let outbox = TestOutbox::create("polyshop").await;
    let away = "[[outbox]]\nname = \"away\"\ndatabase = \"postgres://u:hunter2@127.0.0.1:1/x\"\n\
                layout = \"polyshop\"\nbroker = \"main\"";
    let project = Project::new(&(outbox.config("") + away));
    let ran = project
        .run(&["status"])
        .exits(1)
        .prints("orders  0")
        .prints("away    ?")
        .says("away: ");
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    project.run(&["status", "--outbox", "orders"]).ok();
}

#[tokio::test]
async fn what_cannot_be_counted_is_said_with_what_to_do() {
    let outbox = TestOutbox::empty("polyshop").await;
    let project = outbox.project("");
    let ran = project.run(&["status"]).exits(1);
    ran.says("orders: table outbox_events does not exist")
        .says("`postrider init`");
    let json = project.run(&["status", "--json"]).exits(1).json();
    assert!(json["outboxes"][0]["pending"].is_null() && json["outboxes"][0]["parked"].is_null());
    project
        .run(&["dead", "list"])
        .exits(1)
        .says("`postrider init`");

    project.run(&["init"]).ok();
    let role = format!("{}_blind", outbox.database.schema);
    let grant = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {} TO {role}",
        outbox.database.schema
    );
    outbox.database.execute(&grant).await;
    let mut url: url::Url = outbox.url().parse().unwrap();
    url.set_username(&role).unwrap();
    let blind = Project::new(&outbox.config("").replace(outbox.url(), url.as_str()));
    let ran = blind.run(&["status"]).exits(1);
    ran.says("lacks SELECT").says("GRANT");
    let end = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    outbox.database.execute(&end).await;
}

#[tokio::test]
async fn keys_that_are_held_up_are_counted() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("[[outbox.route]]\nevent_type = \"order.placed\"\n");
    outbox.emit("order.lost", "7").await;
    outbox.emit("order.placed", "7").await;
    let relay = project.relay().await;
    postrider_testkit::eventually("a parked key with one record behind it", async || {
        let status = project.run(&["status", "--json"]).ok().json();
        // The two are counted one after the other, and the relay may come between.
        let counts = [
            &status["outboxes"][0]["parked"],
            &status["outboxes"][0]["pending"],
        ];
        if counts.iter().all(|count| **count == 1) {
            return Ok(());
        }
        Err(status)
    })
    .await;
    drop(relay);
    let ran = project.run(&["status"]).ok();
    ran.prints("PARKED")
        .says("postrider dead list --outbox orders");
}
