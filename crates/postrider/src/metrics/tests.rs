use std::collections::BTreeSet;

use super::*;

const PAGE: &str = include_str!("../../../../docs/metrics.md");
const ALERTS: &str = include_str!("../../../../deploy/prometheus/alerts.yml");
const ALERTS_TEST: &str = include_str!("../../../../deploy/prometheus/alerts_test.yml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana/postrider.json");

/// Every name that is exported, as it stands in a query: histograms by their parts too.
fn exported() -> BTreeSet<String> {
    let metrics = Metrics::new();
    let _outbox = metrics.of("orders");
    let _consumer = metrics.of_consumer("payments");
    let text = metrics.encode();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| name_at_start(line).to_owned()).collect()
}

/// The same names as the page has them: a histogram once.
fn documented_form(exported: &BTreeSet<String>) -> BTreeSet<String> {
    let whole = |name: &String| {
        let part = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|part| name.strip_suffix(part));
        part.unwrap_or(name).to_owned()
    };
    exported.iter().map(whole).collect()
}

fn name_at_start(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Every word of the text that looks like one of our metrics.
fn named_in(text: &str) -> BTreeSet<String> {
    text.match_indices("postrider_")
        .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
        .map(|(at, _)| name_at_start(&text[at..]).to_owned())
        .collect()
}

#[test]
fn the_page_lists_exactly_the_metrics_that_exist() {
    let rows = PAGE
        .lines()
        .filter(|line| line.starts_with("| `postrider_"));
    let listed: BTreeSet<String> = rows
        .flat_map(|row| named_in(&row[..row.find("` |").unwrap()]))
        .collect();
    assert_eq!(listed, documented_form(&exported()));
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let exported = exported();
    for (file, text) in [
        ("alerts.yml", ALERTS),
        ("alerts_test.yml", ALERTS_TEST),
        ("postrider.json", DASHBOARD),
    ] {
        let named = named_in(text);
        assert!(!named.is_empty(), "{file}");
        let unknown: Vec<_> = named.difference(&exported).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}");
    }
}

/// What nobody draws is not seen.
#[test]
fn the_dashboard_draws_every_metric() {
    let drawn = documented_form(&named_in(DASHBOARD));
    assert_eq!(drawn, documented_form(&exported()));
}
