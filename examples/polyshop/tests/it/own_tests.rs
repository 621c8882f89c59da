//! The tests that the services in other languages bring, each in its own language, on the same servers.

use std::process::Command;

use postrider_testkit::services::services;

use crate::shop::here;

async fn pass(language: &'static str) {
    let servers = services();
    let mut test = Command::new(here().join("test"));
    test.arg(language)
        .env("POSTRIDER_TEST_POSTGRES_URL", &servers.postgres_url)
        .env("POSTRIDER_TEST_KAFKA", &servers.kafka);
    let ran = tokio::task::spawn_blocking(move || test.output()).await;
    let ran = ran.unwrap().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
}

#[tokio::test]
async fn the_services_in_java_pass_their_own_tests() {
    pass("java").await;
}

#[tokio::test]
async fn the_service_in_node_passes_its_own_tests() {
    pass("node").await;
}

#[tokio::test]
async fn the_service_in_python_passes_its_own_tests() {
    pass("python").await;
}
