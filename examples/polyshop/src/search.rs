//! search-service: finds products by words of their name and description. It only consumes: it has `processed_events`
//! and no outbox.

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use postrider::consumer::{Context, Handlers};
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::{PgPool, Tx};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::events::{PRODUCT_CREATED, PRODUCT_UPDATED, ProductCreated, ProductUpdated};
use crate::http::refused;
use crate::service::{Service, database_error};
use crate::trace;

const FOUND_MAX: i64 = 50;

pub async fn run(service: Service, shutdown: CancellationToken) -> anyhow::Result<()> {
    let consumer = service
        .consumer(&[PRODUCT_CREATED, PRODUCT_UPDATED])?
        .handle(Handlers::new().on(created).on(updated));
    let routes = Router::new()
        .route("/search", get(search))
        .with_state(service.pool.clone());
    service.run(consumer, routes, shutdown).await
}

async fn created(ctx: &mut Context<Tx>, event: Event<ProductCreated>) -> Result<(), HandlerError> {
    let it = event.payload;
    index(
        ctx.tx(),
        &it.product_id,
        &it.name,
        &it.description,
        it.price,
        it.revision,
    )
    .await
}

async fn updated(ctx: &mut Context<Tx>, event: Event<ProductUpdated>) -> Result<(), HandlerError> {
    let it = event.payload;
    index(
        ctx.tx(),
        &it.product_id,
        &it.name,
        &it.description,
        it.price,
        it.revision,
    )
    .await
}

/// Only a higher revision replaces what is there: the two types are two topics, with no order between them.
async fn index(
    tx: &mut Tx,
    product_id: &str,
    name: &str,
    description: &str,
    price: i64,
    revision: i64,
) -> Result<(), HandlerError> {
    let sql = "INSERT INTO products AS known (product_id, name, description, price, revision) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT (product_id) DO UPDATE \
               SET name = EXCLUDED.name, description = EXCLUDED.description, \
                   price = EXCLUDED.price, revision = EXCLUDED.revision \
               WHERE known.revision < EXCLUDED.revision";
    let indexed = sqlx::query(sql)
        .bind(product_id)
        .bind(name)
        .bind(description)
        .bind(price)
        .bind(revision)
        .execute(&mut **tx)
        .await
        .map_err(database_error)?;
    tracing::info!(revision, indexed = indexed.rows_affected() == 1, "indexed");
    Ok(())
}

#[derive(Deserialize)]
struct Question {
    q: String,
}

/// Id, name, description, price.
type Product = (String, String, String, i64);

async fn search(
    State(pool): State<PgPool>,
    headers: HeaderMap,
    Query(question): Query<Question>,
) -> Response {
    let span = trace::request("GET /search", &headers);
    let sql = "SELECT product_id, name, description, price FROM products, \
                      websearch_to_tsquery('simple', $1) AS asked \
               WHERE words @@ asked ORDER BY ts_rank(words, asked) DESC, product_id LIMIT $2";
    let found = async {
        let found = sqlx::query_as::<_, Product>(sql)
            .bind(question.q.replace('\0', " "))
            .bind(FOUND_MAX);
        match found.fetch_all(&pool).await {
            Ok(products) => {
                let products: Vec<Value> = products.into_iter().map(shown).collect();
                Json(json!({ "products": products })).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "search failed");
                refused(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "nothing can be searched now",
                )
            }
        }
    };
    found.instrument(span).await
}

fn shown((product_id, name, description, price): Product) -> Value {
    json!({ "productId": product_id, "name": name, "description": description, "price": price })
}
