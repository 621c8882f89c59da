//! The events of the shop, as its contract (Section B, `polyshop-events.md`) names them. Amounts are in cents.

use postrider::core::EventPayload;
use serde::{Deserialize, Serialize};

/// Declares an event type: the type and topic as a constant, and the fields of its data.
macro_rules! event {
    ($constant:ident = $event_type:literal, $name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        pub const $constant: &str = $event_type;

        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $(pub $field: $kind,)*
        }

        impl EventPayload for $name {
            const EVENT_TYPE: &'static str = $constant;
            const VERSION: Option<i32> = Some(1);
        }

        impl $name {
            /// As the contract has them, but for their case.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}

/// A line of an order.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub product_id: String,
    pub quantity: i32,
    pub price: i64,
}

event!(ORDER_PLACED = "order.order.placed.v1", OrderPlaced {
    order_id: String,
    user_id: String,
    items: Vec<Item>,
    total_amount: i64,
});
event!(
    ORDER_COMPLETED = "order.order.completed.v1",
    OrderCompleted {
        order_id: String,
        user_id: String,
        total_amount: i64,
    }
);
event!(
    ORDER_CANCELLED = "order.order.cancelled.v1",
    OrderCancelled {
        order_id: String,
        user_id: String,
        reason: String,
    }
);
event!(
    PAYMENT_SUCCEEDED = "payment.payment.succeeded.v1",
    PaymentSucceeded {
        payment_id: String,
        order_id: String,
        user_id: String,
        amount: i64,
    }
);
event!(
    STOCK_RESERVED = "inventory.stock.reserved.v1",
    StockReserved {
        movement_id: String,
        order_id: String,
        product_id: String,
        quantity: i32,
        remaining: i64,
    }
);
event!(
    STOCK_REJECTED = "inventory.stock.rejected.v1",
    StockRejected {
        movement_id: String,
        order_id: String,
        product_id: String,
        quantity: i32,
        available: i64,
    }
);
event!(
    PRODUCT_CREATED = "product.product.created.v1",
    ProductCreated {
        product_id: String,
        name: String,
        description: String,
        price: i64,
        revision: i64,
    }
);
event!(
    PRODUCT_UPDATED = "product.product.updated.v1",
    ProductUpdated {
        product_id: String,
        name: String,
        description: String,
        price: i64,
        revision: i64,
    }
);
event!(
    USER_REGISTERED = "auth.user.registered.v1",
    UserRegistered {
        user_id: String,
        email: String,
        name: String,
    }
);
event!(
    EMAIL_SENT = "notification.email.sent.v1",
    EmailSent {
        notification_id: String,
        kind: String,
        order_id: String,
        user_id: String,
        to: String,
    }
);

/// All of them, and the fields of their data. Each has a topic of its name, and beside it one for dead letters.
pub const EVENTS: [(&str, &[&str]); 10] = [
    (USER_REGISTERED, UserRegistered::FIELDS),
    (PRODUCT_CREATED, ProductCreated::FIELDS),
    (PRODUCT_UPDATED, ProductUpdated::FIELDS),
    (ORDER_PLACED, OrderPlaced::FIELDS),
    (ORDER_COMPLETED, OrderCompleted::FIELDS),
    (ORDER_CANCELLED, OrderCancelled::FIELDS),
    (PAYMENT_SUCCEEDED, PaymentSucceeded::FIELDS),
    (STOCK_RESERVED, StockReserved::FIELDS),
    (STOCK_REJECTED, StockRejected::FIELDS),
    (EMAIL_SENT, EmailSent::FIELDS),
];
