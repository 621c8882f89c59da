//! Licenses. Every change of a status emits `license_status_changed` in the transaction that makes it.

use postrider::core::{Event, Layout, Routes};
use postrider::stores::EmitError;
use postrider::stores::postgres::{Outbox, PgConnection, PgPool};
use uuid::Uuid;

use crate::payloads::{LicenseStatus, LicenseStatusChanged};

/// The domain service.
#[derive(Clone)]
pub struct Licenses {
    pool: PgPool,
    outbox: Outbox,
}

#[derive(Debug, thiserror::Error)]
pub enum LicenseError {
    #[error("there is no license {0}")]
    Unknown(Uuid),
    #[error("the license is {} already", .0.as_str())]
    Unchanged(LicenseStatus),
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    #[error("the event could not be recorded")]
    Emit(#[from] EmitError),
    #[error("the event could not be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl Licenses {
    /// What the registry would refuse to publish is refused here already.
    pub fn new(pool: PgPool, registry: Routes) -> anyhow::Result<Self> {
        Ok(Self {
            pool,
            outbox: Outbox::new(Layout::preset("packfinderz")?).with_routes(registry),
        })
    }

    /// A new license, which awaits review.
    pub async fn upload(&self, store_id: Uuid) -> Result<LicenseStatusChanged, LicenseError> {
        let changed = LicenseStatusChanged {
            license_id: Uuid::now_v7(),
            store_id,
            status: LicenseStatus::Pending,
            reason: None,
        };
        let mut tx = self.pool.begin().await?;
        sqlx::query("INSERT INTO licenses (id, store_id, status) VALUES ($1, $2, $3)")
            .bind(changed.license_id)
            .bind(store_id)
            .bind(changed.status.as_str())
            .execute(&mut *tx)
            .await?;
        self.emit(&mut tx, &changed).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// Another status, and why.
    pub async fn change(
        &self,
        license_id: Uuid,
        status: LicenseStatus,
        reason: Option<String>,
    ) -> Result<LicenseStatusChanged, LicenseError> {
        let mut tx = self.pool.begin().await?;
        // The lock also puts the events of a license in the order of its changes.
        let locked =
            sqlx::query_as("SELECT store_id, status FROM licenses WHERE id = $1 FOR UPDATE");
        let found: Option<(Uuid, String)> =
            locked.bind(license_id).fetch_optional(&mut *tx).await?;
        let (store_id, before) = found.ok_or(LicenseError::Unknown(license_id))?;
        if before == status.as_str() {
            return Err(LicenseError::Unchanged(status));
        }
        sqlx::query(
            "UPDATE licenses SET status = $2, reason = $3, updated_at = now() WHERE id = $1",
        )
        .bind(license_id)
        .bind(status.as_str())
        .bind(&reason)
        .execute(&mut *tx)
        .await?;
        let changed = LicenseStatusChanged {
            license_id,
            store_id,
            status,
            reason,
        };
        self.emit(&mut tx, &changed).await?;
        tx.commit().await?;
        Ok(changed)
    }

    async fn emit(
        &self,
        tx: &mut PgConnection,
        changed: &LicenseStatusChanged,
    ) -> Result<(), LicenseError> {
        let event = Event::typed(changed)?.aggregate_id(changed.license_id.to_string());
        self.outbox.emit(tx, event).await?;
        Ok(())
    }

    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}
