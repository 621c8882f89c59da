//! A PgBouncer in transaction mode in front of the shared Postgres, of the version that Debian ships. It gives every
//! transaction the server that has rested longest, so two of a client rarely meet the same one.

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::database::Database;
use crate::services::{Kind, PrivateServer, services};

/// Ends with this value.
#[derive(Debug)]
pub struct Pooler {
    server: PrivateServer,
}

impl Pooler {
    /// Its servers' sessions use the schema of `database`.
    pub async fn before(database: &Database) -> Self {
        Self::ignoring(database, "").await
    }

    /// One that passes over these startup parameters, where by default it refuses most.
    pub async fn ignoring(database: &Database, parameters: &str) -> Self {
        let to: PgConnectOptions = services().postgres_url.parse().expect("is a URL");
        let to = format!("host={} port={}", to.get_host(), to.get_port());
        let environment = vec![
            ("POSTRIDER_PGBOUNCER_TO", to),
            ("POSTRIDER_PGBOUNCER_SEARCH_PATH", database.schema.clone()),
            ("POSTRIDER_PGBOUNCER_IGNORES", parameters.to_owned()),
        ];
        Self {
            server: PrivateServer::start_with(Kind::PgBouncer, environment).await,
        }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.server.address())
    }
}

pub(crate) async fn answers(port: u16) -> bool {
    match options(&format!("127.0.0.1:{port}")).connect().await {
        Ok(mut connection) => connection.ping().await.is_ok(),
        Err(_) => false,
    }
}

/// It refuses a parameter that the driver sends by default.
fn options(address: &str) -> PgConnectOptions {
    let url = format!("postgres://postgres@{address}/postgres");
    let options: PgConnectOptions = url.parse().expect("is a URL");
    options.extra_float_digits(None)
}
