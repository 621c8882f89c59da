//! Lists of record ids as parameters, in the type that their column has.

use postrider_core::{RecordId, StoreError, text};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use uuid::Uuid;

use crate::sql::table::Kind;

pub(super) type PgQuery = Query<'static, Postgres, PgArguments>;

#[derive(Debug, Clone)]
pub(super) enum IdList {
    Uuid(Vec<Uuid>),
    Int(Vec<i64>),
    Text(Vec<String>),
}

impl IdList {
    /// Ids for a column of `kind`. Ids that came as text are read as what the column holds.
    pub(super) fn new<'a>(
        kind: Kind,
        ids: impl IntoIterator<Item = &'a RecordId>,
    ) -> Result<Self, StoreError> {
        let ids = ids.into_iter();
        Ok(match kind {
            Kind::Uuid => Self::Uuid(ids.map(uuid).collect::<Result<_, _>>()?),
            Kind::Int => Self::Int(ids.map(int).collect::<Result<_, _>>()?),
            _ => Self::Text(ids.map(ToString::to_string).collect()),
        })
    }

    pub(super) fn bind(self, query: PgQuery) -> PgQuery {
        match self {
            Self::Uuid(ids) => query.bind(ids),
            Self::Int(ids) => query.bind(ids),
            Self::Text(ids) => query.bind(ids),
        }
    }
}

fn uuid(id: &RecordId) -> Result<Uuid, StoreError> {
    match id {
        RecordId::Uuid(id) => Ok(*id),
        other => Uuid::parse_str(&other.to_string()).map_err(|_| not_an_id(other, "a UUID")),
    }
}

fn int(id: &RecordId) -> Result<i64, StoreError> {
    match id {
        RecordId::Int(id) => Ok(*id),
        other => other
            .to_string()
            .parse()
            .map_err(|_| not_an_id(other, "an integer")),
    }
}

fn not_an_id(id: &RecordId, expected: &str) -> StoreError {
    let id = text::bounded(&id.to_string(), 100);
    StoreError::Unfit {
        action: "look up records",
        reason: format!("id {id} is not {expected}, which this outbox has"),
    }
}
