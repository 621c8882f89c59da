//! PolyShop on Postrider: a gateway, and services that are each a process with a database schema of its own and know
//! of each other by Kafka topics only. `postrider relay` carries their outboxes to Kafka. auth and product exist in
//! Java only; search and analytics in Rust only; the others in Rust and in another language.

pub mod analytics;
pub mod events;
pub mod gateway;
pub mod http;
pub mod init;
pub mod inventory;
mod json_lines;
pub mod mailbox;
pub mod notification;
pub mod order;
pub mod payment;
pub mod search;
pub mod service;
pub mod settings;
pub mod telemetry;
mod trace;

/// The services, as `source`, consumer groups and collectors know them.
pub const GATEWAY: &str = "gateway";
pub const MAILBOX: &str = "mailbox";
pub const AUTH_SERVICE: &str = "auth-service";
pub const PRODUCT_SERVICE: &str = "product-service";
pub const INVENTORY_SERVICE: &str = "inventory-service";
pub const ORDER_SERVICE: &str = "order-service";
pub const PAYMENT_SERVICE: &str = "payment-service";
pub const NOTIFICATION_SERVICE: &str = "notification-service";
pub const SEARCH_SERVICE: &str = "search-service";
pub const ANALYTICS_SERVICE: &str = "analytics-service";
