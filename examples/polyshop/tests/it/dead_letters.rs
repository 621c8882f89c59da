//! What the runbook says about dead letters, and what tells somebody to open it.

use std::process::Command;

use example_polyshop::events::{ORDER_PLACED, PAYMENT_SUCCEEDED};
use example_polyshop::{NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE};
use serde_json::Value;

use crate::process::{Process, stop_all};
use crate::runbook::Runbook;
use crate::shop::{Placed, Shop, dead_orders, here, order};

const MONITOR: &str = "\n## 1. Monitor";
const READ: &str = "\n## 2. Read";
const REDRIVE: &str = "\n## 4. Redrive";
const PARKED: &str = "\n## 5. Parked keys";

/// A shop in which an order is over the limit of the payment service.
async fn with_a_dead_letter() -> (Shop, Vec<Process>, Process, Placed, Value) {
    let shop = Shop::open().await;
    let payment = shop.start(PAYMENT_SERVICE);
    let mut running: Vec<_> = [ORDER_SERVICE, NOTIFICATION_SERVICE]
        .map(|service| shop.start(service))
        .into();
    running.push(shop.start_relay());
    let placed = order(&running[0], 600_000, &[]).await;
    assert_eq!(shop.until_notified(&placed, 1).await, ["confirmation"]);
    let [letter] = &shop.until_published(&dead_orders(), 1).await[..] else {
        panic!("one letter")
    };
    let letter = letter.clone();
    shop.until_consumed(PAYMENT_SERVICE, ORDER_PLACED).await;
    assert_eq!(shop.payments().count("processed_events").await, 0);
    (shop, running, payment, placed, letter)
}

/// S3-56, S3-58: a permanent error is a dead letter of the service that had it, and of no other. The runbook, command by
/// command, brings the event to its end from the dead-letter topic, without doing anything twice.
#[tokio::test]
async fn a_dead_letter_is_redriven_by_the_runbook_without_doing_anything_twice() {
    let (mut shop, running, payment, placed, letter) = with_a_dead_letter().await;
    let [original] = &shop.until_published(ORDER_PLACED, 1).await[..] else {
        panic!("one order")
    };
    assert_eq!(letter["eventId"], placed.event);
    assert_eq!(letter["originalEvent"], *original);
    assert_eq!(letter["consumerService"], PAYMENT_SERVICE);
    let message = letter["errorMessage"].as_str().unwrap();
    assert!(message.starts_with("Validation failed: "), "{message}");

    // The cause is removed.
    payment.stop().await;
    shop.set("PAYMENT_LIMIT", "2000000");
    let payment = shop.start(PAYMENT_SERVICE);
    let runbook = Runbook::of(&shop, &placed.event, &placed.order);
    let offsets = runbook.shell(MONITOR, "GetOffsetShell").await;
    let dead = shop.topic(&dead_orders());
    let offsets: Vec<&str> = offsets
        .lines()
        .filter(|line| line.starts_with(&dead))
        .collect();
    let letters = offsets.iter().filter(|line| line.ends_with(":1"));
    assert_eq!(letters.count(), 1, "{offsets:?}");
    let read = runbook.shell(READ, "ConsoleConsumer").await;
    for part in [
        &*placed.event,
        message,
        "dlt_consumer_service:payment-service",
    ] {
        assert!(read.contains(part), "{part} is not in {read}");
    }
    // The key is freed, the event sent again.
    let parked = runbook.answer(PARKED, PAYMENT_SERVICE, "DELETE").await;
    assert_eq!(parked, [PAYMENT_SERVICE], "the key was parked");
    assert_eq!(shop.payments().count("postrider_parked_keys").await, 0);
    runbook.shell(REDRIVE, "ConsoleProducer").await;
    let both = ["confirmation", "receipt"];
    assert_eq!(shop.until_notified(&placed, 2).await, both);
    let done = runbook.answer(REDRIVE, PAYMENT_SERVICE, "SELECT processed_at");
    assert_eq!(done.await.len(), 1);
    let events = shop.until_published(ORDER_PLACED, 2).await;
    assert_eq!(events[0], events[1], "it is the same event");
    shop.until_consumed(NOTIFICATION_SERVICE, ORDER_PLACED)
        .await;
    shop.until_consumed(NOTIFICATION_SERVICE, PAYMENT_SUCCEEDED)
        .await;
    stop_all(running.into_iter().chain([payment])).await;
    assert_eq!(shop.until_notified(&placed, 2).await.len(), 2);
    assert_eq!(shop.records(&dead_orders()).await.len(), 1);
}

/// S3-88: the same from the outbox that the event came from.
#[tokio::test]
async fn a_dead_letter_is_redriven_from_the_outbox() {
    let (mut shop, running, payment, placed, _) = with_a_dead_letter().await;
    payment.stop().await;
    shop.set("PAYMENT_LIMIT", "2000000");
    let payment = shop.start(PAYMENT_SERVICE);
    let runbook = Runbook::of(&shop, &placed.event, &placed.order);
    runbook.sql(PARKED, PAYMENT_SERVICE, "DELETE").await;
    runbook
        .sql(REDRIVE, ORDER_SERVICE, "UPDATE outbox_events")
        .await;
    let both = ["confirmation", "receipt"];
    assert_eq!(shop.until_notified(&placed, 2).await, both);
    stop_all(running.into_iter().chain([payment])).await;
    assert_eq!(shop.records(&dead_orders()).await.len(), 1);
}

/// S3-58: the alert rules for dead-letter topics are ones that Prometheus takes, and come when they should.
#[test]
fn alerts_on_dead_letters_pass_promtool_and_their_own_tests() {
    let root = here().join("../..");
    for arguments in [
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let ran = Command::new(root.join("target/services/tools/promtool"))
            .args(arguments)
            .current_dir(here().join("monitoring/prometheus"))
            .output()
            .expect("promtool is there; scripts/services install fetches it");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}{:?}", ran.stdout);
    }
}
