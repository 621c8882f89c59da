//! `docs/requirements.md` names every statement of the five systems. What it names as a place or as
//! a test exists.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The systems' statements, and how many each has.
const STATEMENTS: [(&str, u32); 6] = [
    ("S0", 76),
    ("S1", 94),
    ("S2", 43),
    ("S3", 92),
    ("S4", 100),
    ("X", 23),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/requirements.md")).unwrap()
}

/// A number at the beginning, and what follows it.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(digits.unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

/// `01`, `01…07` or `01…07, 09`: the numbers after a system's name.
fn numbers(mut text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    while let Some((first, rest)) = number(text) {
        let to = rest.strip_prefix('…').and_then(number);
        let (last, rest) = to.unwrap_or((first, rest));
        found.extend(first..=last);
        let Some(next) = rest.strip_prefix(", ") else {
            break;
        };
        text = next;
    }
    found
}

#[test]
fn every_statement_of_the_five_systems_is_named() {
    let page = page();
    for (system, count) in STATEMENTS {
        let mut named = HashSet::new();
        for (at, name) in page.match_indices(&format!("{system}-")) {
            let is_word = !page[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            named.extend(
                numbers(&page[at + name.len()..])
                    .into_iter()
                    .filter(|_| is_word),
            );
        }
        let missing: Vec<String> = (1..=count)
            .filter(|number| !named.contains(number))
            .map(|number| format!("{system}-{number:02}"))
            .collect();
        assert!(
            missing.is_empty(),
            "docs/requirements.md does not name {missing:?}"
        );
    }
}

/// `{a,b}.rs` is `a.rs` and `b.rs`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (choices, after) = rest.split_once('}').unwrap();
    let choices = choices.split(',');
    choices
        .map(|choice| format!("{before}{choice}{after}"))
        .collect()
}

/// What a name in backquotes is, and where that must be.
enum Named {
    /// A file or folder that is in one of these places.
    Place(Vec<PathBuf>),
    /// A test, or a case of a conformance suite.
    Test,
    /// Anything else: a column, a setting, a command.
    Other,
}

/// Names of files that have no ending.
const BARE_FILES: [&str; 2] = ["Dockerfile", "Procfile"];
const ENDINGS: [&str; 6] = [".rs", ".toml", ".sql", ".md", ".mk", ".yml"];

/// Whether a text is the path of a file or a folder. What begins with a slash is a path of a URL.
fn is_path(text: &str) -> bool {
    let is_file = BARE_FILES.contains(&text) || ENDINGS.iter().any(|ending| text.ends_with(ending));
    let is_one_word = !text.contains(char::is_whitespace) && !text.starts_with('/');
    is_one_word && (is_file || text.contains('/'))
}

/// Whether a text is the name of a test: words with underscores. Names of columns and settings have
/// fewer of them.
fn is_test_name(text: &str, underscores_min: usize) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.chars().all(is_word) && text.matches('_').count() >= underscores_min
}

/// A cell of a table, or a line of prose, read from left to right.
#[derive(Default)]
struct Cell {
    /// The folders of the package that was named last: further paths of the cell may be in it.
    folders: Vec<PathBuf>,
    /// Whether it says which tests show something.
    is_of_tests: bool,
}

impl Cell {
    fn read(&mut self, name: &str) -> Named {
        if let Some(path) = name.strip_prefix("examples/") {
            let package = path.split('/').next().unwrap_or_default();
            self.folders = vec![root().join("examples").join(package)];
            return Named::Place(vec![root().join(name)]);
        }
        if let Some((package, path)) = name.split_once(": ") {
            return self.read_in_crate(package, path);
        }
        if is_path(name) {
            let folders = self.folders.iter().cloned().chain([root()]);
            return Named::Place(folders.map(|folder| folder.join(name)).collect());
        }
        // Where tests are expected, a name of two words is one; elsewhere it may be a column.
        let underscores_min = if self.is_of_tests { 1 } else { 4 };
        match is_test_name(name, underscores_min) {
            true => Named::Test,
            false => Named::Other,
        }
    }

    /// `stores: redis/` is a path of a crate, `cli: replay` a module of its tests.
    fn read_in_crate(&mut self, package: &str, path: &str) -> Named {
        let package = match package {
            "postrider" => package.to_owned(),
            "core" | "stores" | "brokers" | "cli" => format!("postrider-{package}"),
            // The page says by this how it names tests.
            "package" if path == "module::test" => return Named::Other,
            _ => panic!("docs/requirements.md names {package}: {path}, and there is no such crate"),
        };
        let folder = root().join("crates").join(package);
        if !is_path(path) {
            let module = folder.join("tests/it").join(path);
            return Named::Place(vec![module.with_extension("rs"), module.join("mod.rs")]);
        }
        self.folders = vec![folder.join("src"), folder];
        Named::Place(self.folders.iter().map(|at| at.join(path)).collect())
    }
}

/// The page's cells and lines of prose, and whether they are in a column of tests.
fn cells(page: &str) -> Vec<(Cell, &str)> {
    let mut cells = Vec::new();
    let mut tests_at = None;
    for line in page.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            cells.push((Cell::default(), line));
            continue;
        };
        let columns: Vec<&str> = row.split(" | ").collect();
        let heading = |column: &&str| column.trim_end_matches(" |") == "shown by";
        if let Some(at) = columns.iter().position(heading) {
            tests_at = Some(at);
        } else if row.starts_with("conflict") {
            tests_at = None;
        }
        cells.extend(columns.into_iter().enumerate().map(|(at, text)| {
            let cell = Cell {
                is_of_tests: tests_at == Some(at),
                ..Cell::default()
            };
            (cell, text)
        }));
    }
    cells
}

/// The name of the function that a line defines.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("pub ");
    let rest = line.trim_start_matches("async ").strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

/// Every test of the workspace, and every case of a conformance suite.
fn tests() -> HashSet<String> {
    let mut found = HashSet::new();
    for (path, text) in crate::sources() {
        let is_suite = path
            .components()
            .any(|part| part.as_os_str() == "conformance");
        let mut is_test = false;
        for line in text.lines() {
            let trimmed = line.trim_start();
            if trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(name) = function(line) {
                if is_test || (is_suite && line.starts_with("pub async fn ")) {
                    found.insert(name.to_owned());
                }
                is_test = false;
            }
        }
    }
    found
}

#[test]
fn what_is_named_as_a_place_or_a_test_exists() {
    let (page, tests) = (page(), tests());
    let (mut places, mut named_tests, mut missing) = (0, 0, Vec::new());
    for (mut cell, text) in cells(&page) {
        for name in text.split('`').skip(1).step_by(2).flat_map(expanded) {
            let exists = match cell.read(&name) {
                Named::Place(at) => {
                    places += 1;
                    at.iter().any(|place| place.exists())
                }
                Named::Test => {
                    named_tests += 1;
                    tests.contains(&name)
                }
                Named::Other => true,
            };
            if !exists {
                missing.push(name);
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/requirements.md names {missing:?}, which do not exist"
    );
    let counts = format!("{places} places and {named_tests} tests are named");
    assert!(places > 90 && named_tests > 55, "only {counts}");
}
