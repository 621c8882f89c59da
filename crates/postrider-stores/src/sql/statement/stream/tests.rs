//! The statements of a stream against their files in `tests/golden`.

use postrider_core::{Layout, RecordFilter};

use crate::sql::dialect::POSTGRES;
use crate::sql::statement::Writer;
use crate::sql::statement::stream::{Moved, Stamp, Stream};
use crate::sql::statement::tests::{RULES, change_text, compare, insert_text, table, whole_filter};

#[test]
fn statements_of_a_stream_are_as_they_were() {
    for ordering in ["key", "none"] {
        let overrides = format!("ordering = '{ordering}'").parse().unwrap();
        let layout = Layout::with_overrides("native", overrides).unwrap();
        let table = table(&layout);
        let writer = Writer {
            layout: &layout,
            table: &table,
            dialect: &POSTGRES,
            rules: RULES,
        };
        let stream = writer.stream(true).unwrap();
        let statements = writer.statements();
        let find = writer.find("o", &whole_filter(), None, 50);
        let count = writer.count("o", &RecordFilter::dead());
        for (what, text) in [
            ("look", &*stream.look(&[0, 1])),
            ("set_back", &stream.set_back),
            ("later", &stream.difference.later[1]),
            ("running", &stream.difference.running),
            ("both", &stream.difference.both[1]),
            ("due", &stream.due),
            ("parked_keys", &stream.parked),
            ("advance", &advance(&stream)),
            ("copy", &stream.copy),
            ("retry", &stream.retry),
            ("backlog", &stream.backlog),
            ("segment_over", &stream.segments.each[1].over),
            ("aside", &stream.aside),
            ("renumber", &stream.anchor.renumber),
            ("find", &find.text),
            ("count_dead", &count.text),
            ("dead_lock", &statements.dead.lock),
            ("dead_resend", &change_text(&statements.dead.resend)),
            ("dead_discard", &change_text(&statements.dead.discard)),
            ("insert", &insert_text(&layout, &table, &POSTGRES)),
        ] {
            compare(&format!("native_{ordering}/{what}"), text);
        }
    }
}

fn advance(stream: &Stream) -> String {
    let moved = Moved {
        group: 0,
        version: 7,
        epoch: 1,
        position: 42,
        from: "3:9:4,5".into(),
        from_low: 30,
        to: Some("12:12:".into()),
        to_low: 40,
        to_high: 50,
    };
    let ended = Moved {
        group: 1,
        to: None,
        ..moved.clone()
    };
    let stamp = Stamp {
        next_low: 60,
        system: Some("it's".into()),
        timeline: "00000001".into(),
    };
    stream.advance.text(&[moved, ended], &stamp)
}
