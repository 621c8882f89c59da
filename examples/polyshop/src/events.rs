//! The events of the shop, as its contract (Section B) names them. Amounts are in cents.

use postrider::core::EventPayload;
use serde::{Deserialize, Serialize};

/// Type and topic of [`OrderPlaced`], keyed by the order.
pub const ORDER_PLACED: &str = "order.order.placed.v1";
/// Type and topic of [`PaymentSucceeded`], keyed by the order.
pub const PAYMENT_SUCCEEDED: &str = "payment.payment.succeeded.v1";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub product_id: String,
    pub quantity: i32,
    pub price: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderPlaced {
    pub order_id: String,
    pub user_id: String,
    pub items: Vec<Item>,
    pub total_amount: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentSucceeded {
    pub payment_id: String,
    pub order_id: String,
    pub user_id: String,
    pub amount: i64,
}

impl EventPayload for OrderPlaced {
    const EVENT_TYPE: &'static str = ORDER_PLACED;
    const VERSION: Option<i32> = Some(1);
}

impl EventPayload for PaymentSucceeded {
    const EVENT_TYPE: &'static str = PAYMENT_SUCCEEDED;
    const VERSION: Option<i32> = Some(1);
}
