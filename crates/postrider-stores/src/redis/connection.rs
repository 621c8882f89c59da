//! The connection to Redis: one for all callers, made when it is first needed and made anew after a failure.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::{StoreError, text};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, FromRedisValue, IntoConnectionInfo as _, RedisResult};

use super::error::store_error;
use super::script::Step;

#[derive(Clone)]
pub(super) struct Link {
    client: Client,
    timeout: Duration,
    live: Arc<Mutex<Live>>,
}

#[derive(Default)]
struct Live {
    connection: Option<ConnectionManager>,
    /// How many connections there were before.
    number: u64,
}

impl Link {
    pub(super) fn new(url: &str, timeout: Duration) -> Result<Self, StoreError> {
        let unreadable = |error: redis::RedisError| StoreError::Refused {
            action: "connect",
            // The URL holds the password, so it is not shown.
            reason: format!("the Redis URL cannot be read: {}", text::chain(&error)),
            source: None,
        };
        let info = url.into_connection_info().map_err(unreadable)?;
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Ok(Self {
            client: Client::open(info).map_err(unreadable)?,
            timeout,
            live: Arc::default(),
        })
    }

    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        Self {
            timeout,
            live: Arc::default(),
            ..self
        }
    }

    pub(super) async fn run<T: FromRedisValue>(&self, step: Step) -> Result<T, StoreError> {
        self.call(async |connection| step.0.invoke_async(connection).await)
            .await
    }

    pub(super) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let mut delete = redis::cmd("DEL");
        delete.arg(key);
        self.call(async |connection| delete.query_async(connection).await)
            .await
    }

    async fn call<T>(
        &self,
        work: impl AsyncFnOnce(&mut ConnectionManager) -> RedisResult<T>,
    ) -> Result<T, StoreError> {
        let (number, mut connection) = self.connection().map_err(store_error)?;
        let result = match tokio::time::timeout(self.timeout, work(&mut connection)).await {
            Ok(result) => result.map_err(store_error),
            Err(_) => Err(StoreError::Unavailable {
                reason: format!("Redis did not answer within {:?}", self.timeout),
                source: None,
            }),
        };
        if matches!(result, Err(StoreError::Unavailable { .. })) {
            self.forget(number);
        }
        result
    }

    fn connection(&self) -> RedisResult<(u64, ConnectionManager)> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match &live.connection {
            Some(connection) => connection.clone(),
            None => {
                // Callers have their own ideas of when to try again.
                let config = ConnectionManagerConfig::new()
                    .set_number_of_retries(0)
                    .set_connection_timeout(Some(self.timeout))
                    .set_response_timeout(Some(self.timeout));
                ConnectionManager::new_lazy_with_config(self.client.clone(), config)?
            }
        };
        live.connection = Some(connection.clone());
        Ok((live.number, connection))
    }

    /// The next call connects anew, unless a call before this one has seen to it. The driver would keep a connection
    /// that is silent, or whose server has become a replica, and remember a failed attempt for one call more.
    fn forget(&self, number: u64) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.number == number {
            live.connection = None;
            live.number += 1;
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.client.get_connection_info().addr();
        f.debug_struct("Link")
            .field("address", &address.to_string())
            .finish_non_exhaustive()
    }
}
