//! The payloads whose fields are known. The publisher does not use them: it checks by the registry's schemas.

use postrider::core::EventPayload;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Uploaded, approved, rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LicenseStatus {
    Pending,
    Verified,
    Rejected,
}

/// A license was uploaded or decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LicenseStatusChanged {
    pub license_id: Uuid,
    pub store_id: Uuid,
    pub status: LicenseStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl EventPayload for LicenseStatusChanged {
    const EVENT_TYPE: &'static str = "license_status_changed";
    const AGGREGATE_TYPE: Option<&'static str> = Some("license");
    const VERSION: Option<i32> = Some(1);
}

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
