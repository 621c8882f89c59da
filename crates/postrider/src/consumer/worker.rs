//! One worker: take, pass through the chain, settle, again.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use postrider_core::text::chain;
use postrider_core::{Delivery, EventId, Handled, HandlerError, SubscribeError};
use tokio::time::{Instant, sleep, timeout};

use super::context::Verdict;
use super::middleware::transaction::{Group, Left};
use super::{Context, Shared};
use crate::failpoints;
use crate::lines::cut_some;

/// No question to the broker waits longer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The wait of deliveries about which the chain said nothing, and of those behind one that was given back.
const UNDECIDED: Duration = Duration::from_secs(1);

/// Works until the consumer is told to stop, and finishes what it has in hand.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut outages = 0;
    loop {
        let taken = tokio::select! {
            biased;
            () = shared.origin.shutdown.cancelled() => return,
            taken = shared.subscription.next(shared.batch) => taken,
        };
        let available = match taken {
            Ok(deliveries) => shared.work(deliveries).await,
            Err(SubscribeError::Closed) => return,
            Err(error) => {
                let (consumer, reason) = (&*shared.origin.consumer, chain(&error));
                tracing::warn!(consumer, reason, "no deliveries");
                shared.health.broker_down(&reason);
                false
            }
        };
        outages = if available { 0 } else { outages + 1 };
        if !available {
            tokio::select! {
                () = sleep(shared.config.outage_backoff.random_delay(outages)) => {}
                () = shared.origin.shutdown.cancelled() => return,
            }
        }
    }
}

/// Asks the broker how it is and how much waits. Never ends.
pub(super) async fn watch_lag(shared: &Shared) {
    loop {
        match timeout(PROBE_TIMEOUT, shared.subscription.ping()).await {
            Ok(Ok(())) => shared.health.broker_up(),
            Ok(Err(error)) => shared.health.broker_down(&chain(&error)),
            Err(_) => shared.health.broker_down("no answer within 5 s"),
        }
        if let Ok(Some(lag)) = timeout(PROBE_TIMEOUT, shared.subscription.lag()).await {
            shared.origin.metrics.lag(lag);
        }
        sleep(shared.config.lag_every).await;
    }
}

/// How one delivery's way through the chain ended.
struct End {
    verdict: Verdict,
    available: bool,
    parked: bool,
}

impl Shared {
    /// Handles deliveries that came together. False when something that all events need was away.
    async fn work(&self, mut deliveries: Vec<Delivery>) -> bool {
        let _in_flight = self.origin.metrics.hold(deliveries.len());
        let group = (deliveries.len() > 1).then(|| Group::new(&deliveries));
        let enter = |(index, delivery)| {
            let ctx = Context::new(
                delivery,
                &self.origin,
                group.as_ref().map(|g| g.seat(index)),
            );
            if let Some(group) = &group {
                group.introduce(index, ctx.entry());
            }
            ctx
        };
        // All are introduced before the first one starts.
        let contexts: Vec<Context> = deliveries.iter().enumerate().map(enter).collect();
        let pass = async |(index, (delivery, ctx))| {
            let end = self.pass(delivery, ctx).await;
            if let Some(group) = &group {
                let left = Left {
                    handled: end.verdict == Verdict::Ack,
                    parked: end.parked,
                };
                group.leave(index, left);
            }
            end
        };
        let ends = join_all(deliveries.iter().zip(contexts).enumerate().map(pass)).await;
        failpoints::reach(failpoints::HANDLED);
        for (index, (delivery, end)) in deliveries.iter_mut().zip(&ends).enumerate() {
            let held = group.as_ref().is_some_and(|group| group.is_held(index));
            match end.verdict {
                Verdict::Ack if !held => delivery.ack(),
                Verdict::Ack => delivery.nack(UNDECIDED),
                Verdict::Nack(after) => delivery.nack(after),
            }
        }
        ends.iter().all(|end| end.available)
    }

    async fn pass(&self, delivery: &Delivery, mut ctx: Context) -> End {
        let begun = Instant::now();
        let result = tokio::select! {
            result = self.chain.run(&mut ctx) => result,
            // Somebody else gets it, so it is abandoned; an open transaction is rolled back.
            () = delivery.lost() => Err(HandlerError::deferred("the broker took the delivery away")),
        };
        self.origin.metrics.handled(&result, begun.elapsed());
        self.report(&ctx, &result);
        let verdict = ctx.verdict().unwrap_or_else(|| {
            if result.is_ok() {
                let consumer = ctx.consumer();
                tracing::warn!(
                    consumer,
                    "a handled delivery was not acknowledged: is Ack in the chain?"
                );
            }
            Verdict::Nack(UNDECIDED)
        });
        let available = !matches!(result, Err(HandlerError::Unavailable(_)));
        End {
            verdict,
            available,
            parked: ctx.has_parked_its_key(),
        }
    }

    fn report(&self, ctx: &Context, result: &Result<Handled, HandlerError>) {
        let opened = ctx.try_opened().as_ref().ok();
        let event_type = cut_some(opened.and_then(|opened| opened.event_type.as_deref()));
        let trace_id = cut_some(opened.and_then(|opened| opened.trace_id()));
        let event_id = cut_some(ctx.event_id().map(EventId::as_str));
        let (event_type, trace_id) = (event_type.as_deref(), trace_id.as_deref());
        let event_id = event_id.as_deref();
        let (consumer, position) = (ctx.consumer(), ctx.position());
        match result {
            Ok(handled) => {
                self.health.database_up();
                tracing::debug!(target: "postrider::event", consumer, event_id, event_type, trace_id, position, ?handled, "handled");
            }
            Err(HandlerError::Deferred(_)) => {
                tracing::debug!(target: "postrider::event", consumer, event_id, event_type, trace_id, position, "deferred");
            }
            Err(error) => {
                if let HandlerError::Unavailable(_) = error {
                    self.health.database_down(&error.to_string());
                }
                let (kind, attempt) = (error.kind(), ctx.attempt());
                tracing::warn!(
                    target: "postrider::event",
                    consumer, event_id, event_type, trace_id, position, attempt, kind, %error, "not handled, is given back"
                );
            }
        }
    }
}
