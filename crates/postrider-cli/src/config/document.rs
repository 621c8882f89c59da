//! The config file as text: finds the line of a key, so that an error can point at it. Lines that hold
//! a secret are pointed at, never quoted.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::{KeyPath, Place, Step};
use super::secret::is_secret_name;

pub(super) struct Document {
    file: String,
    text: String,
}

impl Document {
    pub(super) fn new(file: &Path, text: String) -> Self {
        Self {
            file: file.display().to_string(),
            text,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Where a key is written, or the nearest table around it that is.
    pub(super) fn place_of(&self, path: &KeyPath) -> Option<Place> {
        let document = DeValue::Table(DeTable::parse(&self.text).ok()?.into_inner());
        let mut value = &document;
        let mut nearest = None;
        for step in path.steps() {
            let found = match step {
                Step::Key(name) => value.get(name.as_str()),
                Step::Item { index, .. } => value.get(*index),
            };
            let Some(found) = found else { break };
            nearest = Some(found.span());
            value = found.get_ref();
        }
        nearest.map(|span| self.place(span))
    }

    /// The key whose value or name covers `span`.
    pub(super) fn key_at(&self, span: &Range<usize>) -> KeyPath {
        let Ok(document) = DeTable::parse(&self.text) else {
            return KeyPath::root();
        };
        key_in(document.get_ref(), span, &KeyPath::root()).unwrap_or_default()
    }

    pub(super) fn place(&self, span: Range<usize>) -> Place {
        let start = self
            .text
            .floor_char_boundary(span.start.min(self.text.len()));
        let line_start = self.text[..start]
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        let line = self.text[..start].matches('\n').count() + 1;
        let content = self.text[line_start..].lines().next().unwrap_or_default();
        let column = self.text[line_start..start].chars().count() + 1;
        let width_max = content.chars().count().saturating_sub(column - 1).max(1);
        let width = self
            .text
            .get(start..span.end)
            .map_or(1, |text| text.chars().count());
        let gutter = " ".repeat(line.to_string().len());
        let shown = without_secret(content);
        let caret = match shown {
            Some(_) => String::new(),
            None => format!(
                "\n{gutter} | {}{}",
                " ".repeat(column - 1),
                "^".repeat(width.clamp(1, width_max))
            ),
        };
        let shown = shown.as_deref().unwrap_or(content);
        let excerpt = format!("{gutter} |\n{line} | {shown}{caret}");
        Place::File {
            file: self.file.clone(),
            line,
            column,
            excerpt,
        }
    }
}

fn key_in(table: &DeTable<'_>, span: &Range<usize>, path: &KeyPath) -> Option<KeyPath> {
    table.iter().find_map(|(name, value)| {
        let path = path.key(name.get_ref().as_ref());
        value_at(value.get_ref(), span, &path)
            .or_else(|| (covers(&name.span(), span) || covers(&value.span(), span)).then_some(path))
    })
}

fn value_at(value: &DeValue<'_>, span: &Range<usize>, path: &KeyPath) -> Option<KeyPath> {
    match value {
        DeValue::Table(table) => key_in(table, span, path),
        DeValue::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let name = item
                .get_ref()
                .get("name")
                .and_then(|name| name.get_ref().as_str());
            value_at(item.get_ref(), span, &path.item(index, name))
        }),
        _ => None,
    }
}

fn covers(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// The line cut after its `=`, where what follows may be a secret.
fn without_secret(line: &str) -> Option<String> {
    let (name, _) = line.split_once('=')?;
    let password = name.contains("otlp") && line.contains('@');
    let secret = is_secret_name(name) || name.contains("database") || password;
    secret.then(|| format!("{name}= …"))
}
