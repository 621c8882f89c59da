//! Server-sent events: the overview, every second.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use futures::stream::{self, Stream};
use tokio::time::MissedTickBehavior;

use super::super::refused::Refused;
use super::super::{Admin, overview};

const EVERY: Duration = Duration::from_secs(1);

pub(super) async fn events(
    State(admin): State<Admin>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refused> {
    let Ok(place) = admin.streams.clone().try_acquire_owned() else {
        let error = "16 event streams are open already; close one, or ask /api/overview";
        return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, error));
    };
    // So that the first event has counts.
    admin.count_within(overview::PATIENCE).await;
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = stream::unfold((ticks, admin, place), |(mut ticks, admin, place)| async {
        tokio::select! {
            _ = ticks.tick() => {}
            () = admin.stopping.cancelled() => return None,
        }
        let event = Event::default().event("overview").data(admin.frame());
        Some((Ok(event), (ticks, admin, place)))
    });
    Ok(Sse::new(events))
}
