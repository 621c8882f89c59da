use crate::binary::Project;
use crate::outbox::TestOutbox;

const TOKEN: &str = "a-token-of-some-length";

/// Who may ask what: with a token only `/livez` is open, also to other machines.
#[tokio::test]
async fn a_token_guards_everything_but_livez() {
    let outbox = TestOutbox::create("polyshop").await;
    let config = outbox.config("").replace(
        "listen = \"127.0.0.1:0\"",
        "listen = \"0.0.0.0:0\"\ntoken = \"env:ADMIN_TOKEN\"",
    );
    let project = Project::new(&config).variable("ADMIN_TOKEN", TOKEN);
    let relay = project.relay().await;
    let address = relay.address().await.replace("0.0.0.0", "127.0.0.1");
    let client = reqwest::Client::new();
    for (path, token, status) in [
        ("/livez", None, 200),
        ("/readyz", None, 401),
        ("/metrics", None, 401),
        ("/nowhere", None, 401),
        ("/metrics", Some("wrong"), 401),
        ("/metrics", Some(TOKEN), 200),
        ("/nowhere", Some(TOKEN), 404),
    ] {
        let mut request = client.get(format!("http://{address}{path}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{path} {token:?}");
        let body = response.text().await.unwrap();
        assert!(!body.contains(TOKEN), "{body}");
    }
    assert!(!relay.text().join("\n").contains(TOKEN));
}

#[tokio::test]
async fn readiness_names_each_dependency() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    let relay = project.relay().await;
    let body = relay.becomes(200).await;
    assert_eq!(body["ready"], true);
    assert_eq!(body["outboxes"][0]["name"], "orders");
    assert_eq!(body["outboxes"][0]["database"]["ready"], true);
    assert_eq!(body["outboxes"][0]["broker"]["ready"], true);
}
