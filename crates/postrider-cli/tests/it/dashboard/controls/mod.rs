//! Every control of every page is used by a test: a new one fails here until there is one for it.

mod table;

use std::collections::BTreeSet;
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use super::browser::Browser;
use super::{Stage, with_mails};
use crate::outbox::TestOutbox;
use table::TESTED;

const TOKEN: &str = "a-token-that-may-also-change";

/// What can be pressed, ticked, chosen or written into, as [page, name].
const CONTROLS: &str = "
    const own = one => [...one.childNodes].find(node => node.nodeType === 3 && node.data.trim())?.data;
    const name = one => {
      if (one.matches('a.event')) return 'a record';
      if (one.matches('.fields a')) return 'the key';
      return one.getAttribute('aria-label') ?? one.labels?.[0]?.firstChild.textContent ?? own(one) ?? one.innerText;
    };
    const page = one => {
      if (one.closest('dialog')) return 'question';
      return one.closest('main') ? document.querySelector('h1').firstChild.textContent : 'frame';
    };
    const all = document.querySelectorAll('button, input, select, textarea, summary, a[href], [role=button], [contenteditable]');
    return [...all].filter(one => one.checkVisibility()).map(one => [page(one), name(one).trim()])";

type Control = (String, String);

struct Tour {
    browser: Browser,
    seen: BTreeSet<Control>,
}

impl Tour {
    /// Writes down what is here, once a reader sees this there.
    async fn look(&mut self, css: &str, text: &str) {
        self.browser.shows(css, text).await;
        let found = self.browser.js(CONTROLS, json!([])).await;
        let found: Vec<Control> = serde_json::from_value(found).unwrap();
        assert!(!found.is_empty());
        self.seen.extend(found);
    }

    async fn visit(&mut self, hash: &str, css: &str, text: &str) {
        self.browser.visit(hash).await;
        self.look(css, text).await;
    }
}

/// Two outboxes, one with more dead letters than a page holds and with published records, and a token.
async fn stage(mails: &TestOutbox) -> Stage {
    let token = format!(
        "listen = \"127.0.0.1:0\"\n[admin.tokens.night-shift]\nrole = \"operate\"\ntoken = \"{TOKEN}\"\n"
    );
    let mut dead = vec![("order.placed", "7"); 51];
    dead.push(("order.placed", "8"));
    let stage = Stage::with_config(&dead, |config| {
        with_mails(&config, mails).replace("listen = \"127.0.0.1:0\"\n", &token)
    })
    .await;
    for key in ["1", "2", "3"] {
        stage.outbox.emit("order.sent", key).await;
    }
    stage.published(3).await;
    stage
}

#[tokio::test]
async fn every_control_is_used_by_a_test() {
    let mails = TestOutbox::create("polyshop").await;
    let stage = stage(&mails).await;
    let browser = stage.browser().await;
    let seen = BTreeSet::new();
    let mut tour = Tour { browser, seen };
    sign_in(&mut tour).await;
    lists(&mut tour, &stage).await;
    one_record(&mut tour, &stage).await;
    replay(&mut tour).await;
    without_a_relay(&mut tour, &stage).await;

    let matches = |(page, name): &Control, row: &(&str, &str, &str, &str)| {
        page == row.0 && is_named(name, row.1)
    };
    let unused: Vec<&Control> = tour
        .seen
        .iter()
        .filter(|control| !TESTED.iter().any(|row| matches(control, row)))
        .collect();
    assert!(
        unused.is_empty(),
        "no test uses {unused:?}: write one, and name it in the table"
    );
    let gone: Vec<_> = TESTED
        .iter()
        .filter(|row| !tour.seen.iter().any(|control| matches(control, row)))
        .collect();
    assert!(
        gone.is_empty(),
        "no page has {gone:?}: was it renamed, or does the tour miss it?"
    );
}

fn is_named(name: &str, pattern: &str) -> bool {
    match pattern.split_once("{}") {
        Some((before, after)) => name.starts_with(before) && name.ends_with(after),
        None => name == pattern,
    }
}

async fn sign_in(tour: &mut Tour) {
    tour.look("h1", "Sign in").await;
    tour.browser.fill("#token", TOKEN).await;
    tour.browser.press("Sign in").await;
    tour.look("#stream", "Live").await;
    tour.browser.holds("section.card", 2).await;
    tour.look(".tiles", "Backlog").await;
    tour.visit("#/orders/nonsense", "h1", "Not found").await;
}

