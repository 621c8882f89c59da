//! Resending and discarding dead records: exactly as many as whoever asks has seen.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use postrider::core::operate::{RecordFilter, RecordState};
use postrider::core::{RecordId, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::access::Who;
use super::super::ask::{Body, Wanted};
use super::super::outbox::{Managed, OfOutbox};
use super::super::refused::Refused;
use super::super::{Admin, limits};

/// Ids that are read at a time.
const PAGE: u32 = 5_000;

/// What a change is about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    ids: Option<Vec<String>>,
    filter: Option<Wanted>,
    expect: u64,
}

#[derive(Clone, Copy)]
enum Change {
    Resend,
    Discard,
}

pub(super) async fn resend(
    State(admin): State<Admin>,
    outbox: OfOutbox,
    who: Who,
    which: Body<Which>,
) -> Result<Json<Value>, Refused> {
    changed(&admin, outbox, who, which, Change::Resend).await
}

pub(super) async fn discard(
    State(admin): State<Admin>,
    outbox: OfOutbox,
    who: Who,
    which: Body<Which>,
) -> Result<Json<Value>, Refused> {
    changed(&admin, outbox, who, which, Change::Discard).await
}

async fn changed(
    admin: &Admin,
    OfOutbox(outbox): OfOutbox,
    who: Who,
    Body(which): Body<Which>,
    change: Change,
) -> Result<Json<Value>, Refused> {
    let expected = which.expect;
    let filter = which.filter()?;
    // A change that has begun is finished and logged, also when its client has gone.
    let task = admin
        .tasks
        .spawn(async move { change.make(&outbox, &who, &filter, expected).await });
    let changed = task.await.map_err(|_| {
        Refused::unavailable("the change was cut off; look at the records and the audit")
    })??;
    Ok(Json(json!({ "changed": changed })))
}

impl Which {
    fn filter(self) -> Result<RecordFilter, Refused> {
        if self.expect > limits::CHANGE_MAX {
            return Err(Refused::bad(
                "one change is about 100,000 records at most; narrow the filter",
            ));
        }
        let wanted = match (self.ids, self.filter) {
            (Some(ids), None) if ids.is_empty() => return Err(Refused::bad("`ids` is empty")),
            (Some(ids), None) => Wanted {
                ids,
                ..Wanted::default()
            },
            (None, Some(filter)) => filter,
            _ => return Err(Refused::bad("either `ids` or `filter` is needed")),
        };
        Ok(RecordFilter {
            state: Some(RecordState::Dead),
            ..wanted.filter()?
        })
    }
}

impl Change {
    const fn done(self) -> &'static str {
        match self {
            Self::Resend => "resent",
            Self::Discard => "discarded",
        }
    }

    async fn make(
        self,
        outbox: &Arc<Managed>,
        who: &Who,
        filter: &RecordFilter,
        expected: u64,
    ) -> Result<u64, Refused> {
        let made = self.make_unlogged(outbox, who, filter, expected).await;
        let (by, action) = (&*who.name, self.done());
        match &made {
            Ok(records) => {
                tracing::info!(
                    outbox = outbox.name(),
                    by,
                    action,
                    records,
                    "admin: dead records were changed"
                );
            }
            Err(refused) => {
                tracing::info!(
                    outbox = outbox.name(),
                    by,
                    action,
                    expected,
                    reason = refused.error(),
                    "admin: a change was refused"
                );
            }
        }
        made
    }

    async fn make_unlogged(
        self,
        outbox: &Managed,
        who: &Who,
        filter: &RecordFilter,
        expected: u64,
    ) -> Result<u64, Refused> {
        let store = &*outbox.store;
        let count = outbox.ask(store.count(filter)).await?;
        if count != expected {
            return Err(Refused::other_count(count, expected));
        }
        let ids = outbox
            .ask_within(limits::CHANGE_TIMEOUT, matching(outbox, filter, expected))
            .await?;
        // What matched just now and what matches now may differ.
        if ids.len() as u64 != expected {
            return Err(Refused::other_count(ids.len() as u64, expected));
        }
        if ids.is_empty() {
            return Ok(0);
        }
        let by = who.actor();
        let change = async {
            match self {
                Self::Resend => store.resend(&ids, &by).await,
                Self::Discard => store.discard(&ids, &by).await,
            }
        };
        outbox.ask_within(limits::CHANGE_TIMEOUT, change).await
    }
}

/// The ids of the records that match, in the outbox's order; not many more than expected.
async fn matching(
    outbox: &Managed,
    filter: &RecordFilter,
    expected: u64,
) -> Result<Vec<RecordId>, StoreError> {
    let (mut ids, mut from) = (Vec::new(), None);
    loop {
        let page = outbox.store.find(filter, from.as_ref(), PAGE).await?;
        ids.extend(page.items.into_iter().map(|record| record.id));
        from = page.next;
        if from.is_none() || ids.len() as u64 > expected {
            return Ok(ids);
        }
    }
}
