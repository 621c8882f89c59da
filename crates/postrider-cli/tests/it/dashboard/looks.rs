use std::time::{Duration, Instant};

use postrider_testkit::database::Database;
use serde_json::{Value, json};

use super::Stage;
use super::browser::Browser;

/// Text whose contrast with what is behind it is under AA: 4.5, or 3 where it is large. What cannot be used is exempt.
const PALE: &str = r"
const channel = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = text => text.match(/[\d.]+/g).map(Number);
const behind = one => {
  for (; one; one = one.parentElement) {
    const color = parse(getComputedStyle(one).backgroundColor);
    if (color.length < 4 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const pale = [];
for (const one of document.querySelectorAll('body *')) {
  const own = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  if (!own || !one.checkVisibility() || one.closest('[aria-disabled=true], .hidden, .skip, svg')) continue;
  const style = getComputedStyle(one);
  const [a, b] = [light(parse(style.color)), light(behind(one))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const large = parseFloat(style.fontSize) >= 18.66 && parseInt(style.fontWeight) >= 600;
  if (ratio < (large ? 3 : 4.5)) pale.push(`${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return pale;";

const DEAD: [(&str, &str); 7] = [
    ("order.order.placed.v1", "order-1042"),
    ("payment.payment.failed.v1", "order-1042"),
    ("order.order.placed.v1", "order-2001"),
    ("inventory.stock.reserved.v1", "sku-88"),
    ("order.order.cancelled.v1", "order-2001"),
    ("notification.mail.requested.v1", "order-2001"),
    ("order.order.sent.v1", "order-1042"),
];

fn pages(id: &str) -> Vec<String> {
    let lists = [
        "",
        "orders/dead",
        "orders/parked",
        "orders/records",
        "orders/replay",
        "orders/audit",
    ];
    let one = format!("orders/records/{id}");
    lists.map(str::to_owned).into_iter().chain([one]).collect()
}

async fn visit_all(browser: &Browser, id: &str, mut look: impl AsyncFnMut(&str)) {
    for page in pages(id) {
        browser.visit(&format!("#/{page}")).await;
        let ready =
            "!/Reading…|Waiting for|Looking…/.test(document.querySelector('main').innerText)";
        browser.until(ready).await;
        look(&page).await;
    }
}

#[tokio::test]
async fn text_has_contrast_in_light_and_dark_and_fits_a_phone() {
    let stage = Stage::with(&DEAD).await;
    let id = stage.id_of("inventory.stock.reserved.v1").await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    let none = Vec::<Value>::new();
    for theme in ["light", "dark"] {
        browser.prefer(theme).await;
        visit_all(&browser, &id, async |page| {
            let pale = browser.js(PALE, json!([])).await;
            assert_eq!(pale.as_array().unwrap(), &none, "{theme} #/{page}");
        })
        .await;
    }
    browser.resize(360, 780).await;
    visit_all(&browser, &id, async |page| {
        let over =
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(
            browser.js(over, json!([])).await,
            0,
            "#/{page} is wider than a phone"
        );
    })
    .await;
    browser.visit("#/orders/dead").await;
    browser.holds("tbody tr", 7).await;
    browser.screenshot("phone").await;
    // The labels of a card are those of the columns that it replaces.
    let label =
        "getComputedStyle(document.querySelector('td.error'), '::before').content === '\"Error\"'";
    browser.until(label).await;
    browser.is_content().await;
}

/// The system's theme, until the reader chooses another, which a reload keeps.
#[tokio::test]
async fn the_theme_is_the_systems_or_the_readers() {
    let stage = Stage::with(&[]).await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    let dark = "getComputedStyle(document.body).backgroundColor === 'rgb(15, 19, 23)'";
    browser.until(&format!("!({dark})")).await;
    browser.prefer("dark").await;
    browser.until(dark).await;
    browser.press("Theme: system").await;
    browser.until(&format!("!({dark})")).await;
    browser.press("Theme: light").await;
    browser.until(dark).await;
    browser.prefer("light").await;
    browser.until(dark).await;
    browser.goto("/").await;
    browser.shows("#theme", "Theme: dark").await;
    browser.until(dark).await;
    browser.is_content().await;
}

/// The pictures that are kept as build output, of an outbox with work to do. `POSTRIDER_SCREENSHOT_SECS` fills the charts.
#[tokio::test]
async fn screenshots_are_kept() {
    let stage = Stage::with(&DEAD).await;
    for event_type in ["order.order.paid.v1", "order.order.closed.v1"] {
        stage.outbox.emit(event_type, "order-1042").await;
    }
    let secs = std::env::var("POSTRIDER_SCREENSHOT_SECS").map_or(3, |secs| secs.parse().unwrap());
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    traffic(&stage.outbox.database, Duration::from_secs(secs)).await;
    browser.shows(".findings", "key").await;
    browser.resize(1280, 720).await;
    browser.screenshot("overview").await;
    browser.prefer("dark").await;
    browser.screenshot("dark").await;
    browser.prefer("light").await;

    browser.visit("#/orders/dead").await;
    browser
        .click("[aria-label='Select the run of key order-1042']")
        .await;
    browser.shows(".selection", "3 records selected").await;
    browser.screenshot("dead-letters").await;
    browser.press("Resend…").await;
    browser.screenshot("question").await;
    browser.press("Cancel").await;
    browser
        .click("[aria-label='Select the run of key sku-88']")
        .await;
    // Until it is counted, the run before is the one that is selected.
    browser.shows(".selection", "the run of key sku-88").await;
    browser.press("Resend…").await;
    browser.press("Resend 1 record").await;
    browser.shows(".result", "resent").await;
    let id = stage.id_of("inventory.stock.reserved.v1").await;
    browser.visit(&format!("#/orders/records/{id}")).await;
    browser.shows(".event-page h2 .chip", "published").await;
    // The figures of the frame are counted every two seconds.
    browser.shows("#badge-dead", "6").await;
    browser.press("Show payload").await;
    browser.shows(".timeline", "payload read").await;
    browser.screenshot("event").await;
    browser.visit("#/orders/parked").await;
    browser.holds("tbody tr", 2).await;
    browser.screenshot("parked-keys").await;
}

/// Orders come and go, more of them and fewer, until the time is over.
async fn traffic(database: &Database, time: Duration) {
    let start = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    while start.elapsed() < time {
        tick.tick().await;
        let wave = (start.elapsed().as_secs_f64() / 9.0).sin();
        let orders = 22 + (12.0 * wave) as i32 + fastrand::i32(0..6);
        sqlx::query(
            "INSERT INTO outbox_events (id, aggregate_id, event_type, version, payload, created_at) \
             SELECT gen_random_uuid(), 'order-' || (random() * 100000)::int, 'order.order.placed.v1', 1, \
             '{\"total\": 12.50}', clock_timestamp() FROM generate_series(1, $1)",
        )
        .bind(orders)
        .execute(&database.pool)
        .await
        .unwrap();
    }
}
