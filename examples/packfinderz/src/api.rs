//! `api`: uploads licenses, decides on them, and shows the notifications that came of it. It knows no user: put it
//! behind something that does.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use postrider::core::text::chain;
use postrider::stores::postgres;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::licenses::{LicenseError, Licenses};
use crate::payloads::{LicenseStatus, LicenseStatusChanged};
use crate::registry::Registry;
use crate::{endpoints, settings};

const CONNECTIONS: u32 = 8;
const REASON_BYTES_MAX: usize = 1_000;

/// Runs until told to stop.
pub async fn run(settings: settings::Api, shutdown: CancellationToken) -> anyhow::Result<()> {
    let pool = postgres::connect(&settings.database_url, CONNECTIONS)?;
    let registry = Registry::load()?.routes(&settings.domain_topic)?;
    let router = router(Licenses::new(pool, registry)?);
    endpoints::serve(settings.listen, router, shutdown).await
}

fn router(licenses: Licenses) -> Router {
    Router::new()
        .route("/licenses", post(upload))
        .route("/licenses/{id}/status", post(change))
        .route("/notifications", get(notifications))
        .route("/livez", get(async || Json(json!({ "live": true }))))
        .route("/readyz", get(readyz))
        .with_state(licenses)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Upload {
    store_id: Uuid,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    status: LicenseStatus,
    reason: Option<String>,
}

async fn upload(
    State(licenses): State<Licenses>,
    Json(Upload { store_id }): Json<Upload>,
) -> Result<(StatusCode, Json<LicenseStatusChanged>), Problem> {
    let license = licenses.upload(store_id).await?;
    Ok((StatusCode::CREATED, Json(license)))
}

async fn change(
    State(licenses): State<Licenses>,
    Path(id): Path<Uuid>,
    Json(Change { status, reason }): Json<Change>,
) -> Result<Json<LicenseStatusChanged>, Problem> {
    if reason
        .as_ref()
        .is_some_and(|reason| reason.len() > REASON_BYTES_MAX)
    {
        return Err(Problem::TooLong);
    }
    Ok(Json(licenses.change(id, status, reason).await?))
}

/// The last ones, newest first.
async fn notifications(State(licenses): State<Licenses>) -> Result<Json<Value>, Problem> {
    const SQL: &str = "SELECT coalesce(json_agg(n), '[]')::text FROM (SELECT type, audience, store_id, license_id, \
         reason, message, event_id, created_at FROM notifications ORDER BY id DESC LIMIT 50) n";
    let text: String = sqlx::query_scalar(SQL)
        .fetch_one(licenses.pool())
        .await
        .map_err(LicenseError::from)?;
    Ok(Json(
        serde_json::from_str(&text).map_err(LicenseError::from)?,
    ))
}

async fn readyz(State(licenses): State<Licenses>) -> (StatusCode, Json<Value>) {
    let ready = sqlx::query("SELECT 1")
        .execute(licenses.pool())
        .await
        .is_ok();
    (endpoints::status(ready), Json(json!({ "ready": ready })))
}

/// What a caller is told; the log has the rest.
enum Problem {
    TooLong,
    License(LicenseError),
}

impl From<LicenseError> for Problem {
    fn from(error: LicenseError) -> Self {
        Self::License(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, told) = match self {
            Self::TooLong => (
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("a reason has {REASON_BYTES_MAX} bytes at most"),
            ),
            Self::License(error @ LicenseError::Unknown(_)) => {
                (StatusCode::NOT_FOUND, error.to_string())
            }
            Self::License(error @ LicenseError::Unchanged(_)) => {
                (StatusCode::CONFLICT, error.to_string())
            }
            Self::License(error) => {
                tracing::error!(reason = chain(&error), "request failed");
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "please try again".to_owned(),
                )
            }
        };
        (status, Json(json!({ "error": told }))).into_response()
    }
}
