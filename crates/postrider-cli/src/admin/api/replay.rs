//! Sending published records again: start, watch, stop.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use postrider::replay::ReplayOptions;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Admin;
use super::super::access::Who;
use super::super::ask::{self, Body, Wanted};
use super::super::outbox::OfOutbox;
use super::super::refused::Refused;
use super::super::replays::NotStarted;

/// A replay ends within 5 seconds of being told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(7);
const RATE_MAX: u32 = 1_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    since: Option<String>,
    until: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    key: Option<String>,
    #[serde(default)]
    ids: Vec<String>,
    to_topic: Option<String>,
    rate: Option<u32>,
}

impl Asked {
    fn options(self) -> Result<ReplayOptions, Refused> {
        let texts = [&self.since, &self.event_type, &self.key];
        let named = texts.iter().any(|text| text.is_some()) || !self.ids.is_empty();
        if !named {
            return Err(Refused::bad(
                "at least one of `since`, `type`, `key` and `ids` is needed",
            ));
        }
        let rate = self.rate.map(|rate| {
            NonZeroU32::new(rate)
                .filter(|rate| rate.get() <= RATE_MAX)
                .ok_or_else(|| Refused::bad("`rate` is 1 to 1,000,000 records a second"))
        });
        let to_topic = self.to_topic.map(|topic| ask::text("to_topic", topic));
        let wanted = Wanted {
            event_type: self.event_type,
            key: self.key,
            since: self.since,
            until: self.until,
            ids: self.ids,
            ..Wanted::default()
        };
        Ok(ReplayOptions {
            filter: wanted.filter()?,
            to_topic: to_topic.transpose()?.map(Into::into),
            rate: rate.transpose()?,
            ..ReplayOptions::default()
        })
    }
}

pub(super) async fn start(
    State(admin): State<Admin>,
    OfOutbox(outbox): OfOutbox,
    who: Who,
    Body(asked): Body<Asked>,
) -> Result<(StatusCode, Json<Value>), Refused> {
    let options = asked.options()?;
    let begun = outbox
        .replays
        .begin(options, who.name.clone(), admin.stopping.child_token());
    let (replay, watched, stop) = match begun {
        Ok(begun) => begun,
        Err(NotStarted::Busy) => {
            let error = "a replay of this outbox is running; wait for its end, or stop it";
            return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, error));
        }
        Err(NotStarted::NoPublisher(reason)) => return Err(Refused::unavailable(reason)),
    };
    tracing::info!(
        outbox = outbox.name(), by = &*who.name, action = "replay", what = %replay.options(),
        "admin: a replay begins"
    );
    let shown = watched.shown();
    admin.tasks.spawn(async move {
        let ended = replay.run(&who.actor(), stop).await;
        tracing::info!(outbox = outbox.name(), by = &*who.name, action = "replay", %ended, "admin: a replay ended");
    });
    Ok((StatusCode::ACCEPTED, Json(json!({ "replay": shown }))))
}

pub(super) async fn last(OfOutbox(outbox): OfOutbox) -> Json<Value> {
    let last = outbox.replays.last().map(|last| last.shown());
    Json(json!({ "replay": last }))
}

pub(super) async fn stop(OfOutbox(outbox): OfOutbox, who: Who) -> Result<Json<Value>, Refused> {
    let none = || Refused::not_found("no replay of this outbox was started here");
    let mut last = outbox.replays.last().ok_or_else(none)?;
    tracing::info!(
        outbox = outbox.name(),
        by = &*who.name,
        action = "stop replay",
        "admin: a replay is stopped"
    );
    // Where it takes longer, the answer says that it still runs.
    drop(tokio::time::timeout(STOP_TIMEOUT, last.stop()).await);
    Ok(Json(json!({ "replay": last.shown() })))
}
