//! The whole machinery on a tiny load: servers, a relay that is the real binary, a results file, a page.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests, but not what tests share"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

const BENCH: &str = env!("CARGO_BIN_EXE_postrider-bench");

/// Beside the tests. `cargo test` of this crate alone does not build it.
fn postrider() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("target/<profile>/deps/it");
    let binary = profile.join("postrider");
    if !binary.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "-p", "postrider-cli", "--all-features"]);
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.unwrap().success(), "postrider cannot be built");
    }
    binary
}

/// A folder of our own, which goes with us.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("bench-test-{}", std::process::id());
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = target.join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

fn figure(results: &serde_json::Value, step: &str, subject: &str, name: &str) -> f64 {
    let all = results["measurements"].as_array().unwrap();
    let found = all
        .iter()
        .find(|one| one["step"] == step && one["subject"] == subject);
    let found = found.unwrap_or_else(|| panic!("no {step} of {subject} in {results:#}"));
    assert!(found.get("failed").is_none(), "{found:#}");
    found["figures"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name} in {found:#}"))
}

#[test]
fn a_run_measures_our_relay_and_makes_a_page() {
    let folder = Folder::new();
    let run = Command::new(BENCH)
        .args(["run", "--subjects", "postrider-stream"])
        .args(["--phases", "drain,steady", "--rounds", "1"])
        .args(["--records", "2000", "--rate", "200", "--secs", "1"])
        .args(["--warm-up-secs", "1", "--quiet-secs", "0", "--dir"])
        .arg(&folder.0)
        .env("BENCH_POSTRIDER", postrider())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let file = String::from_utf8(run.stdout).unwrap().trim().to_owned();
    let results: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();

    let stream = |step: &str, name: &str| figure(&results, step, "postrider-stream", name);
    assert_eq!(stream("drain-2000", "records"), 2000.0);
    // The probe, the warm-up and what counts.
    assert_eq!(stream("steady-200", "records"), 401.0);
    for step in ["drain-2000", "steady-200"] {
        for name in ["lost", "inverted", "duplicates", "wrong_keys", "foreign"] {
            assert_eq!(stream(step, name), 0.0, "{step}: {name}");
        }
        for name in ["per_sec", "relay_cpu_secs", "peak_mb", "wal_bytes"] {
            assert!(stream(step, name) > 0.0, "{step}: {name}");
        }
    }
    assert!(stream("steady-200", "latency_p99_ms") >= stream("steady-200", "latency_p50_ms"));
    for limit in ["produce-only", "read-only"] {
        assert!(figure(&results, "drain-2000", limit, "per_sec") > 0.0);
    }
    // The servers are gone, and their data.
    let left = std::fs::read_dir(folder.0.join("servers")).unwrap().count();
    assert_eq!(left, 0);

    let page = folder.0.join("page.md");
    let marks =
        ["begin", "end"].map(|at| format!("<!-- written by `postrider-bench report`: {at} -->"));
    std::fs::write(&page, marks.join("\n")).unwrap();
    let mut report = Command::new(BENCH);
    let made = report.args(["report", &file, "--to"]).arg(&page).status();
    assert!(made.unwrap().success());
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("### Drain of 2,000 records"), "{text}");
    assert!(folder.0.join("page/drain-2000.svg").exists());
}