async fn lists(tour: &mut Tour, stage: &Stage) {
    for page in ["dead", "records"] {
        tour.visit(&format!("#/orders/{page}"), ".pager", "Next page")
            .await;
        tour.browser.press("Next page").await;
        tour.look(".pager", "First page").await;
    }
    tour.visit("#/orders/dead", "tbody", "order.placed").await;
    for verb in ["Resend", "Discard"] {
        tour.browser
            .click("[aria-label='Select the run of key 7']")
            .await;
        tour.browser
            .shows(".selection", "51 records selected")
            .await;
        tour.browser.press(&format!("{verb}…")).await;
        tour.look("dialog", "Cancel").await;
        tour.browser.press("Cancel").await;
    }
    let discard = ["dead", "discard", "--outbox", "orders", "--key", "8"];
    stage.project.run(&discard).ok();
    tour.look(".stale", "Read again").await;
    tour.visit("#/orders/parked", "tbody", "order.placed").await;
    tour.visit("#/orders/audit", "tbody", "discard").await;
    // On a phone, where a form is folded.
    tour.browser.resize(360, 780).await;
    for page in ["dead", "records"] {
        tour.visit(&format!("#/orders/{page}"), "summary", "Filter")
            .await;
    }
    tour.browser.resize(1280, 900).await;
}

async fn one_record(tour: &mut Tour, stage: &Stage) {
    for (event_type, act) in [
        ("order.placed", "Discard…"),
        ("order.sent", "Replay this one…"),
    ] {
        let id = stage.id_of(event_type).await;
        tour.visit(&format!("#/orders/records/{id}"), ".acts", act)
            .await;
    }
    tour.browser.press("Show payload").await;
    tour.look("pre.payload", "orderId").await;
}

async fn replay(tour: &mut Tour) {
    tour.visit("#/orders/replay", "main", "New replay").await;
    tour.browser.fill("[name=type]", "order.sent").await;
    tour.browser.fill("[name=rate]", "1").await;
    tour.browser.press("Count and replay…").await;
    tour.look("dialog", "Cancel").await;
    tour.browser.press("Replay 3 records").await;
    tour.look("main", "Stop the replay").await;
}

async fn without_a_relay(tour: &mut Tour, stage: &Stage) {
    tour.browser.cut_off(&["*/api/me"]).await;
    tour.browser.goto("/").await;
    tour.look("h1", "No answer").await;
    tour.browser.cut_off(&[]).await;
    tour.browser.press("Try again").await;
    tour.browser.shows("#stream", "Live").await;
    stage.relay.signal(Signal::KILL);
    tour.look("#cut", "Try now").await;
}

/// A test that the table names is there, and uses what it is said to use.
#[test]
fn the_tests_of_the_table_use_what_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dashboard");
    for (page, name, test, how) in TESTED {
        let (file, function) = test.split_once("::").unwrap();
        let source = std::fs::read_to_string(folder.join(format!("{file}.rs"))).unwrap();
        let body = source.split(&format!("async fn {function}()")).nth(1);
        let body = body.unwrap_or_else(|| panic!("there is no test {test}"));
        let body = body.split("\n}\n").next().unwrap();
        assert!(
            body.contains(how),
            "{test} does not use `{how}` ({page}: {name})"
        );
    }
}

/// A control that is shown only now and then is not missed by the tour above: whoever adds one to a file comes by here.
#[test]
fn no_file_makes_more_controls_than_the_tour_has_seen() {
    const MAKERS: [&str; 6] = [
        "h(\"button\"",
        "h(\"input\"",
        "h(\"select\"",
        "h(\"textarea\"",
        "h(\"summary\"",
        "class: \"button\"",
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/ui");
    let mut found = Vec::new();
    for part in ["", "pages"] {
        for file in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "js") {
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let made: usize = MAKERS
                .iter()
                .map(|maker| source.matches(maker).count())
                .sum();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if made > 0 {
                found.push((name, made));
            }
        }
    }
    found.sort();
    let found: Vec<(&str, usize)> = found.iter().map(|(name, made)| (&**name, *made)).collect();
    let known = [
        ("app.js", 2),
        ("audit.js", 1),
        ("dead.js", 2),
        ("dialog.js", 2),
        ("event.js", 2),
        ("login.js", 2),
        ("parked.js", 1),
        ("parts.js", 6),
        ("records.js", 3),
        ("replay.js", 3),
        ("selection.js", 5),
    ];
    assert_eq!(
        found, known,
        "add the new control to the tour, to the table, then here"
    );
}
