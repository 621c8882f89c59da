//! What the source tree must hold.

use std::fs;

use crate::world::root;

fn read(path: &str) -> String {
    let found = fs::read_to_string(root().join(path));
    found.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A1-15: the consumer example is built (it is a program of this package), the files of the deployment name the
/// publisher as a process of its own, and the README leads to them.
#[test]
fn the_deployment_names_the_publisher() {
    assert!(fs::metadata(crate::world::CONSUMER).is_ok());
    let readme = read("examples/packfinderz/README.md");
    for (file, named) in [
        ("Procfile", "\noutbox-publisher: bin/outbox-publisher\n"),
        ("Procfile", "\noutbox-cleanup: bin/outbox-cleanup\n"),
        ("heroku.yml", "\n  outbox-publisher:\n"),
        ("heroku.yml", "\n  outbox-cleanup:\n"),
        ("Dockerfile", " outbox-publisher"),
        ("Dockerfile", " outbox-cleanup"),
        ("examples/packfinderz/example.mk", "\nrun-outbox-publisher:"),
        ("examples/packfinderz/example.mk", "\nrun-outbox-cleanup:"),
    ] {
        assert!(read(file).contains(named), "{file}");
        let name = file.rsplit('/').next().unwrap();
        assert!(readme.contains(name), "the README does not lead to {file}");
    }
}

/// A1-15: `docs/outbox.md` has its points, and the sentence.
#[test]
fn the_write_up_covers_what_it_must() {
    let text = read("docs/outbox.md");
    for heading in [
        "## Why `FOR UPDATE SKIP LOCKED`",
        "## Why duplicates can happen",
        "## Why Redis",
        "## Crashes, and why they are safe",
    ] {
        assert!(text.contains(heading), "{heading}");
    }
    for point in [
        "duplicates possible; consumers must be idempotent",
        "at least once",
        "30 days",
        "pf:evt:processed:",
    ] {
        assert!(text.contains(point), "{point}");
    }
}

/// S1-77 and S0's table: every variable that the programs read is in the README or the write-up.
#[test]
fn every_variable_is_documented() {
    let settings = read("examples/packfinderz/src/settings.rs");
    let documented = read("examples/packfinderz/README.md") + &read("docs/outbox.md");
    let names: Vec<&str> = settings
        .split('"')
        .filter(|text| text.starts_with("PACKFINDERZ_"))
        .collect();
    assert!(names.len() >= 10, "{names:?}");
    let of_library = [
        "PACKFINDERZ_EVENTING_IDEMPOTENCY_TTL",
        "PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS",
        "PACKFINDERZ_LOG",
    ];
    for name in names.into_iter().chain(of_library) {
        assert!(documented.contains(name), "{name}");
    }
}
