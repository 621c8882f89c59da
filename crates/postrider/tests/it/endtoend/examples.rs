//! Where the examples' binaries are. `cargo test` builds them, but not when it is given the name of a test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::SystemTime;

const EXAMPLES: [&str; 2] = ["consumer", "relay"];

/// The folder beside that of the tests.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("target/<profile>/deps/it");
    let folder = profile.join("examples");
    let built_at = EXAMPLES.iter().map(|name| changed_at(&folder.join(name)));
    if built_at.min() < Some(sources_changed_at()) {
        build();
    }
    folder
});

pub(crate) fn binary(example: &str) -> PathBuf {
    FOLDER.join(example)
}

fn build() {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "-p", "postrider", "--all-features", "--examples"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(built.unwrap().success(), "the examples cannot be built");
}

fn sources_changed_at() -> SystemTime {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["src", "examples"].map(|name| library.join(name));
    let parts = ["core", "stores", "brokers"];
    let parts = parts.map(|part| library.join(format!("../postrider-{part}/src")));
    let changed = sources.iter().chain(&parts).map(|folder| newest(folder));
    changed.max().expect("five folders")
}

/// Of all files below.
fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).unwrap();
    let times = entries.map(|entry| match entry.unwrap().path() {
        path if path.is_dir() => newest(&path),
        path => changed_at(&path),
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Long ago, if there is none.
fn changed_at(file: &Path) -> SystemTime {
    let changed = file.metadata().and_then(|metadata| metadata.modified());
    changed.unwrap_or(SystemTime::UNIX_EPOCH)
}
