//! Every preset, ordered and not, and two tables that no preset is like.

use crate::world::{world, world_with};

const NONE: &str = "ordering = 'none'";

postrider_testkit::preset_conformance!(crate::world::world);

mod native {
    use super::*;
    postrider_testkit::store_conformance!(world("native", NONE), records dead unordered hold);
}

/// Payloads as `json`.
mod native_json {
    use super::*;
    const JSON: &str = "state = { payload = 'json' }";
    postrider_testkit::store_conformance!(world("native", JSON), records dead hold);
}

/// As many groups as a test of shares needs.
mod native_by_key {
    use super::*;
    postrider_testkit::store_conformance!(world("native", "state = { groups = 4 }"), records dead order hold);
}

/// Small integers, a flag that may be NULL, bytes, a time without a zone, keys that may be NULL, and names
/// that must be quoted.
mod odd_types {
    use super::*;

    const TABLE: &str = r#"CREATE TABLE "odd ""table""; --" (
        "Nr." integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "the key" varchar(20), body bytea NOT NULL,
        made timestamp NOT NULL DEFAULT clock_timestamp(), sent boolean, tries smallint)"#;
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

/// Text ids, states as an enum with words of its own, numbers that may be NULL, and a short error column.
pub(crate) mod odd_states {
    use super::*;

    pub(crate) const TABLE: &str = "
        CREATE SEQUENCE numbers;
        CREATE TYPE word AS ENUM ('new', 'busy', 'done', 'again', 'never');
        CREATE TABLE jobs (name text PRIMARY KEY DEFAULT to_char(nextval('numbers'), '\"job-\"FM000000'),
            who text, body json NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp(),
            word word NOT NULL DEFAULT 'new', tries bigint, why text,
            due timestamp, since timestamp, done_at timestamptz)";
    pub(crate) const LAYOUT: &str = r#"
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
