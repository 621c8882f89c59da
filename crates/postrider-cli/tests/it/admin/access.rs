use super::*;

const VIEW: &str = "a-token-only-for-looking";
const OPERATE: &str = "a-token-for-everything";

/// Who may ask what, from a config: roles, names in the audit table and in the log, tokens nowhere.
#[tokio::test]
async fn tokens_of_the_config_guard_the_address_and_sign_what_is_done() {
    let outbox = TestOutbox::create("polyshop").await;
    let config = outbox.config(ROUTES).replace(
        "listen = \"127.0.0.1:0\"",
        "listen = \"0.0.0.0:0\"\ntoken = \"env:ADMIN_TOKEN\"\n\
         [admin.tokens.grafana]\nrole = \"view\"\ntoken = \"env:GRAFANA_TOKEN\"",
    );
    let project = Project::new(&config)
        .variable("ADMIN_TOKEN", OPERATE)
        .variable("GRAFANA_TOKEN", VIEW);
    let event = outbox.emit("order.placed", "7").await;
    let relay = project.relay().await;
    let address = relay.address().await.replace("0.0.0.0", "127.0.0.1");
    let payload = format!("/api/outboxes/orders/records/{event}/payload");
    let client = reqwest::Client::new();
    for (path, token, status) in [
        ("/livez", None, 200),
        ("/", None, 200),
        ("/readyz", None, 401),
        ("/metrics", None, 401),
        ("/api/overview", None, 401),
        ("/nowhere", None, 401),
        ("/metrics", Some("wrong"), 401),
        ("/metrics", Some(VIEW), 200),
        ("/api/overview", Some(VIEW), 200),
        (&*payload, Some(VIEW), 403),
        (&*payload, Some(OPERATE), 200),
        ("/nowhere", Some(OPERATE), 404),
    ] {
        let mut request = client.get(format!("http://{address}{path}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{path} {token:?}");
        let body = response.text().await.unwrap();
        assert!(!body.contains(OPERATE) && !body.contains(VIEW), "{body}");
    }
    let signed = "postrider_audit WHERE action = 'read payload' AND who = 'token'";
    assert_eq!(outbox.database.count(signed).await, 1);
    let line = relay.logged("admin: a payload was read").await;
    assert_eq!(
        (&line["by"], &line["outbox"]),
        (&json!("token"), &json!("orders"))
    );
    assert_eq!(line["record_id"], event.as_str());
    let log = relay.text().join("\n");
    for secret in [OPERATE, VIEW, "orderId"] {
        assert!(!log.contains(secret), "{secret}");
    }
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
