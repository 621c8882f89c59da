//! PolyShop on Postrider: order, payment, notification and analytics services, each a process with a database
//! schema of its own, which know of each other by Kafka topics only. The first three exist in other languages too.

pub mod analytics;
pub mod events;
pub mod init;
mod json_lines;
pub mod notification;
pub mod order;
pub mod payment;
pub mod service;
pub mod settings;
pub mod telemetry;
mod trace;

/// The services, as `source`, consumer groups and collectors know them.
pub const ORDER_SERVICE: &str = "order-service";
pub const PAYMENT_SERVICE: &str = "payment-service";
pub const NOTIFICATION_SERVICE: &str = "notification-service";
pub const ANALYTICS_SERVICE: &str = "analytics-service";
