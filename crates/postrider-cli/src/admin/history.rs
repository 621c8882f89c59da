//! What happened to a record, put together from its row, the audit table and what the relay remembers.

use postrider::core::Timestamp;
use postrider::core::operate::{Audited, RecordState, StoredRecord};
use postrider::relay::FailedAttempt;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Step {
    /// `null` where the table does not say when.
    #[serde(serialize_with = "written")]
    at: Option<Timestamp>,
    what: &'static str,
    by: Option<String>,
    detail: Option<String>,
    attempt: Option<u32>,
}

impl Step {
    fn new(at: Option<Timestamp>, what: &'static str) -> Self {
        Self {
            at,
            what,
            by: None,
            detail: None,
            attempt: None,
        }
    }
}

/// The oldest first. `acts` are those of this record, in any order.
pub(super) fn of(
    record: &StoredRecord,
    failures: Vec<FailedAttempt>,
    acts: Vec<Audited>,
) -> Vec<Step> {
    let resent_at = acts
        .iter()
        .filter(|done| done.act.action == "resend")
        .map(|done| done.at)
        .max();
    let last_failure = of_row(record, &failures, resent_at);
    let mut steps: Vec<Step> = failures.into_iter().map(failed).collect();
    steps.extend(acts.into_iter().filter_map(done));
    let published = record.state == RecordState::Published;
    if published && record.published_at.is_some() {
        steps.push(Step::new(record.published_at, "published"));
    }
    steps.sort_by_key(|step| step.at);
    steps.insert(0, Step::new(Some(record.created_at), "emitted"));
    // What the table gives no time for is put where it must have been.
    let after_publishing = |step: &Step| step.what == "published" || step.what == "replayed";
    let end = steps
        .iter()
        .position(after_publishing)
        .unwrap_or(steps.len());
    if published && record.published_at.is_none() {
        steps.insert(end, Step::new(None, "published"));
    }
    if let Some(step) = last_failure {
        steps.insert(end, step);
    }
    steps
}

/// The failure that the row tells of, where this process does not remember it: another relay's, or one before a restart.
fn of_row(
    record: &StoredRecord,
    failures: &[FailedAttempt],
    resent_at: Option<Timestamp>,
) -> Option<Step> {
    let error = record.error.as_ref().filter(|_| record.attempts > 0)?;
    let remembered = failures
        .iter()
        .any(|failed| failed.attempt == record.attempts && Some(failed.at) > resent_at);
    let dead = record.state == RecordState::Dead;
    (!remembered).then(|| Step {
        detail: Some(error.clone()),
        attempt: Some(record.attempts),
        ..Step::new(None, if dead { "dead" } else { "failed" })
    })
}

fn failed(failed: FailedAttempt) -> Step {
    Step {
        detail: Some(failed.error.as_ref().into()),
        attempt: Some(failed.attempt),
        ..Step::new(Some(failed.at), if failed.dead { "dead" } else { "failed" })
    }
}

fn done(done: Audited) -> Option<Step> {
    let what = match done.act.action.as_str() {
        "resend" => "resent",
        "discard" => "discarded",
        "replay" => "replayed",
        "read payload" => "payload read",
        _ => return None,
    };
    Some(Step {
        by: Some(done.by.0),
        detail: done.act.detail,
        ..Step::new(Some(done.at), what)
    })
}

fn written<S: serde::Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use postrider::core::RecordId;
    use postrider::core::operate::{Act, Actor};

    use super::*;

    fn record(state: RecordState, attempts: u32, error: Option<&str>) -> StoredRecord {
        StoredRecord {
            id: RecordId::Int(7),
            event_id: "7".into(),
            event_type: None,
            aggregate_type: None,
            aggregate_id: None,
            key: None,
            topic: None,
            state,
            attempts,
            error: error.map(Into::into),
            created_at: at(0),
            published_at: None,
            retry_at: None,
            payload_bytes: None,
        }
    }

    const fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn failure(second: i64, attempt: u32, dead: bool) -> FailedAttempt {
        FailedAttempt {
            at: at(second),
            attempt,
            error: format!("at {second}").into(),
            dead,
        }
    }

    fn act(second: i64, action: &str) -> Audited {
        Audited {
            at: at(second),
            by: Actor("ops".into()),
            act: Act {
                action: action.into(),
                record: Some(RecordId::Int(7)),
                detail: None,
            },
        }
    }

    fn whats(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.what).collect()
    }

    #[test]
    fn steps_from_all_sources_stand_in_their_order() {
        let mut stored = record(RecordState::Published, 0, None);
        stored.published_at = Some(at(5));
        let failures = vec![failure(1, 1, false), failure(2, 2, true)];
        let acts = vec![act(9, "read payload"), act(7, "replay"), act(4, "resend")];
        let steps = of(&stored, failures, acts);
        assert_eq!(
            whats(&steps),
            [
                "emitted",
                "failed",
                "dead",
                "resent",
                "published",
                "replayed",
                "payload read"
            ]
        );
        assert_eq!(steps[2].attempt, Some(2));
        assert_eq!(steps[2].detail.as_deref(), Some("at 2"));
        assert_eq!(steps[3].by.as_deref(), Some("ops"));
    }

    #[test]
    fn a_failure_of_which_only_the_row_knows_is_told_without_a_time() {
        let stored = record(RecordState::Dead, 3, Some("too large"));
        let steps = of(&stored, Vec::new(), Vec::new());
        assert_eq!(whats(&steps), ["emitted", "dead"]);
        assert_eq!((steps[1].at, steps[1].attempt), (None, Some(3)));
        assert_eq!(steps[1].detail.as_deref(), Some("too large"));
        // The same one is not told twice.
        let steps = of(&stored, vec![failure(1, 3, true)], Vec::new());
        assert_eq!(whats(&steps), ["emitted", "dead"]);
        assert_eq!(steps[1].at, Some(at(1)));
        // One like it from before a resend is another.
        let steps = of(&stored, vec![failure(1, 3, true)], vec![act(2, "resend")]);
        assert_eq!(whats(&steps), ["emitted", "dead", "resent", "dead"]);
    }

    #[test]
    fn a_record_without_a_time_of_publishing_was_published_before_it_was_replayed() {
        let stored = record(RecordState::Published, 1, Some("once"));
        let steps = of(&stored, Vec::new(), vec![act(9, "replay")]);
        assert_eq!(
            whats(&steps),
            ["emitted", "failed", "published", "replayed"]
        );
    }
}
