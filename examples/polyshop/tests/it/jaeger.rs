//! What Jaeger knows, as its query API tells it.

use std::collections::BTreeSet;

use postrider_testkit::eventually_within;
use serde_json::Value;

use crate::shop::PATIENCE;

/// The spans of a trace, each as `service: name`, once it has these services.
pub(crate) async fn until_traced(port: u16, trace_id: &str, services: &[&str]) -> Vec<String> {
    let url = format!("http://127.0.0.1:{port}/api/traces/{trace_id}");
    let wanted: BTreeSet<&str> = services.iter().copied().collect();
    eventually_within(PATIENCE, "the trace is whole", async || {
        let answer: Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
        let traces = answer["data"].as_array().cloned().unwrap_or_default();
        let [trace] = &traces[..] else {
            return Err(format!("{answer}"));
        };
        let spans: Vec<String> = spans(trace);
        let found = spans.iter().filter_map(|span| span.split(':').next());
        match found.collect::<BTreeSet<&str>>() == wanted {
            true => Ok(spans),
            false => Err(format!("{spans:?}")),
        }
    })
    .await
}

fn spans(trace: &Value) -> Vec<String> {
    let spans = trace["spans"].as_array().unwrap();
    let named = spans.iter().map(|span| {
        let process = span["processID"].as_str().unwrap();
        let service = &trace["processes"][process]["serviceName"];
        let (service, name) = (service.as_str(), span["operationName"].as_str());
        format!("{}: {}", service.unwrap(), name.unwrap())
    });
    named.collect()
}
