//! The fields of a struct with their doc comments, read from its source.

use std::path::Path;

pub(super) struct Field {
    pub(super) name: String,
    /// As it is written.
    pub(super) kind: String,
    pub(super) doc: String,
}

/// Knows structs as rustfmt leaves them: one field a line, below its comment and its attributes.
pub(super) fn fields(file: &str, name: &str) -> Vec<Field> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let head = format!("struct {name} {{\n");
    let (_, body) = text
        .split_once(&head)
        .unwrap_or_else(|| panic!("{file} has no {name}"));
    let (body, _) = body.split_once("\n}").unwrap();
    let mut doc = Vec::new();
    let mut found = Vec::new();
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim());
        } else if let Some((name, kind)) = line
            .strip_prefix("pub")
            .and_then(|line| line.split_once(": "))
        {
            let name = name.rsplit(' ').next().unwrap();
            found.push(Field {
                name: name.into(),
                kind: kind.trim_end_matches(',').into(),
                doc: std::mem::take(&mut doc).join(" "),
            });
        }
    }
    found
}
