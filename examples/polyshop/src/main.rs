//! One of the shop's processes: `polyshop <service>`, `polyshop relay <service>` or `polyshop init`.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use example_polyshop::service::{Service, shutdown};
use example_polyshop::settings::{Settings, optional};
use example_polyshop::{
    ANALYTICS_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE, analytics, init,
    notification, order, payment, telemetry,
};

const USAGE: &str = "usage: polyshop init
       polyshop order-service | payment-service | notification-service | analytics-service
       polyshop relay order-service | payment-service   for a service in another language";

const LISTEN: &str = "127.0.0.1:8080";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["init"] => init::init(&Settings::from_environment()?).await,
        ["relay", name] => run(service_name(name)?, true).await,
        [name] => run(service_name(name)?, false).await,
        _ => bail!(USAGE),
    }
}

fn service_name(name: &str) -> anyhow::Result<&'static str> {
    let all = [
        ORDER_SERVICE,
        PAYMENT_SERVICE,
        NOTIFICATION_SERVICE,
        ANALYTICS_SERVICE,
    ];
    let found = all.into_iter().find(|known| *known == name);
    found.with_context(|| format!("no service {name}\n{USAGE}"))
}

async fn run(name: &'static str, relay_alone: bool) -> anyhow::Result<()> {
    let exporting = telemetry::start(name)?;
    let shutdown = shutdown()?;
    let service = Service::new(name, Settings::from_environment()?)?;
    let ended = match name {
        _ if relay_alone => {
            let relay = service.relay(Arc::default())?;
            relay.run(shutdown).await.map_err(Into::into)
        }
        ORDER_SERVICE => {
            let listen = optional("LISTEN").unwrap_or_else(|| LISTEN.into());
            let listen = listen.parse().context("LISTEN is no host:port")?;
            order::run(service, listen, shutdown).await
        }
        PAYMENT_SERVICE => payment::run(service, shutdown).await,
        NOTIFICATION_SERVICE => notification::run(service, shutdown).await,
        _ => analytics::run(service, shutdown).await,
    };
    if let Some(exporting) = exporting {
        exporting.shutdown().await;
    }
    ended
}
