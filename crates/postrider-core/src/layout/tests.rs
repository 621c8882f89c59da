use super::*;

fn overrides(text: &str) -> toml::Table {
    text.parse().unwrap()
}

#[test]
fn every_preset_loads_under_its_own_name() {
    for name in PRESETS {
        assert_eq!(Layout::preset(name).unwrap().name, name);
    }
}

#[test]
fn an_override_replaces_only_what_it_names() {
    let layout = Layout::with_overrides(
        "packfinderz",
        overrides("table = \"shop.events\"\nordering = \"key\"\n[columns]\npayload = \"body\""),
    )
    .unwrap();
    assert_eq!(layout.table.quoted(), r#""shop"."events""#);
    assert_eq!(layout.columns.payload.as_str(), "body");
    assert_eq!(layout.columns.id.as_str(), "id");
    assert_eq!(layout.ordering, Ordering::Key);
}

#[test]
fn a_custom_layout_starts_from_nothing() {
    let error = Layout::with_overrides("custom", toml::Table::new()).unwrap_err();
    assert!(matches!(error, LayoutError::Malformed { .. }), "{error}");
    let layout = Layout::with_overrides(
        "custom",
        overrides(
            "table = \"events\"\nclaim = \"hold\"\norder = [\"n\"]\nordering = \"none\"\ntopic = \"t\"\n\
             [columns]\nid = \"n\"\npayload = \"p\"\ncreated_at = \"at\"\n[state]\nkind = \"delete\"",
        ),
    )
    .unwrap();
    assert_eq!(layout.name, "custom");
    assert!(layout.needs_troubles());
}

#[test]
fn an_error_names_what_is_wrong_and_what_is_allowed() {
    let text = |result: Result<Layout, LayoutError>| result.unwrap_err().to_string();
    let unknown = text(Layout::preset("rabbit"));
    assert!(
        unknown.contains("`rabbit`") && unknown.contains("packfinderz"),
        "{unknown}"
    );
    let key = text(Layout::with_overrides(
        "gopipe",
        overrides("ordering = \"key\""),
    ));
    assert!(key.contains("columns.key"), "{key}");
    let role = text(Layout::with_overrides(
        "gopipe",
        overrides("topic = \"{subject}\""),
    ));
    assert!(
        role.contains("{subject}") && role.contains("event_type"),
        "{role}"
    );
    let column = text(Layout::with_overrides(
        "gopipe",
        overrides("topic = \"{aggregate_id}\""),
    ));
    assert!(column.contains("columns.aggregate_id"), "{column}");
    let stray = text(Layout::with_overrides("gopipe", overrides("tabel = \"x\"")));
    assert!(stray.contains("tabel"), "{stray}");
}

#[test]
fn a_name_with_quotes_and_semicolons_is_made_harmless() {
    let layout =
        Layout::with_overrides("gopipe", overrides(r#"table = 'a"; DROP TABLE x; --'"#)).unwrap();
    assert_eq!(layout.table.quoted(), r#""a""; DROP TABLE x; --""#);
    let control = Layout::with_overrides("gopipe", overrides("table = \"a\\u0000b\""));
    assert!(
        control
            .unwrap_err()
            .to_string()
            .contains("control character")
    );
}
