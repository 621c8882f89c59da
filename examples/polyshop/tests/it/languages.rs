//! The services in other languages, as `setup` has prepared them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use example_polyshop::{INVENTORY_SERVICE, NOTIFICATION_SERVICE, PAYMENT_SERVICE};

use crate::process::Process;
use crate::shop::{Shop, here};

/// Where `setup` and Jaeger's `install` put what they make. They run once, and only make what is missing.
pub(crate) async fn prepared() -> &'static Path {
    static PREPARED: OnceLock<PathBuf> = OnceLock::new();
    let prepare = || {
        PREPARED.get_or_init(|| {
            for script in ["setup", "monitoring/jaeger/install"] {
                let done = Command::new(here().join(script)).status().unwrap();
                assert!(done.success(), "{script}: {done}");
            }
            here().join("../../target/polyshop")
        })
    };
    tokio::task::spawn_blocking(prepare).await.unwrap()
}

pub(crate) async fn inventory_in_java(shop: &Shop) -> Process {
    let java = prepared().await.join("java");
    let classes = format!("{0}/inventory-service.jar:{0}/libs/*", java.display());
    let main = "polyshop.inventory.InventoryApplication";
    let arguments = ["-XX:TieredStopAtLevel=1", "-cp", &classes, main];
    let url = &shop.schema(INVENTORY_SERVICE).url;
    shop.run(INVENTORY_SERVICE, url, Path::new("java"), &arguments)
}

pub(crate) async fn payment_in_node(shop: &mut Shop) -> Process {
    let modules = prepared().await.join("node/node_modules");
    shop.set("NODE_PATH", modules.to_str().unwrap());
    let script = here().join("services/payment-service/main.js");
    let url = &shop.schema(PAYMENT_SERVICE).url;
    let arguments = [script.to_str().unwrap()];
    shop.run(PAYMENT_SERVICE, url, Path::new("node"), &arguments)
}

pub(crate) async fn notification_in_python(shop: &mut Shop) -> Process {
    let python = prepared().await.join("python/venv/bin/python");
    let package = here().join("services/notification-service");
    shop.set("PYTHONPATH", package.to_str().unwrap());
    let url = &shop.schema(NOTIFICATION_SERVICE).url;
    let arguments = ["-m", "notification_service"];
    shop.run(NOTIFICATION_SERVICE, url, &python, &arguments)
}
