//! Every statement of every preset against its file in `tests/golden`. `POSTRIDER_BLESS=1 cargo test`
//! writes the files anew; read the difference before committing it.

use std::path::Path;
use std::time::Duration;

use postrider_core::layout::PRESETS;
use postrider_core::{
    Event, Layout, OnDead, RecordFilter, RecordId, RecordState, Routes, Timestamp,
};

use super::*;
use crate::sql::dialect::{Dialect, POSTGRES, SQLITE};
use crate::sql::draft::{Drafting, Trace};
use crate::sql::table::Column;

pub(super) const RULES: Rules = Rules {
    max_attempts: 25,
    on_dead: OnDead::Park,
    lease: Duration::from_secs(60),
    order_is_drawn: true,
};

/// A table as `init` makes it for a preset, as far as statements care.
pub(super) fn table(layout: &Layout) -> Table {
    let column = |name: &str, kind, sql_type: &str| Column {
        name: name.into(),
        kind,
        sql_type: sql_type.into(),
        nullable: false,
        default: None,
        chars_max: None,
        labels: vec!["order_created".into(), "vendor_order".into()],
        sequence_cached: false,
        may_select: true,
        may_update: true,
        may_insert: true,
        details: Default::default(),
    };
    let columns = &layout.columns;
    let mut table = Table::unseen(&layout.table);
    let uuid_key = layout.name == "packfinderz";
    let id_kind = if ["gopipe", "native"].contains(&layout.name.as_str()) {
        (Kind::Int, "bigint")
    } else {
        (Kind::Uuid, "uuid")
    };
    let word = if uuid_key {
        (Kind::Uuid, "uuid")
    } else {
        (Kind::Text, "text")
    };
    let label = |name| {
        if uuid_key {
            (Kind::Enum, name)
        } else {
            (Kind::Text, "text")
        }
    };
    let typed = [
        (Some(&columns.id), id_kind),
        (columns.event_type.as_ref(), label("event_type_enum")),
        (
            columns.aggregate_type.as_ref(),
            label("aggregate_type_enum"),
        ),
        (columns.aggregate_id.as_ref(), word),
        (columns.topic.as_ref(), (Kind::Text, "text")),
        (columns.key.as_ref(), word),
        (columns.idempotency_key.as_ref(), (Kind::Text, "text")),
        (columns.version.as_ref(), (Kind::Int, "integer")),
        (Some(&columns.payload), (Kind::Jsonb, "jsonb")),
        (columns.headers.as_ref(), (Kind::Jsonb, "jsonb")),
        (columns.metadata.as_ref(), (Kind::Jsonb, "jsonb")),
        (
            Some(&columns.created_at),
            (Kind::Time, "timestamp with time zone"),
        ),
        (columns.attempts.as_ref(), (Kind::Int, "integer")),
        (columns.last_error.as_ref(), (Kind::Text, "text")),
    ];
    for (name, (kind, sql_type)) in typed {
        if let Some(name) = name.filter(|name| table.column(name).is_none()) {
            table.columns.push(column(name.as_str(), kind, sql_type));
        }
    }
    if let State::Status { column: status, .. } = &layout.state {
        table
            .columns
            .push(column(status.as_str(), Kind::Text, "text"));
    }
    table
}

fn event(layout: &Layout) -> Event {
    let columns = &layout.columns;
    let event = Event::raw("order_created", "{}");
    let key = Some("00000000-0000-0000-0000-00000000000a".to_owned());
    Event {
        aggregate_type: columns
            .aggregate_type
            .as_ref()
            .map(|_| "vendor_order".into()),
        aggregate_id: columns.aggregate_id.as_ref().and(key.clone()),
        key: columns.key.as_ref().and(key),
        topic: columns.topic.as_ref().map(|_| "orders".into()),
        idempotency_key: columns.idempotency_key.as_ref().map(|_| "once".into()),
        ..event
    }
}

pub(super) fn insert_text(layout: &Layout, table: &Table, dialect: &Dialect) -> String {
    let trace = Trace {
        trace_id: "t".into(),
        traceparent: "00-t-s-01".into(),
    };
    let routes = Routes::new();
    let now = Timestamp::from_micros(0);
    let events = [event(layout)];
    let drafting = Drafting {
        layout,
        table,
        routes: &routes,
        trace: Some(&trace),
        now,
    };
    insert(layout, table, dialect, &drafting.draft(&events).unwrap())
}

#[test]
fn statements_are_as_they_were() {
    statements_in("", &POSTGRES);
}

#[test]
fn statements_for_sqlite_are_as_they_were() {
    statements_in("sqlite_", &SQLITE);
}

fn statements_in(database: &str, dialect: &Dialect) {
    // What is only appended to has statements of its own.
    for preset in PRESETS.into_iter().filter(|preset| *preset != "native") {
        for ordering in ["key", "none"] {
            if preset == "gopipe" && ordering == "key" {
                continue; // It has no key.
            }
            let overrides = format!("ordering = '{ordering}'").parse().unwrap();
            let layout = Layout::with_overrides(preset, overrides).unwrap();
            let table = table(&layout);
            let writer = Writer {
                layout: &layout,
                table: &table,
                dialect,
                rules: RULES,
            };
            let statements = writer.statements();
            let name = |what: &str| format!("{database}{preset}_{ordering}/{what}");
            compare(&name("claim"), &statements.claim);
            compare(&name("settle_published"), &statements.settle_published);
            compare(&name("settle_failed"), &statements.settle_failed);
            compare(&name("backlog"), &statements.backlog);
            compare(
                &name("purge"),
                statements.purge.as_deref().unwrap_or("-- nothing to purge"),
            );
            compare(&name("dead_lock"), &statements.dead.lock);
            compare(&name("dead_resend"), &change_text(&statements.dead.resend));
            compare(
                &name("dead_discard"),
                &change_text(&statements.dead.discard),
            );
            let find = writer.find("o", &whole_filter(), Some(&cursor(&layout)), 50);
            compare(&name("find"), &find.text);
            let everything = RecordFilter::default();
            let read = writer.read(&statements.selection, "o", &everything, None, 50);
            compare(&name("read"), &read.text);
            let parked = writer.parked("o", 50).map(|question| question.text);
            let parked = parked.unwrap_or_else(|| "-- no order is kept".into());
            compare(&name("parked"), &parked);
            compare(&name("insert"), &insert_text(&layout, &table, dialect));
        }
    }
}

pub(super) fn change_text(change: &Change) -> String {
    let texts: Vec<&str> = [&change.outbox, &change.troubles]
        .into_iter()
        .filter_map(|text| text.as_deref())
        .collect();
    texts.join(";\n")
}

pub(super) fn whole_filter() -> RecordFilter {
    RecordFilter {
        state: Some(RecordState::Waiting),
        ids: vec![RecordId::Int(7)],
        event_type: Some("order_created".into()),
        key: Some("k".into()),
        topic: Some("orders".into()),
        error: Some("broker".into()),
        since: Some(Timestamp::from_micros(1)),
        until: Some(Timestamp::from_micros(2)),
    }
}

fn cursor(layout: &Layout) -> Vec<String> {
    vec!["v".into(); layout.order.len()]
}

pub(crate) fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.sql"));
    let text = format!("{text}\n");
    if std::env::var_os("POSTRIDER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{name}; POSTRIDER_BLESS=1 accepts it");
}

#[test]
fn a_word_with_a_quote_stays_a_word() {
    assert_eq!(literal("it's"), "'it''s'");
}
