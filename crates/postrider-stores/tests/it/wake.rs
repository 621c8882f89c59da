//! Hints.

use std::time::Duration;

use postrider_stores::postgres::{InitOptions, init};
use postrider_testkit::eventually;

use crate::world::world;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_wakes_and_a_lost_connection_comes_back() {
    let world = world("gopipe", "table = 'wake_events'").await;
    let options = InitOptions {
        claim_index: false,
        notify: true,
    };
    init(&world.database.pool, &world.layout, &options)
        .await
        .unwrap();
    let wake = world.store().listen();
    tokio::time::timeout(PATIENCE, wake.woken())
        .await
        .expect("when it begins to listen");
    world.emit(world.event(None, 1)).await;
    tokio::time::timeout(PATIENCE, wake.woken())
        .await
        .expect("when a record comes");
    let listening = "FROM pg_stat_activity WHERE query = 'LISTEN \"postrider_wake_events\"'";
    world
        .database
        .texts(&format!("SELECT pg_terminate_backend(pid) {listening}"))
        .await;
    tokio::time::timeout(PATIENCE, wake.woken())
        .await
        .expect("when it listens again");
    world.emit(world.event(None, 2)).await;
    tokio::time::timeout(PATIENCE, wake.woken())
        .await
        .expect("when another record comes");
    drop(wake);
    eventually("nobody listens any more", async || {
        match world
            .database
            .number(&format!("SELECT count(*) {listening}"))
            .await
        {
            0 => Ok(()),
            others => Err(others),
        }
    })
    .await;
}
