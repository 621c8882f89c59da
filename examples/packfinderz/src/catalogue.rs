//! Every event type and aggregate type of PackFinderz. The labels of the database's enums, the registry, the payloads'
//! types and the consumers all come from the two tables here. The library's preset has labels of its own, for those who do
//! not use this program; `the_migrated_outbox_is_the_layouts` holds the two equal.

use postrider::core::EventPayload;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::payloads;

/// The version of all payloads so far.
const VERSION: i32 = 1;
/// JSON Schema's `format` is only a remark; this is checked.
const UUID: &str = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";

macro_rules! aggregate_types {
    ($($variant:ident = $label:literal,)+) => {
        /// Whose event it is: `aggregate_type_enum` in the database.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type)]
        #[serde(rename_all = "snake_case")]
        #[sqlx(type_name = "aggregate_type_enum", rename_all = "snake_case")]
        pub enum AggregateType { $($variant),+ }

        impl AggregateType {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }
        }
    };
}

macro_rules! event_types {
    ($($variant:ident = $label:literal of $aggregate:ident,)+) => {
        /// What happened: `event_type_enum` in the database. The payload's type has the variant's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type)]
        #[serde(rename_all = "snake_case")]
        #[sqlx(type_name = "event_type_enum", rename_all = "snake_case")]
        pub enum EventType { $($variant),+ }

        impl EventType {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }

            pub const fn aggregate_type(self) -> AggregateType {
                match self { $(Self::$variant => AggregateType::$aggregate),+ }
            }

            /// What its payload must fit, from the payload's type.
            pub fn schema(self) -> Value {
                match self { $(Self::$variant => schema::<payloads::$variant>()),+ }
            }
        }

        $(impl EventPayload for payloads::$variant {
            const EVENT_TYPE: &'static str = EventType::$variant.label();
            const AGGREGATE_TYPE: Option<&'static str> = Some(AggregateType::$aggregate.label());
            const VERSION: Option<i32> = Some(VERSION);
        })+
    };
}

aggregate_types! {
    VendorOrder = "vendor_order",
    CheckoutGroup = "checkout_group",
    License = "license",
    Store = "store",
    Media = "media",
    LedgerEvent = "ledger_event",
    Notification = "notification",
    // Its business life only.
    Ad = "ad",
}

event_types! {
    // Core
    OrderCreated = "order_created" of VendorOrder,
    OrderStateChanged = "order_state_changed" of VendorOrder,
    LineItemStateChanged = "line_item_state_changed" of VendorOrder,
    LicenseStatusChanged = "license_status_changed" of License,
    MediaUploaded = "media_uploaded" of Media,
    PaymentSettled = "payment_settled" of LedgerEvent,
    CashCollected = "cash_collected" of LedgerEvent,
    VendorPayoutRecorded = "vendor_payout_recorded" of LedgerEvent,
    NotificationRequested = "notification_requested" of Notification,
    // Optional
    OrderExpired = "order_expired" of VendorOrder,
    OrderCanceled = "order_canceled" of VendorOrder,
    ReservationReleased = "reservation_released" of VendorOrder,
    // Ads: no clicks, no impressions
    AdCreated = "ad_created" of Ad,
    AdUpdated = "ad_updated" of Ad,
    AdPaused = "ad_paused" of Ad,
    AdActivated = "ad_activated" of Ad,
    AdExpired = "ad_expired" of Ad,
    AdDailyRollupReady = "ad_daily_rollup_ready" of Ad,
}

fn schema<P: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings
        .with_transform(CheckedUuids)
        .into_generator()
        .into_root_schema_for::<P>();
    // The registry's key says it already.
    schema.remove("title");
    schema.into()
}

#[derive(Clone)]
struct CheckedUuids;

impl Transform for CheckedUuids {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.get("format").is_some_and(|format| format == "uuid") {
            schema.remove("format");
            schema.insert("pattern".to_owned(), UUID.into());
        }
        transform_subschemas(self, schema);
    }
}
