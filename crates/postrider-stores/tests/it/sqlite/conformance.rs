//! Every preset, ordered and not, and two tables that no preset is like.

use super::world::world_with;

postrider_testkit::preset_conformance!(crate::sqlite::world::world);

/// A row number as the id, a flag that is an integer and may be NULL, bytes, keys that may be NULL, and names that must
/// be quoted.
mod odd_types {
    use super::*;

    const TABLE: &str = r#"CREATE TABLE "odd ""table""; --" (
        "Nr." INTEGER PRIMARY KEY, "the key" VARCHAR(20), body BLOB NOT NULL,
        made INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000000), sent INTEGER, tries INT)"#;
    const LAYOUT: &str = r#"
        table = 'odd "table"; --'
        claim = "hold"
        order = ["Nr."]
        ordering = "key"
        topic = "t"
        [columns]
        id = "Nr."
        key = "the key"
        payload = "body"
        created_at = "made"
        [state]
        kind = "flag"
        published = "sent"
    "#;

    postrider_testkit::store_conformance!(world_with("custom", LAYOUT, TABLE), records dead order hold);
}

/// Text ids that the database makes, words of its own, numbers that may be NULL, and columns without a proper type.
mod odd_states {
    use super::*;

    const TABLE: &str = "
        CREATE TABLE jobs (name TEXT NOT NULL PRIMARY KEY DEFAULT ('job-' || lower(hex(randomblob(8)))),
            who ANY, body JSON, at TIMESTAMP INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000000),
            word TEXT NOT NULL DEFAULT 'new', tries BIGINT, why TEXT,
            due INTEGER, since INTEGER, done_at INTEGER)";
    const LAYOUT: &str = r#"
        table = "jobs"
        claim = "lease"
        order = ["at", "name"]
        ordering = "key"
        topic = "t"
        [columns]
        id = "name"
        key = "who"
        payload = "body"
        created_at = "at"
        attempts = "tries"
        last_error = "why"
        [state]
        kind = "status"
        column = "word"
        pending = "new"
        publishing = "busy"
        published = "done"
        failed = "again"
        dead = "never"
        retry_at = "due"
        last_attempt_at = "since"
        published_at = "done_at"
    "#;

    postrider_testkit::store_conformance!(world_with("custom", LAYOUT, TABLE), records dead order lease);
}
