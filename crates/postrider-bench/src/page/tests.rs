use super::*;
use crate::run::results::Measurement;

fn measurement(round: u32, step: &str, subject: &str, figures: &str) -> Measurement {
    let text = format!(
        r#"{{"round": {round}, "step": "{step}", "subject": "{subject}", "took_secs": 3,
            "quiet": {{"busy": 0.02, "waited_secs": 0.5}}, "figures": {{{figures}}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Two subjects and a limit, two rounds of a drain and one of a steady load; the last one failed.
fn sample() -> Book {
    let drain = |rate: u64, half: u64| {
        format!(
            r#""records": 1000000, "per_sec": {rate}, "second_half_per_sec": {half}, "first_tenth_per_sec": 100,
               "last_tenth_per_sec": 95, "relay_cpu_secs": 3, "second_half_relay_cpu_secs": 20, "peak_mb": 30,
               "wal_bytes": 0, "died_tuples": 7, "died_tuples postrider_outbox_stream": 7, "lost": 0, "inverted": 0,
               "duplicates": 2"#
        )
    };
    let subject = |name: &str, peer: bool, warms_up: bool| {
        serde_json::json!({
            "name": name, "title": format!("The {name}"), "peer": peer, "warms_up": warms_up,
            "settings": {"batch": "100"}, "versions": {name: "1.2"},
        })
    };
    let mut run: Results = serde_json::from_value(serde_json::json!({
        "started": "2026-01-02T03:04:05.678Z", "version": "0.1.0", "commit": "0123456789abcdef", "changed": false,
        "machine": {"cpu": "a CPU", "cores": 2, "memory_gb": 23.0, "kernel": "Linux 6"},
        "servers": [["postgres fsync", "on"]], "rounds": 2, "payload_bytes": 500,
        "subjects": [subject("postrider-stream", false, false), subject("debezium-tuned", true, true)],
        "measurements": [],
    }))
    .unwrap();
    for round in 1..=2 {
        let step = "drain-1000000";
        run.measurements.extend([
            measurement(
                round,
                step,
                "produce-only",
                r#""per_sec": 500000, "records": 1000000"#,
            ),
            measurement(
                round,
                step,
                "postrider-stream",
                &drain(390_000 + 20_000 * u64::from(round - 1), 1),
            ),
            measurement(round, step, "debezium-tuned", &drain(1, 50_000)),
        ]);
    }
    let latency = r#""latency_p50_ms": 2.5, "latency_p99_ms": 12, "latency_p999_ms": 30, "records": 40000, "lost": 1, "inverted": 0"#;
    run.measurements
        .push(measurement(1, "steady-2000", "postrider-stream", latency));
    let mut failed = measurement(1, "steady-2000", "debezium-tuned", "");
    failed.failed = Some("the relay ended | by itself\nmore".into());
    run.measurements.push(failed);
    Book::new(vec![run])
}

#[test]
fn medians_spreads_and_ratios_are_in_the_tables() {
    let made = made(&sample(), "benchmarks");
    for line in [
        "| The postrider-stream | 400,000 (390,000–410,000) |",
        "| stream drain, of produce-only | ≥ 65 % | 80 % | met |",
        // Of what warms up, the second half counts.
        "| stream drain, times Debezium tuned | ≥ 7 × | 8 × | met |",
        "| stream, p50 at 2,000/s | ≤ 3 ms | 2.5 ms | met |",
        "| stream, p99 at 2,000/s | ≤ 10 ms | 12 ms | **missed** |",
        "| hold drain, times Watermill tuned | ≥ 20 × | – | not measured |",
        // 0.3 s per 100,000 against 4 s.
        "| stream drain, relay CPU per record, of Debezium tuned without its start | ≤ 10 % | 7.5 % | met |",
        // The progress row of a stream is not in its outbox.
        "| dead rows in the native outbox, all phases | ≤ 0 | 0 | met |",
        "| lost or inverted, ours, all phases | ≤ 0 | 1 | **missed** |",
        "| The debezium-tuned | steady-2000 | 1 | the relay ended / by itself |",
        "| 2026-01-02T03:04:05 | 0123456789ab | 2 | 8 | 2 % / 2 % |",
    ] {
        assert!(
            made.tables.contains(line),
            "{line} is not in\n{}",
            made.tables
        );
    }
}

#[test]
fn what_is_stuck_or_held_is_compared_with_the_same_run_without() {
    let mut book = sample();
    let measurements = &mut book.runs[0].measurements;
    for (step, subject, claim_ms, cores) in [
        ("stuck-0", "postrider-hold", 10.0, 0.01),
        ("stuck-0", "postrider-lease", 20.0, 0.02),
        ("stuck-10000", "postrider-hold", 25.0, 0.03),
        ("stuck-10000", "postrider-lease", 30.0, 0.06),
        ("stuck-100000", "postrider-hold", 149.0, 0.05),
    ] {
        let figures =
            format!(r#""claim_ms": {claim_ms}, "idle_cores": {cores}, "claim_records": 1000"#);
        measurements.push(measurement(1, step, subject, &figures));
    }
    let held = r#""clean_latency_p50_ms": 2, "clean_latency_p99_ms": 10, "latency_p50_ms": 3, "latency_p99_ms": 14"#;
    for step in ["held", "held-writer"] {
        measurements.push(measurement(1, step, "postrider-hold", held));
    }
    let made = made(&book, "benchmarks");
    for line in [
        "| claim of 1,000 behind 10,000 stuck, times without, slowest layout | ≤ 2 × | 2.5 × | **missed** |",
        "| claim of 1,000 behind 100,000 stuck, slowest layout | ≤ 150 ms | 149 ms | met |",
        "| idle, relay and Postgres, none stuck, dearest layout | ≤ 0.02 core | 0.02 core | met |",
        "| idle, relay and Postgres, 10,000 stuck, dearest layout | ≤ 0.05 core | 0.06 core | **missed** |",
        "| hold, p99 with a held transaction, times without | ≤ 1.5 × | 1.4 × | met |",
        "| lease, p99 with a held transaction, times without | ≤ 1.5 × | – | not measured |",
        "### 10,000 stuck records",
        "| postrider-lease | 30 | 1.5 | 1,000 | 0.06 |",
        "### A transaction held open that has written to the outbox, 2,000/s",
        "| postrider-hold | 2 / 10 / – | 3 / 14 / – | 1.5 / 1.4 |",
    ] {
        assert!(
            made.tables.contains(line),
            "{line} is not in\n{}",
            made.tables
        );
    }
    let held = "### A transaction held open elsewhere";
    assert_eq!(made.tables.matches(held).count(), 1);
}

#[test]
fn charts_show_every_subject_that_has_figures() {
    let charts = made(&sample(), "benchmarks").charts;
    let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["drain-1000000.svg", "steady-2000.svg"]);
    let drain = &charts[0].1;
    assert_eq!(drain.matches("<rect").count(), 3);
    assert!(drain.contains("The postrider-stream") && drain.contains("400,000/s"));
    assert!(drain.contains("prefers-color-scheme: dark"));
    // The one that failed has no latency. Two parts: p50 and p99.
    assert_eq!(charts[1].1.matches("<rect").count(), 2);
}

#[test]
fn only_what_is_between_the_marks_is_written() {
    let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
    let put = put_between(&page, "new").unwrap();
    assert_eq!(put, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
    assert_eq!(put_between(&put, "new").unwrap(), put);
    assert!(put_between("no marks", "new").is_err());
}

#[test]
fn where_it_was_measured_is_not_published() {
    let root = crate::run::root();
    assert!(refuse_private(&format!("{}/x", root.display())).is_err());
    assert!(refuse_private("postgres://somewhere").is_err());
    let text = sample().runs[0].text().unwrap();
    refuse_private(&text).unwrap();
}

/// The page is what `report` makes of the stored results.
#[test]
fn the_page_is_made_from_the_stored_results() {
    let page = crate::run::root().join("docs/benchmarks.md");
    let folder = page.with_extension("");
    let made = make(&folder).unwrap();
    let text = std::fs::read_to_string(&page).unwrap();
    let again = put_between(&text, &made.tables).unwrap();
    assert!(text == again, "run `postrider-bench report`");
    for (name, svg) in made.charts {
        let stored = std::fs::read_to_string(folder.join(&name)).unwrap();
        assert!(stored == svg, "run `postrider-bench report`: {name}");
    }
}
