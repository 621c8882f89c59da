use serde_json::json;

use super::Stage;

const THREE: [(&str, &str); 3] = [
    ("order.placed", "7"),
    ("order.paid", "8"),
    ("order.sent", "9"),
];

#[tokio::test]
async fn selected_records_are_resent_and_reach_the_topic() {
    let stage = Stage::with(&THREE).await;
    let browser = stage.at("dead").await;
    browser.holds("tbody tr", 3).await;
    browser.shows(".heading", "3 records in all").await;
    browser.shows("tbody", "no route").await;
    assert_eq!(stage.rows("error_message IS NOT NULL").await, 3);

    browser.click("[aria-label^='Select order.placed']").await;
    browser.click("[aria-label^='Select order.sent']").await;
    browser.shows(".selection", "2 records selected").await;
    browser.press("Resend…").await;
    browser
        .shows("dialog h2", "Resend 2 dead records of orders?")
        .await;
    browser
        .shows("dialog", "published in the outbox's order")
        .await;
    browser.press("Resend 2 records").await;

    browser
        .shows(".result", "2 records of orders resent.")
        .await;
    browser.holds("dialog", 0).await;
    browser.holds("tbody tr", 1).await;
    browser.shows("tbody", "order.paid").await;
    stage.published(2).await;
    browser.is_content().await;
}

