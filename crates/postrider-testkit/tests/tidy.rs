//! The style rules that a machine can check.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

#[path = "tidy/requirements.rs"]
mod requirements;

use std::fs;
use std::path::{Path, PathBuf};

/// The folders that hold packages.
const PACKAGES: [&str; 2] = ["crates", "examples"];
const LINES_MAX: usize = 500;
const BANNED_NAMES: [&str; 8] = [
    "manager",
    "processor",
    "helper",
    "helpers",
    "util",
    "utils",
    "common",
    "base",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below `folder` with this ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            found.extend(files(&path, ending));
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            found.push(path);
        }
    }
    found
}

fn sources() -> Vec<(PathBuf, String)> {
    PACKAGES
        .iter()
        .flat_map(|folder| files(&root().join(folder), "rs"))
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn no_file_is_longer_than_500_lines() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(
            lines <= LINES_MAX,
            "{} has {lines} lines: what are its two concepts?",
            path.display()
        );
    }
}

#[test]
fn every_module_says_what_it_owns() {
    for (path, text) in sources() {
        let is_test = path.components().any(|part| part.as_os_str() == "tests")
            || path.file_name().is_some_and(|name| name == "tests.rs");
        assert!(
            is_test || text.starts_with("//!"),
            "{} does not start with //!",
            path.display()
        );
    }
}

#[test]
fn no_file_has_a_name_that_says_nothing() {
    for (path, _) in sources() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(
            !BANNED_NAMES.contains(&name.as_str()),
            "{}: name what it does",
            path.display()
        );
    }
}

#[test]
fn nothing_is_left_open() {
    let this = Path::new(file!()).file_name().unwrap();
    for (path, text) in sources() {
        for mark in ["todo!(", "unimplemented!(", "#[ignore"] {
            assert!(
                path.file_name() == Some(this) || !text.contains(mark),
                "{} has {mark}",
                path.display()
            );
        }
    }
}

/// One test binary per crate links once.
#[test]
fn a_crate_has_one_integration_test_binary() {
    let packages = PACKAGES
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap().flatten());
    for entry in packages {
        let Ok(tests) = fs::read_dir(entry.path().join("tests")) else {
            continue;
        };
        let binaries = tests
            .flatten()
            .filter(|entry| {
                let path = entry.path();
                path.join("main.rs").exists() || path.extension().is_some_and(|end| end == "rs")
            })
            .count();
        assert!(
            binaries <= 1,
            "{} has {binaries} test binaries",
            entry.path().display()
        );
    }
}

/// The runtime knows traits only: it must not name a driver.
#[test]
fn the_runtime_names_no_driver() {
    for path in files(&root().join("crates/postrider/src"), "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            for driver in ["sqlx", "rdkafka", "google_cloud"] {
                assert!(!line.contains(driver), "{}: {line}", path.display());
            }
        }
    }
}

/// A4-15: what CI runs builds everything, denies warnings and runs every test; a stage that is left out is noticed.
#[test]
fn make_test_runs_every_stage() {
    let text = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    assert!(text(".ci/run").contains("make test"));
    assert!(text("Makefile").contains("\n\t@scripts/test\n"));
    let stages = "set -- services fmt clippy features build test acceptance;";
    let script = text("scripts/test");
    assert!(
        script.contains(stages),
        "scripts/test does not run {stages}"
    );
    for command in [
        "cargo clippy --workspace --all-targets --all-features -- -D warnings",
        "cargo build --workspace --all-targets --all-features",
        "cargo test --workspace --all-features",
    ] {
        assert!(script.contains(command), "scripts/test lacks {command}");
    }
}
