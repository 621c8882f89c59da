//! Two services that hear of orders. Each applies every order once: its own rows and the inbox entry are one transaction.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::consumer::middleware::{Ack, DeadLetter, Inbox, Retry, Transaction};
use postrider::consumer::{Builder, Context, with_state};
use postrider::core::{Backoff, Event, HandlerError, Topic};
use postrider::{Consumer, Metrics};

use super::broker::Broker;
use super::database::Database;
use super::orders::OrderPlaced;

/// Writes an invoice for every order.
pub(super) fn billing<D: Database>(
    database: &D,
    broker: &Broker,
    topic: &Topic,
    metrics: &Metrics,
) -> anyhow::Result<Consumer> {
    Ok(chain("billing", database, broker, topic, metrics)?.handle(bill::<D>))
}

/// Hands every order to a carrier, who is not always well.
pub(super) fn shipping<D: Database>(
    database: &D,
    broker: &Broker,
    topic: &Topic,
    metrics: &Metrics,
) -> anyhow::Result<Consumer> {
    let carrier = Arc::new(Carrier::default());
    let chain = chain("shipping", database, broker, topic, metrics)?;
    Ok(chain.handle(with_state(carrier, ship::<D>)))
}

/// What both have in common, in the order in which a delivery meets it.
fn chain<D: Database>(
    name: &str,
    database: &D,
    broker: &Broker,
    topic: &Topic,
    metrics: &Metrics,
) -> anyhow::Result<Builder<D::Tx>> {
    let subscription = broker.subscribe(name, std::slice::from_ref(topic))?;
    let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    Ok(Consumer::builder(name, subscription)
        .metrics(metrics)
        .with(Ack::default())
        .with(Retry { tries: 5, backoff })
        .with(DeadLetter::new(broker.publisher()?))
        .with(Transaction::new(database.transactions()))
        .with(Inbox::new(database.inbox())))
}

async fn bill<D: Database>(
    ctx: &mut Context<D::Tx>,
    event: Event<OrderPlaced>,
) -> Result<(), HandlerError> {
    let order = event.payload;
    let number = order.number.to_string();
    D::insert(
        ctx.tx(),
        "INSERT INTO invoices (order_number, customer) VALUES (CAST($1 AS bigint), $2) \
         RETURNING order_number",
        &[&number, &order.customer],
    )
    .await?;
    Ok(())
}

async fn ship<D: Database>(
    carrier: Arc<Carrier>,
    ctx: &mut Context<D::Tx>,
    event: Event<OrderPlaced>,
) -> Result<(), HandlerError> {
    let order = event.payload;
    carrier.take(&order)?;
    let number = order.number.to_string();
    D::insert(
        ctx.tx(),
        "INSERT INTO shipments (order_number, item) VALUES (CAST($1 AS bigint), $2) \
         RETURNING order_number",
        &[&number, &order.item],
    )
    .await?;
    Ok(())
}

/// Fails temporarily for what is fragile: the first tries for it.
pub(super) const FRAGILE: &str = "glass";
/// Fails permanently.
pub(super) const TOO_HEAVY: &str = "piano";

const BUSY_TRIES: u32 = 2;
/// Orders whose tries are remembered.
const REMEMBERED_MAX: usize = 1_000;

/// Stands for somebody else's service.
#[derive(Default)]
struct Carrier {
    tried: Mutex<HashMap<i64, u32>>,
}

impl Carrier {
    fn take(&self, order: &OrderPlaced) -> Result<(), HandlerError> {
        match order.item.as_str() {
            TOO_HEAVY => Err(HandlerError::permanent("the carrier takes no pianos")),
            FRAGILE if self.is_busy(order.number) => Err(HandlerError::temporary(
                "the carrier has nobody free for fragile goods",
            )),
            _ => Ok(()),
        }
    }

    fn is_busy(&self, order: i64) -> bool {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.len() >= REMEMBERED_MAX {
            tried.clear();
        }
        let tries = tried.entry(order).or_default();
        *tries += 1;
        let busy = *tries <= BUSY_TRIES;
        if !busy {
            tried.remove(&order);
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(number: i64, item: &str) -> OrderPlaced {
        OrderPlaced {
            number,
            customer: "anna".into(),
            item: item.into(),
            quantity: 1,
        }
    }

    #[test]
    fn the_carrier_fails_as_the_demo_says() {
        let carrier = Carrier::default();
        assert!(carrier.take(&order(1, "tea")).is_ok());
        for _ in 0..BUSY_TRIES {
            let busy = carrier.take(&order(2, FRAGILE));
            assert!(matches!(busy, Err(HandlerError::Temporary(_))));
        }
        assert!(carrier.take(&order(2, FRAGILE)).is_ok());
        let refused = carrier.take(&order(3, TOO_HEAVY));
        assert!(matches!(refused, Err(HandlerError::Permanent(_))));
        assert!(carrier.tried.lock().unwrap().is_empty());
    }
}
