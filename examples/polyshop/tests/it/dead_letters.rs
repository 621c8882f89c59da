//! What the runbook says about dead letters.

use example_polyshop::events::{ORDER_PLACED, PAYMENT_SUCCEEDED};
use example_polyshop::{NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE};

use crate::process::stop_all;
use crate::shop::{Shop, dead_orders, order};

/// S3-56, S3-58: a permanent error is a dead letter of the service that had it, and of no other.
#[tokio::test]
async fn a_dead_letter_is_redriven_by_the_runbook_without_doing_anything_twice() {
    let mut shop = Shop::open().await;
    let running = [ORDER_SERVICE, NOTIFICATION_SERVICE].map(|service| shop.start(service));
    let payment = shop.start(PAYMENT_SERVICE);
    // Over the limit of the payment service.
    let placed = order(&running[0], 600_000, &[]).await;
    assert_eq!(shop.until_notified(&placed, 1).await, ["confirmation"]);
    let [letter] = &shop.until_published(&dead_orders(), 1).await[..] else {
        panic!("one letter")
    };
    let [original] = &shop.until_published(ORDER_PLACED, 1).await[..] else {
        panic!("one order")
    };
    assert_eq!(letter["eventId"], placed.event);
    assert_eq!(letter["originalEvent"], *original);
    assert_eq!(letter["consumerService"], PAYMENT_SERVICE);
    let message = letter["errorMessage"].as_str().unwrap();
    assert!(message.starts_with("Validation failed: "), "{message}");
    shop.until_consumed(PAYMENT_SERVICE, ORDER_PLACED).await;
    assert_eq!(shop.payments().count("processed_events").await, 0);

    // The cause is removed, the key freed, the event sent again from the outbox it came from.
    payment.stop().await;
    shop.set("PAYMENT_LIMIT", "2000000");
    let payment = shop.start(PAYMENT_SERVICE);
    assert_eq!(shop.payments().count("postrider_parked_keys").await, 1);
    let free = format!(
        "DELETE FROM postrider_parked_keys WHERE consumer = 'payment-service' AND topic = '{}' AND key = '{}'",
        shop.topic(ORDER_PLACED),
        placed.order
    );
    shop.payments().execute(&free).await;
    shop.orders()
        .execute(&format!(
            "UPDATE outbox_events SET processed = false, processed_at = NULL WHERE id = '{}'",
            placed.event
        ))
        .await;
    assert_eq!(
        shop.until_notified(&placed, 2).await,
        ["confirmation", "receipt"]
    );
    shop.until_consumed(NOTIFICATION_SERVICE, ORDER_PLACED)
        .await;
    shop.until_consumed(NOTIFICATION_SERVICE, PAYMENT_SUCCEEDED)
        .await;
    stop_all(running.into_iter().chain([payment])).await;
    assert_eq!(shop.until_notified(&placed, 2).await.len(), 2);
    assert_eq!(shop.records(&dead_orders()).await.len(), 1);
}
