//! A headless Chromium of the test's own: asked and used as a person would, and looked at from outside.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper::Method;
use postrider_testkit::eventually;
use serde_json::{Value, json};
use url::{ParseError, Url};

/// Ends with the test process, in whatever way that ends: then its stdin closes, and it kills what it started.
const GUARD: &str = "(chromedriver --port=0 </dev/null; echo gave up) & read -r _; kill -KILL 0";
/// The port that it draws may be taken by the time it listens.
const STARTS_MAX: u32 = 5;
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
];

pub(crate) const TAB: char = '\u{e004}';
pub(crate) const ENTER: char = '\u{e007}';
pub(crate) const ESCAPE: char = '\u{e00c}';

pub(crate) struct Browser {
    client: Client,
    origin: String,
    driver: Child,
    profile: PathBuf,
}

impl Browser {
    /// With nothing stored, 1280 by 900, in a light theme, at the dashboard of `address`.
    pub(crate) async fn open(address: &str) -> Self {
        let (driver, port) = start_driver();
        let name = format!("chromium-{}", uuid::Uuid::now_v7().simple());
        let profile = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let flags = FLAGS.map(str::to_owned).into_iter();
        let flags: Vec<String> = flags
            .chain([format!("--user-data-dir={}", profile.display())])
            .collect();
        let capabilities = json!({
            "goog:chromeOptions": { "args": flags },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let client = ClientBuilder::rustls()
            .unwrap()
            .capabilities(capabilities.as_object().unwrap().clone())
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .unwrap();
        let origin = format!("http://{address}");
        let browser = Self {
            client,
            origin,
            driver,
            profile,
        };
        browser.resize(1280, 900).await;
        browser.prefer("light").await;
        // What a browser asks for by itself when it starts.
        browser.requests().await;
        browser.goto("/").await;
        browser
    }

    pub(crate) async fn goto(&self, path: &str) {
        let url = format!("{}{path}", self.origin);
        self.client.goto(&url).await.unwrap();
    }

    /// Goes to a page of the dashboard by its address, without loading anything anew.
    pub(crate) async fn visit(&self, hash: &str) {
        self.js("location.hash = arguments[0]", json!([hash])).await;
    }

    pub(crate) async fn js(&self, script: &str, arguments: Value) -> Value {
        let arguments = arguments.as_array().unwrap().clone();
        let result = self.client.execute(script, arguments).await;
        result.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Waits until the expression is true.
    pub(crate) async fn until(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        eventually(expression, async || {
            match self.js(&script, json!([])).await {
                Value::Bool(true) => Ok(()),
                _ => Err(self.text("body").await),
            }
        })
        .await;
    }

    /// What a reader sees there, or nothing.
    pub(crate) async fn text(&self, css: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        let text = self.js(script, json!([css])).await;
        text.as_str().unwrap().to_owned()
    }

    /// Waits until a reader sees `part` there.
    pub(crate) async fn shows(&self, css: &str, part: &str) {
        eventually(part, async || {
            let text = self.text(css).await;
            if text.contains(part) {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
    }

    pub(crate) async fn count(&self, css: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        self.js(script, json!([css])).await.as_u64().unwrap()
    }

    /// Waits until so many elements match.
    pub(crate) async fn holds(&self, css: &str, wanted: u64) {
        eventually(css, async || match self.count(css).await {
            found if found == wanted => Ok(()),
            found => Err((found, self.text("body").await)),
        })
        .await;
    }

    /// Clicks the button or link that a reader sees with this text, inside the dialog where one is open.
    pub(crate) async fn press(&self, label: &str) {
        let find = "const scope = document.querySelector('dialog[open]') ?? document;
            return [...scope.querySelectorAll('button, a, summary')].find(one => one.checkVisibility() && one.innerText.trim() === arguments[0]) ?? null";
        eventually(label, async || {
            let found = self.js(find, json!([label])).await;
            let Some(reference) = found.as_object().and_then(|object| object.values().next())
            else {
                return Err(self.text("body").await);
            };
            let id = reference.as_str().unwrap().to_owned();
            let element = Element::from_element_id(self.client.clone(), id.into());
            element.click().await.map_err(|error| error.to_string())
        })
        .await;
    }

    pub(crate) async fn click(&self, css: &str) {
        eventually(css, async || {
            let element = self.client.find(Locator::Css(css)).await;
            let element = element.map_err(|error| error.to_string())?;
            element.click().await.map_err(|error| error.to_string())
        })
        .await;
    }

    /// Types into the field with this name, in place of what it holds.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let field = eventually(css, async || self.client.find(Locator::Css(css)).await).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Chooses an option of a select by its value.
    pub(crate) async fn choose(&self, css: &str, value: &str) {
        let field = eventually(css, async || self.client.find(Locator::Css(css)).await).await;
        field.select_by_value(value).await.unwrap();
    }

    /// Moves the pointer onto the element, so far from its left edge: 0 is there, 1 at its right.
    pub(crate) async fn point_at(&self, css: &str, share: f64) {
        let middle = "const one = document.querySelector(arguments[0]);
            one.scrollIntoView({ block: 'center' });
            const box = one.getBoundingClientRect();
            return { type: 'mouseMoved', x: box.left + box.width * arguments[1], y: box.top + box.height / 2 }";
        let point = self.js(middle, json!([css, share])).await;
        self.devtools("Input.dispatchMouseEvent", point).await;
    }

    /// Requests to these addresses fail from now on, as where a network is cut; none of them do with an empty list.
    pub(crate) async fn cut_off(&self, addresses: &[&str]) {
        self.devtools("Network.enable", json!({})).await;
        self.devtools("Network.setBlockedURLs", json!({ "urls": addresses }))
            .await;
    }

    /// Presses keys, wherever the focus is.
    pub(crate) async fn keys(&self, keys: &[char]) {
        let mut actions = KeyActions::new("keyboard".into());
        for key in keys {
            actions = actions
                .then(KeyAction::Down { value: *key })
                .then(KeyAction::Up { value: *key });
        }
        self.client.perform_actions(actions).await.unwrap();
    }

    /// Presses Tab until the focus is on what matches, as a reader without a mouse would.
    pub(crate) async fn tab_to(&self, css: &str) {
        const STEPS_MAX: usize = 60;
        for _ in 0..STEPS_MAX {
            self.keys(&[TAB]).await;
            if self.focused(css).await {
                return;
            }
        }
        panic!("{css} cannot be reached with the Tab key");
    }

    pub(crate) async fn focused(&self, css: &str) -> bool {
        let script = "return document.activeElement.matches(arguments[0])";
        self.js(script, json!([css])).await == true
    }

    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500
        });
        self.devtools("Emulation.setDeviceMetricsOverride", size)
            .await;
    }

    /// The system's theme: `light` or `dark`.
    pub(crate) async fn prefer(&self, theme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        )
        .await;
    }

    /// Kept as `target/screenshots/{name}.png`.
    pub(crate) async fn screenshot(&self, name: &str) {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
        std::fs::create_dir_all(&folder).unwrap();
        let png = self.client.screenshot().await.unwrap();
        std::fs::write(folder.join(format!("{name}.png")), png).unwrap();
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.issue("goog/cdp/execute", body).await
    }

    async fn issue(&self, path: &'static str, body: Value) -> Value {
        self.client.issue_cmd(Extra { path, body }).await.unwrap()
    }

    /// What the browser complained about since it was last asked: scripts that failed, policies, refused requests.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.issue("se/log", json!({ "type": "browser" })).await;
        log.as_array()
            .unwrap()
            .iter()
            .filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING")
            .map(|line| line["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Every address that was asked for since it was last asked.
    pub(crate) async fn requests(&self) -> Vec<String> {
        let log = self.issue("se/log", json!({ "type": "performance" })).await;
        let messages = log.as_array().unwrap().iter().map(|line| {
            let text = line["message"].as_str().unwrap();
            serde_json::from_str::<Value>(text).unwrap()["message"].take()
        });
        messages
            .filter(|message| message["method"] == "Network.requestWillBeSent")
            .map(|message| {
                message["params"]["request"]["url"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }

    /// Nothing was complained about, and nothing was asked of anybody else.
    pub(crate) async fn is_content(&self) {
        assert_eq!(self.complaints().await, Vec::<String>::new());
        let requests = self.requests().await;
        assert!(!requests.is_empty());
        for url in requests {
            let own = url.starts_with(&format!("{}/", self.origin));
            assert!(own, "{url} is not of {}", self.origin);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.driver.stdin.take());
        self.driver.wait().unwrap();
        // The last of the browser's processes may still write.
        for _ in 0..10 {
            if std::fs::remove_dir_all(&self.profile).is_ok() {
                break;
            }
        }
    }
}

fn start_driver() -> (Child, u16) {
    (0..STARTS_MAX)
        .find_map(|_| try_driver())
        .expect("chromedriver says its port (scripts/services install has it)")
}

fn try_driver() -> Option<(Child, u16)> {
    let mut driver = Command::new("sh")
        .args(["-c", GUARD])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let output = BufReader::new(driver.stdout.take().unwrap());
    let port = output
        .lines()
        .map_while(Result::ok)
        .take_while(|line| line != "gave up")
        .find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
    if port.is_none() {
        // Closes its stdin, on which it ends what it started.
        drop(driver.stdin.take());
        driver.wait().unwrap();
    }
    Some((driver, port?))
}

/// What chromedriver offers beside the standard.
#[derive(Debug)]
struct Extra {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