#[tokio::test]
async fn a_keys_run_is_resent_in_order_and_no_other_key() {
    let run = [
        ("order.placed", "7"),
        ("order.paid", "7"),
        ("order.placed", "8"),
        ("order.sent", "7"),
    ];
    let stage = Stage::with(&run).await;
    let browser = stage.at("dead").await;
    browser.holds("tbody tr", 4).await;
    browser
        .click("[aria-label='Select the run of key 7']")
        .await;
    browser
        .shows(
            ".selection",
            "3 records selected: the run of key 7, in order",
        )
        .await;
    browser.holds("tbody input:checked", 3).await;
    browser.press("Resend…").await;
    browser
        .shows("dialog h2", "Resend 3 dead records of orders?")
        .await;
    browser.press("Resend 3 records").await;
    browser
        .shows(".result", "3 records of orders resent.")
        .await;
    let types: Vec<String> = stage
        .published(3)
        .await
        .iter()
        .map(|record| {
            let value: serde_json::Value =
                serde_json::from_slice(record.value.as_ref().unwrap()).unwrap();
            value["eventType"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(types, ["order.placed", "order.paid", "order.sent"]);
    browser.holds("tbody tr", 1).await;
    browser.is_content().await;
}

#[tokio::test]
async fn all_that_match_are_discarded_and_nothing_else() {
    let stage = Stage::with(&[THREE[0], THREE[0], THREE[1]]).await;
    let browser = stage.at("dead").await;
    browser.holds("tbody tr", 3).await;
    browser.fill("[name=type]", "order.placed").await;
    browser.press("Filter").await;
    browser.shows(".heading", "2 records match").await;
    browser.holds("tbody tr", 2).await;
    browser.press("Select all 2 that match").await;
    browser
        .shows(".selection", "all that match the filter")
        .await;
    browser.press("Discard…").await;
    browser
        .shows("dialog h2", "Discard 2 dead records of orders?")
        .await;
    browser.shows("dialog", "never be published").await;
    browser.press("Cancel").await;
    browser.holds("dialog", 0).await;
    assert_eq!(stage.rows("true").await, 3);

    browser.press("Discard…").await;
    browser.press("Discard 2 records").await;
    browser
        .shows(".result", "2 records of orders discarded.")
        .await;
    browser.shows(".list", "No dead record matches.").await;
    assert_eq!(stage.rows("event_type = 'order.placed'").await, 0);
    assert_eq!(stage.rows("event_type = 'order.paid'").await, 1);
    // Back undoes the filter.
    browser.js("history.back()", json!([])).await;
    browser.holds("tbody tr", 1).await;
    assert!(stage.kafka.records(&stage.topic).await.is_empty());
    browser.is_content().await;
}

#[tokio::test]
async fn a_filter_finds_by_error_topic_age_and_id() {
    let stage = Stage::with(&THREE).await;
    let id = stage.id_of("order.paid").await;
    let browser = stage.at(&format!("dead?id={id}")).await;
    browser.holds("tbody tr", 1).await;
    browser.shows("tbody", "order.paid").await;
    for (query, found) in [
        ("error=no+route", 3),
        ("error=too+large", 0),
        ("key=9", 1),
        ("since=1h", 3),
        ("until=1h", 0),
        ("topic=nowhere", 0),
    ] {
        browser.visit(&format!("#/orders/dead?{query}")).await;
        browser.holds("tbody tr", found).await;
    }
    // What the API refuses is shown in its words.
    browser.visit("#/orders/dead?since=yesterday").await;
    browser.shows(".notice.bad", "an age such as 2h").await;
}

/// Nothing is changed on a number that its author did not see.
#[tokio::test]
async fn a_count_that_has_changed_is_shown_before_anything_is_done() {
    let stage = Stage::with(&THREE).await;
    let browser = stage.at("dead").await;
    browser.press("Select all 3 that match").await;
    browser.shows(".selection", "all dead letters").await;
    browser.press("Discard…").await;
    browser
        .shows("dialog h2", "Discard 3 dead records of orders?")
        .await;
    stage.project.run(&["dead", "discard", "--key", "9"]).ok();
    browser.press("Discard 3 records").await;
    browser
        .shows("dialog h2", "Discard 2 dead records of orders?")
        .await;
    assert!(!browser.text("dialog .notice").await.is_empty());
    assert_eq!(stage.rows("true").await, 2);
    browser.press("Discard 2 records").await;
    browser
        .shows(".result", "2 records of orders discarded.")
        .await;
    assert_eq!(stage.rows("true").await, 0);
    browser.shows(".list", "No dead letters.").await;
}

/// Whatever a table holds is text: a type, a key and an error that are markup do nothing.
#[tokio::test]
async fn markup_in_a_record_stays_text() {
    let hostile = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
    let key = "\"><svg onload=window.hit=1>";
    let stage = Stage::with(&[(hostile, key)]).await;
    let browser = stage.at("dead").await;
    browser.shows("tbody", hostile).await;
    browser.shows("tbody", key).await;
    browser.click("tbody .event").await;
    browser.shows(".event-page h2", hostile).await;
    browser.shows(".fields", key).await;
    browser.visit("#/orders/parked").await;
    browser.shows("tbody", key).await;
    browser.visit("#/").await;
    browser.shows(".findings", "key").await;
    let hit = "return [window.hit ?? null, document.querySelectorAll('main script, main img, [onload]').length]";
    assert_eq!(browser.js(hit, json!([])).await, json!([null, 0]));
    browser.is_content().await;
}

/// The list follows the table by itself, but not under the hands of someone who has selected something.
#[tokio::test]
async fn the_list_follows_what_others_do() {
    let stage = Stage::with(&[THREE[0], THREE[1], THREE[2], ("order.lost", "6")]).await;
    let browser = stage.at("dead").await;
    browser.holds("tbody tr", 4).await;
    browser.js("window.same = true", json!([])).await;
    stage.project.run(&["dead", "discard", "--key", "6"]).ok();
    browser.holds("tbody tr", 3).await;

    // Selected while the answer was on its way.
    let slow = "const now = fetch; const gate = new Promise(open => window.open_gate = open); window.asked = false;
        window.fetch = async (...what) => {
          const answer = await now(...what);
          if (!what[0].includes('/records?')) return answer;
          window.asked = true;
          await gate;
          return answer;
        }";
    browser.js(slow, json!([])).await;
    stage.project.run(&["dead", "discard", "--key", "7"]).ok();
    browser.until("window.asked").await;
    browser.click("[aria-label^='Select order.sent']").await;
    browser.js("window.open_gate()", json!([])).await;
    browser.shows(".stale", "2 records dead now").await;
    browser.shows(".selection", "1 record selected").await;
    browser.press("Read again").await;
    browser.holds("tbody tr", 2).await;

    browser.click("[aria-label^='Select order.paid']").await;
    stage.project.run(&["dead", "discard", "--key", "9"]).ok();
    browser.shows(".stale", "1 record dead now").await;
    assert_eq!(browser.count("tbody tr").await, 2);
    browser.press("Read again").await;
    browser.holds("tbody tr", 1).await;
    browser.until("window.same").await;
    browser.is_content().await;
}

#[tokio::test]
async fn a_selection_is_cleared_and_belongs_to_its_page() {
    let mut many = vec![("order.placed", "7"); 52];
    many.push(("order.paid", "8"));
    let stage = Stage::with(&many).await;
    let browser = stage.at("dead").await;
    browser.holds("tbody tr", 50).await;
    browser.shows(".heading", "53 records in all").await;
    // Of nothing there is nothing to ask.
    browser.press("Discard…").await;
    browser.holds("dialog", 0).await;
    browser
        .click("[aria-label='Select all on this page']")
        .await;
    browser.shows(".selection", "50 records selected").await;
    browser.press("Clear selection").await;
    browser
        .shows(".selection", "Select records to resend")
        .await;
    browser.holds("input:checked", 0).await;

    browser
        .click("[aria-label='Select all on this page']")
        .await;
    browser.press("Next page").await;
    browser.holds("tbody tr", 3).await;
    browser.shows("tbody", "order.paid").await;
    browser.holds("input:checked", 0).await;
    browser
        .click("[aria-label='Select the run of key 7']")
        .await;
    browser.shows(".selection", "52 records selected").await;
    browser.holds("tbody input:checked", 2).await;
    browser.press("Clear selection").await;
    browser.holds("input:checked", 0).await;
    browser.press("First page").await;
    browser.holds("tbody tr", 50).await;
    assert_eq!(stage.rows("true").await, 53);
    browser.is_content().await;
}

#[tokio::test]
async fn the_filters_form_finds_the_same_and_is_cleared() {
    let stage = Stage::with(&THREE).await;
    let id = stage.id_of("order.paid").await;
    let browser = stage.at("dead").await;
    browser.holds("tbody tr", 3).await;
    for (field, text, found) in [
        ("[name=id]", &*id, 1),
        ("[name=type]", "order.sent", 1),
        ("[name=key]", "7", 1),
        ("[name=topic]", "nowhere", 0),
        ("[name=error]", "no route", 3),
        ("[name=since]", "1h", 3),
        ("[name=until]", "1h", 0),
    ] {
        browser.fill(field, text).await;
        browser.press("Filter").await;
        let words = if found == 1 {
            "record matches"
        } else {
            "records match"
        };
        browser.shows(".heading", &format!("{found} {words}")).await;
        browser.holds("tbody tr", found).await;
        browser.press("Clear").await;
        browser.shows(".heading", "3 records in all").await;
        let empty =
            "[...document.querySelectorAll('.filters input')].every(one => one.value === '')";
        browser.until(empty).await;
    }
    // On a phone the form is folded until it is asked for.
    browser.resize(360, 780).await;
    browser.visit("#/orders/parked").await;
    browser.visit("#/orders/dead").await;
    browser.holds("details:not([open])", 1).await;
    browser.click("summary").await;
    browser.fill("[name=key]", "8").await;
    browser.click(".filters .primary").await;
    browser.shows(".heading", "1 record matches").await;
    browser.is_content().await;
}
