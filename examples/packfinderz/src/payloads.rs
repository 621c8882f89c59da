//! The payload of every event type, named like its variant in [`EventType`](crate::catalogue::EventType). The registry's
//! schemas are made from them; the publisher checks by those and knows no type. Fields may be added, and must then be
//! optional: rows without them are in the table already.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Declares payloads, whose fields are in camel case on the wire.
macro_rules! payloads {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            pub struct $name { $($(#[$attribute])* pub $field: $type,)+ }
        )+
    };
}

/// Declares words, in snake case on the wire.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($word:ident,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "snake_case")]
            pub enum $name { $($word,)+ }
        )+
    };
}

words! {
    /// Of an order.
    OrderState { Placed, Accepted, Packed, InTransit, Delivered, Closed, Expired, Canceled, }
    /// Of one line of an order.
    LineItemState { Pending, Accepted, Rejected, Fulfilled, Returned, }
    /// Uploaded, approved, rejected.
    LicenseStatus { Pending, Verified, Rejected, }
    /// What a file shows.
    MediaKind { Product, License, Ad, }
}

payloads! {
    /// A vendor's part of a checkout was ordered.
    OrderCreated {
        order_id: Uuid,
        checkout_group_id: Uuid,
        buyer_store_id: Uuid,
        vendor_store_id: Uuid,
        #[schemars(range(min = 0))]
        total_cents: i64,
        currency: Currency,
    }

    /// An order went from one state to the next.
    OrderStateChanged { order_id: Uuid, from: OrderState, to: OrderState, }

    /// One line of an order went from one state to the next.
    LineItemStateChanged {
        order_id: Uuid,
        line_item_id: Uuid,
        from: LineItemState,
        to: LineItemState,
    }

    /// A license was uploaded or decided on.
    LicenseStatusChanged {
        license_id: Uuid,
        store_id: Uuid,
        status: LicenseStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }

    /// A file is stored.
    MediaUploaded {
        media_id: Uuid,
        store_id: Uuid,
        kind: MediaKind,
        mime_type: String,
        #[schemars(range(min = 0))]
        size_bytes: i64,
    }

    /// An order's payment arrived.
    PaymentSettled {
        ledger_event_id: Uuid,
        order_id: Uuid,
        #[schemars(range(min = 0))]
        amount_cents: i64,
        currency: Currency,
    }

    /// An order was paid in cash at its delivery.
    CashCollected {
        ledger_event_id: Uuid,
        order_id: Uuid,
        agent_id: Uuid,
        #[schemars(range(min = 0))]
        amount_cents: i64,
        currency: Currency,
    }

    /// A vendor was paid.
    VendorPayoutRecorded {
        ledger_event_id: Uuid,
        vendor_store_id: Uuid,
        #[schemars(range(min = 0))]
        amount_cents: i64,
        currency: Currency,
    }

    /// Somebody is to be told something.
    NotificationRequested {
        notification_id: Uuid,
        store_id: Uuid,
        template: String,
    }

    /// Nobody accepted an order in time.
    OrderExpired { order_id: Uuid, }

    /// An order was called off.
    OrderCanceled {
        order_id: Uuid,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }

    /// Stock that was kept for an order is free again.
    ReservationReleased {
        order_id: Uuid,
        line_item_id: Uuid,
        quantity: u32,
    }

    /// An ad was drawn up.
    AdCreated { ad_id: Uuid, store_id: Uuid, title: String, }

    /// An ad was changed; the names of the fields that were.
    AdUpdated { ad_id: Uuid, store_id: Uuid, changed: Vec<String>, }

    /// An ad is not shown for now.
    AdPaused {
        ad_id: Uuid,
        store_id: Uuid,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }

    /// An ad is shown from now on.
    AdActivated { ad_id: Uuid, store_id: Uuid, }

    /// An ad has come to its end.
    AdExpired { ad_id: Uuid, store_id: Uuid, }

    /// A day's figures of an ad can be read.
    AdDailyRollupReady {
        ad_id: Uuid,
        store_id: Uuid,
        #[schemars(regex(pattern = r"^\d{4}-\d{2}-\d{2}$"))]
        day: String,
    }
}

/// A code of ISO 4217.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Currency(#[schemars(regex(pattern = "^[A-Z]{3}$"))] pub String);

impl LicenseStatus {
    /// As the `licenses` table and the payload have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Verified => "verified",
            Self::Rejected => "rejected",
        }
    }
}
