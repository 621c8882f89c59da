//! The broker goes away in the middle of a run and comes back.

use std::time::Duration;

use postrider_testkit::kafka::Kafka;
use postrider_testkit::services::{Kind, PrivateServer};

use crate::torture::{Arena, Relays};

const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(3);

/// A minute where `POSTRIDER_LONG=1` asks for it, else a third of it.
fn outage_time() -> Duration {
    let is_long = std::env::var("POSTRIDER_LONG").is_ok_and(|long| long == "1");
    Duration::from_secs(if is_long { 60 } else { 20 })
}

/// A2-13, A3-05, P6: the real Kafka is away for 20 s, or for a minute. The application's transactions all succeed while it
/// is (`Arena::write` panics otherwise), no attempt is counted, and everything is published after.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_outage_burns_no_attempts_and_loses_nothing() {
    let mut server = PrivateServer::start(Kind::Kafka).await;
    let kafka = || Kafka::at(server.address());
    let hold = Arena::on("polyshop", "key", kafka()).await;
    let lease = Arena::on("talkie", "key", kafka()).await;
    let stream = Arena::on("native", "key", kafka()).await;
    let relays = [
        Relays::start(&hold.target(), 2).await,
        Relays::start(&lease.target(), 2).await,
        Relays::start(&stream.target(), 2).await,
    ];

    let away = outage_time();
    let time = BEFORE + away + AFTER;
    let outage = async {
        tokio::time::sleep(BEFORE).await;
        server.kill();
        tokio::time::sleep(away).await;
        server.restart().await;
    };
    let (by_hold, by_lease, by_stream, ()) = tokio::join!(
        hold.write(time),
        lease.write(time),
        stream.write(time),
        outage
    );
    println!(
        "outage: {by_hold} transactions in hold mode, {by_lease} in lease, {by_stream} in stream"
    );

    for arena in [&hold, &lease, &stream] {
        arena.wait_until_empty().await;
        arena.verdict().await.assert_clean();
    }
    let burnt = "SELECT count(*) FROM postrider_troubles WHERE attempts > 0 OR dead";
    assert_eq!(hold.count(burnt).await, 0);
    assert_eq!(
        hold.count("SELECT count(*) FROM outbox_events WHERE error_message IS NOT NULL")
            .await,
        0
    );
    assert_eq!(
        lease
            .count("SELECT count(*) FROM outbox WHERE retry_count > 0")
            .await,
        0
    );
    assert_eq!(
        lease
            .count("SELECT count(*) FROM outbox WHERE status <> 'published'")
            .await,
        0
    );
    let troubles = "SELECT count(*) FROM postrider_outbox_troubles";
    assert_eq!(stream.count(troubles).await, 0);
    for relays in relays {
        relays.stop().await;
    }
}
