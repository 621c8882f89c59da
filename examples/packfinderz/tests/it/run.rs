//! What `make run-packfinderz` runs.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use example_packfinderz::settings::API_LISTEN;
use postrider_testkit::services::services;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::program::Program;
use crate::world::{API, World, root};

/// Three ports that follow each other and are free: for the api, the publisher and the consumer.
fn ports() -> u16 {
    let all_free = |first: &u16| {
        let mut ports = *first..first + 3;
        ports.all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
    };
    // Below those that systems give to whoever asks for any port, and from another place in every
    // process.
    let skip = std::process::id() as u16 % 1000;
    (8_000 + skip..12_000).step_by(3).find(all_free).unwrap()
}

/// The README's command, used as the README says, on servers that run and without building.
#[tokio::test]
async fn the_readmes_command_runs_until_ctrl_c_and_leaves_no_process() {
    let world = World::without_topics(services().pubsub.clone()).await;
    // A shell cannot trap Ctrl-C where whoever started the tests ignores it, as a shell's
    // background jobs do.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=INT")
        .arg(root().join("examples/packfinderz/run"));
    let (path, listen) = (
        std::env::var("PATH").unwrap(),
        format!("127.0.0.1:{}", ports()),
    );
    let programs = Path::new(API).parent().unwrap();
    let programs = ("PACKFINDERZ_PROGRAMS", programs.to_str().unwrap());
    let variables = [("PATH", path.as_str()), (API_LISTEN, &listen), programs];
    let running = Program::start(command, &world.variables(&variables));
    running.said("packfinderz: ready: ").await;

    let client = reqwest::Client::new();
    let post = async |path: &str, body: Value| -> Value {
        let request = client.post(format!("http://{listen}{path}")).json(&body);
        request.send().await.unwrap().json().await.unwrap()
    };
    let license = post("/licenses", json!({ "storeId": Uuid::now_v7() })).await;
    let path = format!(
        "/licenses/{}/status",
        license["licenseId"].as_str().unwrap()
    );
    post(
        &path,
        json!({ "status": "rejected", "reason": "it has expired" }),
    )
    .await;
    // One for the admins, one for the store.
    world.until_count("notifications", 2).await;
    assert_eq!(running.interrupt().await, Some(0));
}
