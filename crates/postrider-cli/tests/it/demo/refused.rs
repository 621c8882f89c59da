//! What a demo does not do, and what it says instead.

use std::net::TcpListener;

use reqwest::Client;
use rustix::process::Signal;
use serde_json::json;

use super::process::{Place, argument};

#[test]
fn a_port_that_is_taken_is_named_with_what_to_do() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, stderr) = place.run(&["--port", &port]);
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains(&port) && stderr.contains("--port"),
        "{stderr}"
    );
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn what_cannot_be_followed_is_said_and_leaves_nothing() {
    let place = Place::new();
    let (code, stderr) = place.run(&["--rate", "101"]);
    assert_eq!(code, Some(2), "{stderr}");
    for url in ["nonsense", "mysql://localhost/shop"] {
        let (code, stderr) = place.run(&["--port", "0", "--postgres", url]);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains("URL"), "{stderr}");
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let url = format!("postgres://somebody:secret@{address}/shop");
    let (code, stderr) = place.run(&["--port", "0", "--postgres", &url]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("does not answer") && !stderr.contains("secret"),
        "{stderr}"
    );
    let (code, stderr) = place.run(&["--port", "0", "--kafka", &address.to_string()]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("does not answer"), "{stderr}");
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_belongs_to_one_demo_and_a_config_to_its_author() {
    let place = Place::new();
    let folder = place.path("data");
    let dir = argument(&folder);
    let demo = place.start(&["--dir", dir, "--rate", "0"]).await;
    let (code, stderr) = place.run(&["--port", "0", "--dir", dir]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("another demo runs"), "{stderr}");
    demo.stop().await;

    let config = folder.join("postrider.toml");
    std::fs::write(&config, "# mine\n").unwrap();
    let (code, stderr) = place.run(&["--port", "0", "--dir", dir]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("left as it is"), "{stderr}");
    assert_eq!(std::fs::read_to_string(config).unwrap(), "# mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_service_keeps_the_rules_of_the_admin_address() {
    let place = Place::new();
    let demo = place.start(&["--rate", "0"]).await;
    let url = format!("{}/demo/orders", demo.address());
    let order = json!({ "customer": "you", "item": "tea", "quantity": 1 });
    let post = || Client::new().post(&url).json(&order);
    let status =
        async |request: reqwest::RequestBuilder| request.send().await.unwrap().status().as_u16();
    assert_eq!(status(post()).await, 201);
    assert_eq!(status(post().header("host", "evil.example")).await, 421);
    assert_eq!(
        status(post().header("origin", "http://evil.example")).await,
        403
    );
    assert_eq!(
        status(post().header("sec-fetch-site", "cross-site")).await,
        403
    );
    assert_eq!(status(Client::new().get(&url)).await, 405);
    let form = Client::new().post(&url).body(order.to_string());
    assert_eq!(status(form.header("content-type", "text/plain")).await, 415);
    for bad in [
        json!({}),
        json!([]),
        json!({ "customer": "", "item": "tea", "quantity": 1 }),
        json!({ "customer": "you\u{0}", "item": "tea", "quantity": 1 }),
        json!({ "customer": "x".repeat(65), "item": "tea", "quantity": 1 }),
        json!({ "customer": "you", "item": "tea", "quantity": -1 }),
        json!({ "customer": "you", "item": "tea", "quantity": 1.5 }),
        json!({ "customer": "you", "item": "tea", "quantity": 1, "more": 1 }),
    ] {
        let (status, answer) = demo.post("/demo/orders", &bad).await;
        assert_eq!(status, 400, "{bad}");
        assert!(answer["error"].is_string());
    }
    let large = json!({ "customer": "x".repeat(100_000), "item": "tea", "quantity": 1 });
    assert_eq!(demo.post("/demo/orders", &large).await.0, 413);
    for (path, expected) in [
        ("/demo/topics", 200),
        ("/demo/topics/nowhere", 404),
        ("/demo/topics/orders?last=0", 400),
        ("/demo/topics/orders?last=101", 400),
        ("/demo/topics/orders?more=1", 400),
        ("/demo/nowhere", 404),
    ] {
        let get = Client::new().get(format!("{}{path}", demo.address()));
        assert_eq!(status(get).await, expected, "{path}");
    }
    // A closed terminal ends it as Ctrl-C does.
    demo.ends_by(Signal::HUP).await;
    assert!(place.files().is_empty(), "{:?}", place.files());
}
