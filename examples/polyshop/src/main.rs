//! One of the shop's processes: `polyshop <service>`, or `polyshop init`, which prepares the database and the cluster.

use anyhow::{Context as _, bail};
use example_polyshop::service::{Service, shutdown};
use example_polyshop::settings::Settings;
use example_polyshop::{
    ANALYTICS_SERVICE, GATEWAY, INVENTORY_SERVICE, MAILBOX, NOTIFICATION_SERVICE, ORDER_SERVICE,
    PAYMENT_SERVICE, SEARCH_SERVICE, analytics, gateway, init, inventory, mailbox, notification,
    order, payment, search, telemetry,
};

const USAGE: &str = "usage: polyshop init
       polyshop gateway | mailbox | order-service | payment-service | inventory-service
                | notification-service | search-service | analytics-service";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["init"] => init::init(&Settings::from_environment()?).await,
        [name] => run(service_name(name)?).await,
        _ => bail!(USAGE),
    }
}

fn service_name(name: &str) -> anyhow::Result<&'static str> {
    let all = [
        GATEWAY,
        MAILBOX,
        ORDER_SERVICE,
        PAYMENT_SERVICE,
        INVENTORY_SERVICE,
        NOTIFICATION_SERVICE,
        SEARCH_SERVICE,
        ANALYTICS_SERVICE,
    ];
    let found = all.into_iter().find(|known| *known == name);
    found.with_context(|| format!("no service {name}\n{USAGE}"))
}

async fn run(name: &'static str) -> anyhow::Result<()> {
    let exporting = telemetry::start(name)?;
    let shutdown = shutdown()?;
    let service = || Service::new(name, Settings::from_environment()?);
    let ended = match name {
        GATEWAY => gateway::run(shutdown).await,
        MAILBOX => mailbox::run(shutdown).await,
        ORDER_SERVICE => order::run(service()?, shutdown).await,
        PAYMENT_SERVICE => payment::run(service()?, shutdown).await,
        INVENTORY_SERVICE => inventory::run(service()?, shutdown).await,
        NOTIFICATION_SERVICE => notification::run(service()?, shutdown).await,
        SEARCH_SERVICE => search::run(service()?, shutdown).await,
        _ => analytics::run(service()?, shutdown).await,
    };
    if let Some(exporting) = exporting {
        exporting.shutdown().await;
    }
    ended
}
