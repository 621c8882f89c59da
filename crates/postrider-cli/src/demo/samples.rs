//! Orders that come by themselves, so that there is something to see: most of them are fine, some are trouble.

use std::sync::Arc;
use std::time::Duration;

use postrider::core::{ManagedStore, StoreError};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::consumers::{FRAGILE, TOO_HEAVY};
use super::database::Database;
use super::orders::{NewOrder, Orders};

const CUSTOMERS: [&str; 8] = ["anna", "ben", "carla", "dan", "eva", "finn", "gina", "hugo"];
/// Each of them first orders 0 pieces of something, which can never be published, and then goes on ordering.
const NEWCOMERS: [&str; 4] = ["nora", "oskar", "paula", "quinn"];
const ITEMS: [&str; 5] = ["tea", "coffee", "books", "lamps", "chairs"];

/// After so many orders it begins again.
const ROUND: u64 = 40;
/// The newcomer's orders in a round: the first is the bad one.
const NEWCOMERS_TURNS: [u64; 4] = [3, 5, 8, 11];
const PIANO_TURN: u64 = 14;
/// Of four customers, whose later orders wait for the retries: few enough for the highest rate.
const FRAGILE_TURNS: [u64; 4] = [7, 17, 27, 37];
/// With so many keys parked, no newcomer comes: the rest of the demo must stay in sight.
const PARKED_MAX: u32 = 3;

/// Places orders at this rate until it is told to stop. What the database refuses is left out and said.
pub(super) async fn run<D: Database>(
    orders: Orders<D>,
    store: Arc<dyn ManagedStore>,
    rate: u32,
    stop: CancellationToken,
) {
    if rate == 0 {
        return stop.cancelled().await;
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut newcomer = None;
    for turn in 0_u64.. {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        if turn % ROUND == 0 {
            newcomer = match next_newcomer(&*store, turn).await {
                Ok(newcomer) => newcomer,
                Err(error) => {
                    tracing::warn!(%error, "parked keys are not known; no newcomer orders");
                    None
                }
            };
        }
        if let Err(error) = orders.place(&order(turn, newcomer)).await {
            tracing::warn!(error = format!("{error:#}"), "an order was not placed");
        }
    }
}

/// Who comes in this round, unless there are enough in trouble or this one is.
async fn next_newcomer(
    store: &dyn ManagedStore,
    turn: u64,
) -> Result<Option<&'static str>, StoreError> {
    let parked = store.parked(PARKED_MAX).await?;
    let name = pick(&NEWCOMERS, turn / ROUND);
    let welcome = parked.len() < PARKED_MAX as usize && parked.iter().all(|key| key.key != name);
    Ok(welcome.then_some(name))
}

/// The same order for the same turn.
fn order(turn: u64, newcomer: Option<&str>) -> NewOrder {
    let of_round = turn % ROUND;
    let of_newcomer = newcomer.filter(|_| NEWCOMERS_TURNS.contains(&of_round));
    let is_bad = of_newcomer.is_some() && of_round == NEWCOMERS_TURNS[0];
    let item = match of_round {
        _ if of_newcomer.is_some() => pick(&ITEMS, turn),
        PIANO_TURN => TOO_HEAVY,
        _ if FRAGILE_TURNS.contains(&of_round) => FRAGILE,
        _ => pick(&ITEMS, turn),
    };
    NewOrder {
        customer: of_newcomer.unwrap_or(pick(&CUSTOMERS, turn)).into(),
        item: item.into(),
        quantity: if is_bad { 0 } else { 1 + (turn % 5) as i64 },
    }
}

fn pick<'a>(from: &[&'a str], turn: u64) -> &'a str {
    from[(turn % from.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_shows_everything_that_the_demo_is_about() {
        let round: Vec<NewOrder> = (0..ROUND).map(|turn| order(turn, Some("nora"))).collect();
        let newcomers: Vec<&NewOrder> = round.iter().filter(|it| it.customer == "nora").collect();
        assert_eq!(newcomers.len(), 4);
        assert_eq!(newcomers[0].quantity, 0);
        assert!(newcomers[1..].iter().all(|order| order.quantity > 0));
        let of = |item: &str| round.iter().filter(|order| order.item == item).count();
        assert_eq!(of(TOO_HEAVY), 1);
        assert_eq!(of(FRAGILE), FRAGILE_TURNS.len());
        // Nobody else's order is bad.
        assert_eq!(round.iter().filter(|order| order.quantity < 1).count(), 1);
    }

    #[test]
    fn without_a_newcomer_every_order_can_be_published() {
        for turn in 0..2 * ROUND {
            let order = order(turn, None);
            assert!(order.quantity > 0 && CUSTOMERS.contains(&order.customer.as_str()));
        }
    }
}
