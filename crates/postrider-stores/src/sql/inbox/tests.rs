//! The statements of the presets and of a table that is like neither, against their files in `tests/golden`.

use super::*;
use crate::sql::dialect::POSTGRES;
use crate::sql::statement::compare;
use crate::sql::table::Column;

/// A table with columns of these types.
fn table(layout: &InboxLayout, columns: &[(&str, Kind, &str)]) -> Table {
    let mut table = Table::unseen(&layout.table);
    let column = |&(name, kind, sql_type): &(&str, Kind, &str)| Column {
        name: name.into(),
        kind,
        sql_type: sql_type.into(),
        nullable: false,
        default: None,
        chars_max: None,
        labels: Vec::new(),
        sequence_cached: false,
        may_select: true,
        may_update: true,
        may_insert: true,
        details: Default::default(),
    };
    table.columns = columns.iter().map(column).collect();
    table
}

#[test]
fn statements_are_as_they_were() {
    let odd = InboxLayout {
        table: r#"a "b".c; --"#.to_owned().try_into().unwrap(),
        columns: InboxColumns {
            subscriber: Some(r#"who "is" it"#.to_owned().try_into().unwrap()),
            ..InboxLayout::polyshop().columns
        },
        ..InboxLayout::polyshop()
    };
    let text = |name| (name, Kind::Text, "text");
    let uuid = ("event_id", Kind::Uuid, "uuid");
    let cases = [
        (
            "gopipe",
            InboxLayout::gopipe(),
            vec![text("message_id"), text("subscriber")],
        ),
        (
            "polyshop",
            InboxLayout::polyshop(),
            vec![uuid, text("event_type"), text("source")],
        ),
        (
            "odd",
            odd,
            vec![uuid, text("source"), (r#"who "is" it"#, Kind::Enum, "word")],
        ),
    ];
    for (name, layout, columns) in cases {
        let table = table(&layout, &columns);
        let name = |what: &str| format!("inbox_{name}/{what}");
        compare(&name("admit"), &admit(&layout, &table, &POSTGRES));
        compare(&name("purge"), &purge(&layout, &POSTGRES));
        compare(&name("create"), &create(&layout, &POSTGRES).join(";\n"));
    }
}
