//! `docs/requirements.md` names every statement of the five systems, and where it says that something lives, it does.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The systems' statements, and how many each has.
const STATEMENTS: [(&str, u32); 6] = [
    ("S0", 76),
    ("S1", 94),
    ("S2", 43),
    ("S3", 92),
    ("S4", 100),
    ("X", 23),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/requirements.md")).unwrap()
}

/// A number at the beginning, and what follows it.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(digits.unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

/// `01`, `01…07` or `01…07, 09`: the numbers after a system's name.
fn numbers(mut text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    while let Some((first, rest)) = number(text) {
        let to = rest.strip_prefix('…').and_then(number);
        let (last, rest) = to.unwrap_or((first, rest));
        found.extend(first..=last);
        let Some(next) = rest.strip_prefix(", ") else {
            break;
        };
        text = next;
    }
    found
}

#[test]
fn every_statement_of_the_five_systems_is_named() {
    let page = page();
    for (system, count) in STATEMENTS {
        let mut named = HashSet::new();
        for (at, name) in page.match_indices(&format!("{system}-")) {
            let is_word = !page[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            named.extend(
                numbers(&page[at + name.len()..])
                    .into_iter()
                    .filter(|_| is_word),
            );
        }
        let missing: Vec<String> = (1..=count)
            .filter(|number| !named.contains(number))
            .map(|number| format!("{system}-{number:02}"))
            .collect();
        assert!(
            missing.is_empty(),
            "docs/requirements.md does not name {missing:?}"
        );
    }
}

/// `{a,b}.rs` is `a.rs` and `b.rs`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (choices, after) = rest.split_once('}').unwrap();
    let choices = choices.split(',');
    choices
        .map(|choice| format!("{before}{choice}{after}"))
        .collect()
}

/// Where a path of the page may be found: in an example, or in the crate that is named before a colon.
fn places(named: &str) -> Option<Vec<PathBuf>> {
    if named.starts_with("examples/") {
        return Some(vec![root().join(named)]);
    }
    let (package, path) = named.split_once(": ")?;
    let package = match package {
        "postrider" => "postrider".to_owned(),
        "core" | "stores" | "brokers" | "cli" => format!("postrider-{package}"),
        _ => return None,
    };
    let folder = root().join("crates").join(package);
    let is_path = path.contains('/') || path.ends_with(".rs");
    is_path.then(|| vec![folder.join(path), folder.join("src").join(path)])
}

#[test]
fn what_is_named_as_a_place_exists() {
    let page = page();
    let mut looked_at = 0;
    for named in page.split('`').skip(1).step_by(2) {
        for path in expanded(named) {
            let Some(places) = places(&path) else {
                continue;
            };
            looked_at += 1;
            let exists = places.iter().any(|place| place.exists());
            assert!(
                exists,
                "docs/requirements.md names {path}, which does not exist"
            );
        }
    }
    assert!(looked_at > 50, "only {looked_at} places are named");
}
