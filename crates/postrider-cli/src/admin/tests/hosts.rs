//! Names, sites and methods that are not what they seem.

use super::*;

#[tokio::test]
async fn without_tokens_only_the_loopbacks_own_names_reach_anything() {
    let server = start().await;
    let port = server.address.port();
    let get = |target: &str, headers: &str| {
        format!("GET {target} HTTP/1.1\r\n{headers}connection: close\r\n\r\n")
    };
    let own = format!("host: 127.0.0.1:{port}\r\n");
    for (request, status) in [
        (get("/api/me", &own), 200),
        (get("/api/me", "host: localhost\r\n"), 200),
        (get("/api/me", "host: [::1]:9464\r\n"), 200),
        (get("/api/me", "host: evil.example\r\n"), 421),
        (get("/api/me", "host: localhost.\r\n"), 421),
        (get("/api/me", "host: user@localhost\r\n"), 421),
        (get("/api/me", "host: localhost@evil.example\r\n"), 421),
        (get("/api/me", "host: [::2]\r\n"), 421),
        (get("/api/me", "host: [::1\r\n"), 421),
        (get("/api/me", "host: \r\n"), 421),
        (get("/api/me", "host: \u{e9}\r\n"), 421),
        (get("/api/me", ""), 400),
        (
            get("/api/me", "host: localhost\r\nhost: evil.example\r\n"),
            400,
        ),
        (
            get("/api/me", "host: localhost\r\nhost: localhost\r\n"),
            400,
        ),
        (get("http://evil.example/api/me", &own), 421),
        (get("http://user@localhost/api/me", &own), 421),
        (
            get("http://localhost/api/me", "host: evil.example\r\n"),
            421,
        ),
        (get("http://localhost/api/me", &own), 200),
        (
            get(
                "/api/me",
                "host: evil.example\r\nx-forwarded-host: localhost\r\n",
            ),
            421,
        ),
        (
            get(
                "/api/me",
                "host: evil.example\r\nforwarded: host=localhost\r\n",
            ),
            421,
        ),
        (
            get(
                "/api/me",
                "host: localhost\r\nx-forwarded-host: evil.example\r\n",
            ),
            200,
        ),
        (get("/metrics", "host: evil.example\r\n"), 421),
        (get("/livez", "host: evil.example\r\n"), 421),
        (get("/", "host: evil.example\r\n"), 421),
        (get("/nowhere", "host: evil.example\r\n"), 421),
        ("GET /api/me HTTP/1.0\r\n\r\n".into(), 400),
        (
            format!("CONNECT evil.example:80 HTTP/1.1\r\n{own}\r\n"),
            421,
        ),
        (format!("OPTIONS * HTTP/1.1\r\n{own}\r\n"), 404),
    ] {
        assert_eq!(server.send(request.as_bytes()).await, status, "{request}");
    }
}

#[tokio::test]
async fn with_tokens_any_name_will_do_but_the_token_must_be_right() {
    let server = start_with(&tokens(), []).await;
    let host = "GET /api/me HTTP/1.1\r\nhost: admin.example\r\n";
    let asked = format!("{host}authorization: Bearer {VIEW}\r\n\r\n");
    assert_eq!(server.send(asked.as_bytes()).await, 200);
    assert_eq!(server.send(format!("{host}\r\n").as_bytes()).await, 401);
}

#[tokio::test]
async fn a_page_of_another_site_can_ask_for_nothing_and_change_nothing() {
    let (outbox, managed) = TestOutbox::create().await;
    let server = start_with(&BTreeMap::new(), [managed]).await;
    let discard = "/api/outboxes/orders/dead/discard";
    let own = format!("http://{}", server.address);
    let body = r#"{"filter": {}, "expect": 0}"#;
    for (name, value, status) in [
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "http://localhost:1", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", &own, 200),
        ("sec-fetch-site", "same-origin", 200),
        ("x-nothing", "at all", 200),
    ] {
        let post = server.request("POST", discard).header(name, value);
        let post = post.header("content-type", "application/json").body(body);
        assert_eq!(
            post.send().await.unwrap().status(),
            status,
            "{name} {value}"
        );
        let stop = server.request("DELETE", "/api/outboxes/orders/replay");
        let stop = stop.header(name, value).send().await.unwrap();
        assert_eq!(stop.status() == 403, status == 403, "{name} {value}");
        // A look at a payload is written down, so it is no harmless question.
        let path = format!("/api/outboxes/orders/records/{}/payload", outbox.id);
        let look = server.request("GET", &path).header(name, value);
        assert_eq!(
            look.send().await.unwrap().status(),
            status,
            "{name} {value}"
        );
    }
}

/// What a form of any page may send without being asked.
#[tokio::test]
async fn a_change_that_is_not_json_is_refused() {
    let (_outbox, managed) = TestOutbox::create().await;
    let server = start_with(&BTreeMap::new(), [managed]).await;
    let body = r#"{"filter": {}, "expect": 0}"#;
    for (kind, status) in [
        (None, 415),
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (Some("multipart/form-data; boundary=application/json"), 415),
        (Some("text/plain; application/json"), 415),
        (Some("application/json5"), 415),
        (Some("application/json, text/plain"), 415),
        (Some("Application/JSON; charset=utf-8"), 200),
    ] {
        let post = server.request("POST", "/api/outboxes/orders/dead/resend");
        let post = match kind {
            Some(kind) => post.header("content-type", kind),
            None => post,
        };
        let response = post.body(body).send().await.unwrap();
        assert_eq!(response.status(), status, "{kind:?}");
    }
}

#[tokio::test]
async fn headers_that_name_another_method_are_ignored() {
    let (outbox, managed) = TestOutbox::create().await;
    let server = start_with(&BTreeMap::new(), [managed]).await;
    for name in [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
    ] {
        let value = match name.ends_with("url") {
            true => "/api/outboxes/orders/dead/discard",
            false => "DELETE",
        };
        let asked = server.request("GET", "/api/outboxes/orders/replay");
        let response = asked.header(name, value).send().await.unwrap();
        let body: serde_json::Value = response.json().await.unwrap();
        assert_eq!(body, serde_json::json!({ "replay": null }), "{name}");
        let path = "/api/outboxes/orders/replay?_method=DELETE";
        assert_eq!(server.get(path).await.status(), 200);
    }
    assert_eq!(outbox.database.count("postrider_audit").await, 0);
}
