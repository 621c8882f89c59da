//! What the documents say, as far as a machine can tell: links lead somewhere, tests that they name exist, commands that
//! they show are ones that the binary knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let skipped = name.to_string_lossy().starts_with('.')
            || ["target", "node_modules", "bin"]
                .iter()
                .any(|skipped| name == *skipped);
        if skipped {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            found.push(path);
        }
    }
    found
}

fn pages() -> Vec<(PathBuf, String)> {
    files(&root(), "md")
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

/// The page without its blocks of code.
fn prose(text: &str) -> String {
    let outside = text.split("```").step_by(2);
    outside.collect::<Vec<_>>().join("\n")
}

/// As GitHub makes them from headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    let text = prose(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(heading).collect()
}

fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[test]
fn every_link_leads_somewhere() {
    let pages: BTreeMap<PathBuf, String> = pages().into_iter().collect();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.clone(),
                file => normal(&page.parent().unwrap().join(file)),
            };
            let known = anchor.is_empty()
                || pages
                    .get(&target)
                    .is_some_and(|text| anchors(text).contains(anchor));
            if !target.exists() || !known {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Words in backquotes that are long enough to be the name of a test.
fn named_tests(text: &str) -> BTreeSet<String> {
    let is_name = |word: &&str| {
        word.matches('_').count() >= 4
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let others = ["postrider_", "pg_"];
    let words = text.split('`').skip(1).step_by(2).filter(is_name);
    let words = words.filter(|word| !others.iter().any(|other| word.starts_with(other)));
    words.map(str::to_owned).collect()
}

#[test]
fn every_test_that_is_named_exists() {
    let root = root();
    let sources: Vec<String> = ["crates", "examples"]
        .iter()
        .flat_map(|folder| files(&root.join(folder), "rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut missing = Vec::new();
    for (page, text) in pages() {
        for name in named_tests(&text) {
            // A conformance case is written once and run under its own name on every store or broker.
            let (function, case) = (format!("fn {name}("), format!("{name},"));
            let exists = |source: &String| {
                source.contains(&function) || source.lines().any(|line| line.trim() == case)
            };
            if !sources.iter().any(exists) {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Every promise of the page has a test behind it.
#[test]
fn every_promise_names_a_test() {
    let page = fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let promises: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| P"))
        .collect();
    assert_eq!(promises.len(), 8);
    for promise in promises {
        assert!(!named_tests(promise).is_empty(), "{promise}");
    }
}

/// The help of a verb, with that of its verbs.
fn help(verbs: &[&str]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_postrider"))
        .args(verbs)
        .arg("--help")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(text)
}

/// `$ postrider …` in blocks of code, and `postrider …` in backquotes.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```").skip(1).step_by(2);
    let shown = blocks
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("$ "));
    let outside = prose(text);
    let quoted: Vec<&str> = outside.split('`').skip(1).step_by(2).collect();
    shown
        .chain(quoted)
        .filter_map(|command| command.strip_prefix("postrider "))
        .map(|command| command.split(" #").next().unwrap().trim().to_owned())
        .collect()
}

#[test]
fn every_command_that_is_shown_is_known() {
    let mut unknown = Vec::new();
    for (page, text) in pages() {
        for command in commands(&text) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let is_verb = |word: &&&str| {
                word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
            };
            let verbs: Vec<&str> = words.iter().take_while(is_verb).take(2).copied().collect();
            // A second word may be a verb's verb (`dead list`) or its argument (`layouts show polyshop`).
            let help = help(&verbs).or_else(|| help(verbs.get(..1)?));
            let flags = words.iter().filter(|word| word.starts_with("--"));
            let mut flags = flags.map(|flag| flag.split('=').next().unwrap());
            let fits =
                !verbs.is_empty() && help.is_some_and(|help| flags.all(|flag| help.contains(flag)));
            if !fits {
                unknown.push(format!("{}: postrider {command}", page.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}
