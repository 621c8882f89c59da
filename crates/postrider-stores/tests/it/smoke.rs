use postrider_core::*;
use postrider_stores::postgres::*;
use postrider_testkit::database::fresh_schema;

#[tokio::test]
async fn smoke() {
    for name in ["packfinderz", "talkie", "polyshop", "gopipe", "debezium"] {
        for ordering in ["none", "key"] {
            if name == "gopipe" && ordering == "key" {
                continue;
            }
            let db = fresh_schema().await;
            let layout = Layout::with_overrides(
                name,
                format!("ordering = \"{ordering}\"").parse().unwrap(),
            )
            .unwrap();
            for s in ddl(&layout, &InitOptions { claim_index: true, notify: true }) {
                println!("{s};");
            }
            init(&db.pool, &layout, &InitOptions { claim_index: true, notify: true }).await.unwrap();
            init(&db.pool, &layout, &InitOptions { claim_index: true, notify: true }).await.unwrap();
            let outbox = Outbox::new(layout.clone());
            let mut tx = db.pool.begin().await.unwrap();
            let id = uuid::Uuid::now_v7().to_string();
            let events: Vec<Event> = (0..10)
                .map(|n| {
                    let e = Event::raw("order_created", format!("{{\"n\":{n}}}"));
                    match name {
                        "packfinderz" | "debezium" => e.aggregate("vendor_order", id.clone()),
                        "polyshop" => e.aggregate_id(id.clone()),
                        "talkie" => e.topic("t").key("k"),
                        _ => e.topic("t"),
                    }
                })
                .collect();
            let done = outbox.emit_all(&mut tx, &events).await.unwrap();
            assert!(done.iter().all(|e| *e == Emitted::Recorded));
            let done = outbox.emit(&mut tx, events[0].clone()).await.unwrap();
            println!("{done:?}");
            tx.commit().await.unwrap();
            let store = PostgresStore::new(db.pool.clone(), Options::new(layout));
            println!("{:?}", store.check().await.unwrap());
            println!("{:?}", store.backlog().await.unwrap());
            let claim = store.claim(Want { limit: 5, share: Share::ALL }).await.unwrap().unwrap();
            println!("{:?}", claim.records()[0]);
            assert_eq!(claim.records().len(), 5);
            claim.settle(&vec![Fate::Published; 5]).await.unwrap();
            println!("{:?}", store.backlog().await.unwrap());
        }
    }
}
