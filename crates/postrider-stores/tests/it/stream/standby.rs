//! A store whose database is a standby, until it is promoted.

use postrider_core::{Diagnosis as _, Event, Layout, OutboxStore as _, Purge as _, StoreError};
use postrider_stores::postgres::{InitOptions, Options, Outbox, PostgresStore, connect, init};
use postrider_testkit::eventually;
use postrider_testkit::services::{Kind, PrivateServer};

use super::{ALL, drain, numbers};

/// Makes a server a standby that nobody sends anything. Its data is in a folder of its own where the server's user cannot
/// reach this one.
async fn becomes_standby(server: &mut PrivateServer) {
    server.kill();
    let elsewhere = server.dir().join("elsewhere");
    let home = std::fs::read_link(elsewhere).unwrap_or_else(|_| server.dir().to_owned());
    std::fs::write(home.join("data/standby.signal"), "").unwrap();
    server.restart().await;
}

#[tokio::test]
async fn a_standby_is_waited_for_until_it_is_promoted() {
    let mut server = PrivateServer::start(Kind::Postgres).await;
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let layout = Layout::preset("native").unwrap();
    let pool = connect(&url, 4).unwrap();
    let options = InitOptions {
        claim_index: true,
        notify: false,
    };
    init(&pool, &layout, &options).await.unwrap();
    let event = Event::raw("t", "{\"n\":1}").topic("orders").key("k");
    let mut tx = pool.begin().await.unwrap();
    let outbox = Outbox::new(layout.clone());
    outbox.emit(&mut tx, event).await.unwrap();
    tx.commit().await.unwrap();
    pool.close().await;
    becomes_standby(&mut server).await;

    let pool = connect(&url, 4).unwrap();
    let store = PostgresStore::new(pool.clone(), Options::new(layout));
    store.check().await.unwrap();
    for waits in [
        store.open().await.unwrap_err(),
        store.claim(ALL).await.map(drop).unwrap_err(),
        store.backlog().await.map(drop).unwrap_err(),
        store
            .purge(std::time::Duration::ZERO, 10)
            .await
            .map(drop)
            .unwrap_err(),
    ] {
        let StoreError::Unavailable { reason, .. } = waits else {
            panic!("{waits}")
        };
        assert!(reason.contains("standby"), "{reason}");
    }
    // A connection to a standby is not kept: the next one may lead to the primary.
    eventually("connections are closed", async || match pool.size() {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
    sqlx::query("SELECT pg_promote()")
        .execute(&connect(&url, 1).unwrap())
        .await
        .unwrap();
    eventually("the store opens", async || store.open().await).await;
    assert_eq!(numbers(&drain(&store).await), [1]);
}
