//! What holds an outbox up: what the relay knows, and what the database does.

use axum::Json;
use postrider::Dependency;
use postrider::core::operate::{Finding, Level, Limits};
use postrider::relay::BreakerState;
use serde_json::{Value, json};

use super::super::listed;
use super::super::outbox::{Managed, OfOutbox};
use super::super::refused::Refused;

pub(super) async fn diagnosis(OfOutbox(outbox): OfOutbox) -> Result<Json<Value>, Refused> {
    let limits = Limits {
        payload_bytes_max: outbox.payload_bytes_max,
        relay_runs: true,
    };
    let asked = async {
        let mut findings = outbox.store.diagnose(&limits).await?;
        findings.extend(outbox.store.check().await?);
        Ok(findings)
    };
    let mut findings = in_relay(&outbox);
    match outbox.ask(asked).await {
        Ok(found) => findings.extend(found),
        // That the database does not answer is what holds the outbox up, and the relay has said so.
        Err(_) if !findings.is_empty() => {}
        Err(refused) => return Err(refused),
    }
    findings.extend(outbox.findings());
    findings.sort_by_key(|finding| finding.level);
    findings.dedup();
    let findings = listed::findings(&findings);
    Ok(Json(json!({ "findings": findings })))
}

/// What needs no question.
fn in_relay(outbox: &Managed) -> Vec<Finding> {
    let report = outbox.health.report();
    let mut findings = Vec::new();
    if let Dependency::NotReady { reason } = report.database {
        let message = format!("the relay gets no answer: {reason}");
        findings.push(
            Finding::new(Level::Error, "database", message)
                .remedy("see that the database runs and lets the relay in; it goes on by itself"),
        );
    }
    for part in report.parts {
        findings.push(
            Finding::new(Level::Warning, format!("broker {}", outbox.broker), part).remedy(
                "create the topic, grant access to it or see to its leader; only its records wait, no attempts are counted",
            ),
        );
    }
    let breaker = outbox.monitor.breaker();
    if let Dependency::NotReady { reason } = report.broker {
        let message = match breaker {
            BreakerState::Closed => format!("the broker does not answer: {reason}"),
            _ => format!(
                "the breaker is {}, nothing is claimed: {reason}",
                breaker.as_str()
            ),
        };
        findings.push(
            Finding::new(Level::Error, format!("broker {}", outbox.broker), message).remedy(
                "see that the broker runs and lets the relay in; no attempts are counted, and it goes on by itself",
            ),
        );
    }
    findings
}
