//! Statements with their parameters. The time is a parameter too, read from the system's clock: every process that uses the
//! file is on the same machine.

use std::sync::Arc;

use postrider_core::{RecordId, StoreError, Timestamp};
use serde_json::Value;
use sqlx::sqlite::{SqliteArguments, SqliteQueryResult, SqliteRow};
use sqlx::{Arguments as _, AssertSqlSafe, Sqlite, SqliteConnection};

use crate::sql::dialect::CLOCK_PARAMETER;
use crate::sql::table::Kind;

/// A statement whose parameters are given by their numbers. Those that are not are NULL.
#[derive(Debug)]
pub(super) struct Bound {
    text: Arc<str>,
    values: Vec<Parameter>,
    /// Whether the statement will be run again, and is worth keeping prepared.
    kept: bool,
}

#[derive(Debug, Clone, Default)]
enum Parameter {
    #[default]
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Bound {
    pub(super) fn new(text: &Arc<str>) -> Self {
        let now = Timestamp::now().as_micros();
        Self::at(text, now)
    }

    /// With this as the time.
    pub(super) fn at(text: &Arc<str>, now: i64) -> Self {
        let mut values = vec![Parameter::Null; CLOCK_PARAMETER];
        values[CLOCK_PARAMETER - 1] = Parameter::Int(now);
        Self {
            text: text.clone(),
            values,
            kept: true,
        }
    }

    /// A statement that was made for this one question.
    pub(super) fn once(self) -> Self {
        Self {
            kept: false,
            ..self
        }
    }

    pub(super) fn int(self, parameter: usize, value: i64) -> Self {
        self.set(parameter, Parameter::Int(value))
    }

    pub(super) fn text(self, parameter: usize, value: impl Into<String>) -> Self {
        self.set(parameter, Parameter::Text(value.into()))
    }

    pub(super) fn bytes(self, parameter: usize, value: impl Into<Vec<u8>>) -> Self {
        self.set(parameter, Parameter::Bytes(value.into()))
    }

    /// A list, as JSON.
    pub(super) fn list(self, parameter: usize, values: Vec<Value>) -> Self {
        self.text(parameter, Value::Array(values).to_string())
    }

    pub(super) fn texts<T: ToString>(
        self,
        parameter: usize,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let texts = values.into_iter().map(|value| value.to_string().into());
        self.list(parameter, texts.collect())
    }

    fn set(mut self, parameter: usize, value: Parameter) -> Self {
        self.values[parameter - 1] = value;
        self
    }

    pub(super) async fn execute(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<SqliteQueryResult, sqlx::Error> {
        self.query()?.execute(connection).await
    }

    pub(super) async fn rows(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        self.query()?.fetch_all(connection).await
    }

    pub(super) fn query(
        &self,
    ) -> Result<sqlx::query::Query<'static, Sqlite, SqliteArguments>, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        for value in &self.values {
            let added = match value {
                Parameter::Null => arguments.add(None::<i64>),
                Parameter::Int(value) => arguments.add(*value),
                Parameter::Text(value) => arguments.add(value.clone()),
                Parameter::Bytes(value) => arguments.add(value.clone()),
            };
            added.map_err(sqlx::Error::Encode)?;
        }
        let query = sqlx::query_with(AssertSqlSafe(self.text.clone()), arguments);
        Ok(query.persistent(self.kept))
    }
}

/// Ids as JSON, in the form that their column has. Ids that came as text are read as what the column holds.
pub(super) fn ids<'a>(
    kind: Kind,
    ids: impl IntoIterator<Item = &'a RecordId>,
) -> Result<Vec<Value>, StoreError> {
    ids.into_iter().map(|id| id_value(kind, id)).collect()
}

pub(super) fn id_value(kind: Kind, id: &RecordId) -> Result<Value, StoreError> {
    if kind != Kind::Int {
        return Ok(id.to_string().into());
    }
    let number = match id {
        RecordId::Int(id) => Some(*id),
        other => other.to_string().parse().ok(),
    };
    number.map(Into::into).ok_or_else(|| StoreError::Refused {
        action: "look up records",
        reason: format!("id {id} is not an integer, which this outbox has"),
        source: None,
    })
}
