//! What a start of the demo is made of, written down as a config file that every other verb of the binary reads.

use std::net::SocketAddr;

use toml::Value;

use super::orders::OrderPlaced;
use postrider::core::EventPayload as _;

/// The first line of a config file that may be written anew.
pub(super) const MARK: &str = "# Written by `postrider demo`, and again at every start of it.";
pub(super) const OUTBOX: &str = "orders";
/// How long published records stay: what can be replayed, and what a start on the same folder sends again.
const KEEP: &str = "15m";

pub(super) struct Settings {
    pub(super) listen: SocketAddr,
    pub(super) database: String,
    /// `None` is the broker in this process.
    pub(super) kafka: Option<String>,
    pub(super) topic: String,
}

impl Settings {
    pub(super) fn toml(&self) -> String {
        let text = |value: &str| Value::from(value).to_string();
        let listen = text(&self.listen.to_string());
        let broker = match &self.kafka {
            Some(bootstrap) => format!("kind = \"kafka\"\nbootstrap = {}", text(bootstrap)),
            // A relay of another process would have a broker of its own.
            None => "# Lives in the demo's own process.\nkind = \"memory\"".to_owned(),
        };
        let database = text(&self.database);
        let topic = text(&self.topic);
        let event_type = OrderPlaced::EVENT_TYPE;
        format!(
            r#"{MARK}
[admin]
listen = {listen}

[broker.demo]
{broker}

[[outbox]]
name = "{OUTBOX}"
database = {database}
layout = "polyshop"
broker = "demo"
source = "order-service"

[outbox.cleanup]
keep = "{KEEP}"

[[outbox.route]]
event_type = "{event_type}"
topic = {topic}

# An order of 0 pieces does not fit, and is dead at once.
[outbox.route.schema]
type = "object"
required = ["number", "customer", "item", "quantity"]
properties.quantity = {{ type = "integer", minimum = 1 }}
"#
        )
    }
}
