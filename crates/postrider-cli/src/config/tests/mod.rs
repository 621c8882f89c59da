//! What a config may say, and what each mistake is answered with.

mod admin;
mod environment;
mod mistakes;
mod reference;
mod secrets;
mod values;

use std::path::Path;

use super::Config;
use super::document::Document;
use super::error::ConfigError;
use super::secret::{Environment, Sources};

/// A config that is right, in the fewest words.
pub(super) const GOOD: &str = r#"
[broker.main]
kind = "memory"

[[outbox]]
name = "orders"
database = "postgres://shop@db/shop"
layout = "polyshop"
broker = "main"
"#;

fn read_with(text: &str, environment: Environment) -> Result<Config, ConfigError> {
    let file = Path::new("postrider.toml");
    let sources = Sources {
        environment,
        dir: testdata(),
    };
    Config::read(Document::new(file, text.into()), &sources)
}

fn read(text: &str) -> Result<Config, ConfigError> {
    read_with(text, Environment::default())
}

/// [`GOOD`] with more lines for the outbox.
fn outbox(lines: &str) -> Result<Config, ConfigError> {
    read(&format!("{GOOD}{lines}"))
}

fn refused(text: &str) -> String {
    read(text).expect_err("this config is wrong").to_string()
}

fn outbox_refused(lines: &str) -> String {
    outbox(lines).expect_err("this config is wrong").to_string()
}

fn testdata() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}
