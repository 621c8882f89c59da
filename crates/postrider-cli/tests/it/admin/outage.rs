//! A database that is away, slow or not made ready.

use postrider::core::Layout;
use postrider::stores::postgres::{self, InitOptions};
use postrider_testkit::services::{Kind, PrivateServer};

use super::*;

const PATHS: [&str; 5] = [
    "/api/outboxes/orders/records",
    "/api/outboxes/orders/records/count",
    "/api/outboxes/orders/records/00000000-0000-0000-0000-000000000000",
    "/api/outboxes/orders/parked",
    "/api/outboxes/orders/audit",
];

#[tokio::test]
async fn a_database_that_is_down_gives_503_and_recovers() {
    let mut server = PrivateServer::start(Kind::Postgres).await;
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let layout = Layout::preset("polyshop").unwrap();
    let pool = postgres::connect(&url, 1).unwrap();
    let options = InitOptions {
        claim_index: true,
        notify: false,
    };
    postgres::init(&pool, &layout, &options).await.unwrap();
    drop(pool);
    let project = Project::new(&format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[broker.main]\nkind = \"memory\"\n\
         [[outbox]]\nname = \"orders\"\ndatabase = \"{url}\"\nlayout = \"polyshop\"\nbroker = \"main\""
    ));
    let api = Api::start(&project).await;
    api.relay.becomes(200).await;
    assert_eq!(api.count("").await, 0);

    server.kill();
    let everything = json!({ "filter": {}, "expect": 0 });
    for path in PATHS {
        let (status, body) = api.get(path).await;
        assert_eq!(status, 503, "{path}: {body}");
        assert!(body["error"].is_string(), "{body}");
    }
    let (status, body) = api.post("dead/discard", &everything).await;
    assert_eq!(status, 503, "{body}");
    // The overview still answers, and says what is wrong.
    api.relay.becomes(503).await;
    let overview = api.overview().await;
    assert_eq!(overview["database"]["ready"], false);
    assert!(overview["counted_at"].is_string() || overview["pending"].is_null());
    let found = api.ask("diagnosis").await;
    assert_eq!(found["findings"][0]["subject"], "database", "{found}");

    server.restart().await;
    eventually("the API answers again", async || {
        match api.get(PATHS[0]).await {
            (200, _) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let (status, body) = api.post("dead/discard", &everything).await;
    assert_eq!((status, body), (200, json!({ "changed": 0 })));
}

/// Questions wait for a slow database within bounds, and the relay has connections left meanwhile.
#[tokio::test]
async fn a_table_that_is_locked_holds_up_neither_the_address_nor_the_count() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    let api = Api::start(&project).await;
    api.relay.becomes(200).await;
    let mut locked = outbox.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *locked)
        .await
        .unwrap();
    let began = std::time::Instant::now();
    let asked = (0..8).map(|_| api.get(PATHS[1]));
    let asked = futures::future::join_all(asked);
    let looked = async {
        // Each may start a count; there is never more than one.
        for _ in 0..3 {
            let (status, _) = api.get("/api/overview").await;
            assert_eq!(status, 200);
            assert_eq!(api.get("/livez").await.0, 200);
        }
        let waiting = "pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted \
                       AND l.relation = 'outbox_events'::regclass AND a.query ILIKE '%count(%'";
        outbox.database.count(waiting).await
    };
    let (answers, counting) = tokio::join!(asked, looked);
    // Two questions of the API, and the relay's own sample.
    assert!((1..=3).contains(&counting), "{counting}");
    for (status, body) in answers {
        assert_eq!(status, 503, "{body}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(25),
        "{:?}",
        began.elapsed()
    );
    locked.rollback().await.unwrap();
    api.counts("", 0).await;
}

#[tokio::test]
async fn without_the_audit_table_nothing_is_changed_and_the_remedy_is_named() {
    let (outbox, project) = five_dead().await;
    outbox.database.execute("DROP TABLE postrider_audit").await;
    let api = Api::start(&project).await;
    let id = api.ids("key=8").await.remove(0);
    for verb in ["dead/resend", "dead/discard"] {
        let (status, body) = api.post(verb, &json!({ "filter": {}, "expect": 5 })).await;
        assert_eq!(status, 500, "{body}");
        assert!(
            body["error"].as_str().unwrap().contains("postrider init"),
            "{body}"
        );
    }
    // A payload that cannot be written down is not shown.
    let (status, body) = api
        .get(&format!("/api/outboxes/orders/records/{id}/payload"))
        .await;
    assert_eq!(status, 500, "{body}");
    assert!(!body.to_string().contains("orderId"));
    assert_eq!(api.count("state=dead").await, 5);
    // What can be known without it is told.
    let found = api.ask(&format!("records/{id}")).await;
    assert_eq!(found["history"].as_array().unwrap().len(), 2);
}
