//! Lists whose items come from rows are bounded in bytes, whatever rows contain.

use std::borrow::Cow;

use postrider::core::operate::{Finding, Level};
use postrider::core::text::short;
use serde_json::{Value, json};

use super::limits;

/// A text of a list.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    short(text, limits::LISTED_BYTES_MAX)
}

/// The first of the items, as many as fit into an answer; at least one.
pub(super) fn fitting(items: impl IntoIterator<Item = Value>) -> Vec<Value> {
    fitting_within(items, limits::ANSWER_BYTES_MAX)
}

fn fitting_within(items: impl IntoIterator<Item = Value>, bytes_max: usize) -> Vec<Value> {
    let mut bytes = 0;
    let mut fitting = Vec::new();
    for item in items {
        bytes += item.to_string().len() + 1;
        if bytes > bytes_max && !fitting.is_empty() {
            break;
        }
        fitting.push(item);
    }
    fitting
}

/// What is wrong, as many as an answer takes.
pub(super) fn findings<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<Value> {
    fitting(findings.into_iter().map(finding))
}

fn finding(finding: &Finding) -> Value {
    let level = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    };
    json!({
        "level": level,
        "subject": text(&finding.subject),
        "message": text(&finding.message),
        "remedy": finding.remedy.as_deref().map(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_where_the_answer_is_full() {
        let items = || (0..100).map(|n| json!({ "n": n, "text": "x".repeat(80) }));
        assert_eq!(fitting(items()).len(), 100);
        let few = fitting_within(items(), 1_000);
        assert!((5..=10).contains(&few.len()), "{}", few.len());
        assert_eq!(few[0]["n"], 0);
        assert_eq!(fitting_within(items(), 10).len(), 1);
        assert_eq!(fitting_within([], 10).len(), 0);
    }

    #[test]
    fn a_finding_about_an_endless_key_is_short() {
        let long = "\u{1}".repeat(3 << 20);
        let found = Finding::new(Level::Warning, long.clone(), long.clone()).remedy(long);
        let shown = findings([&found]);
        assert!(shown[0].to_string().len() < 4_000);
        assert_eq!(shown[0]["level"], "warning");
    }
}
