//! Every resource, asked by everybody.

use serde_json::{Value, json};

use super::*;

/// What is asked, with what body, and the status for no token, a wrong one, `view` and `operate`.
type Line = (&'static str, &'static str, Option<Value>, [u16; 4]);

const ASK: [u16; 4] = [401, 401, 200, 200];
const OPEN: [u16; 4] = [200, 200, 200, 200];
const CHANGE: [u16; 4] = [401, 401, 403, 200];

fn lines() -> Vec<Line> {
    // The record is not dead, so a change that is let through changes nothing.
    let none = Some(json!({ "ids": ["{id}"], "expect": 0 }));
    let replay = Some(json!({ "ids": ["{id}"] }));
    vec![
        ("GET", "/api/me", None, ASK),
        ("GET", "/api/overview", None, ASK),
        ("GET", "/api/events", None, ASK),
        ("GET", "/api/outboxes/{outbox}/records", None, ASK),
        ("GET", "/api/outboxes/{outbox}/records/count", None, ASK),
        ("GET", "/api/outboxes/{outbox}/records/{id}", None, ASK),
        (
            "GET",
            "/api/outboxes/{outbox}/records/{id}/payload",
            None,
            CHANGE,
        ),
        ("GET", "/api/outboxes/{outbox}/parked", None, ASK),
        ("GET", "/api/outboxes/{outbox}/diagnosis", None, ASK),
        ("GET", "/api/outboxes/{outbox}/audit", None, ASK),
        ("GET", "/api/outboxes/{outbox}/replay", None, ASK),
        (
            "POST",
            "/api/outboxes/{outbox}/dead/resend",
            none.clone(),
            CHANGE,
        ),
        ("POST", "/api/outboxes/{outbox}/dead/discard", none, CHANGE),
        (
            "POST",
            "/api/outboxes/{outbox}/replay",
            replay,
            [401, 401, 403, 202],
        ),
        ("DELETE", "/api/outboxes/{outbox}/replay", None, CHANGE),
        // Beside the API.
        ("GET", "/livez", None, OPEN),
        ("GET", "/", None, OPEN),
        ("GET", "/metrics", None, ASK),
        ("GET", "/readyz", None, [401, 401, 503, 503]),
        ("GET", "/nowhere", None, [401, 401, 404, 404]),
        ("GET", "/api/nowhere", None, [401, 401, 404, 404]),
        ("PUT", "/api/me", None, [401, 401, 405, 405]),
        ("DELETE", "/metrics", None, [401, 401, 405, 405]),
        (
            "GET",
            "/api/outboxes/none/records",
            None,
            [401, 401, 404, 404],
        ),
    ]
}

#[test]
fn every_resource_has_a_line_in_the_table() {
    let lines = lines();
    for resource in api::resources() {
        let line = lines.iter().find(|(method, path, ..)| {
            *method == resource.method.as_str() && *path == resource.path
        });
        let (.., statuses) = line.unwrap_or_else(|| {
            panic!("no line for {} {}", resource.method, resource.path);
        });
        let refused_to_viewers = statuses[2] == 403;
        assert_eq!(
            resource.needs == Role::Operate,
            refused_to_viewers,
            "{}",
            resource.path
        );
    }
}

#[tokio::test]
async fn every_resource_is_answered_by_role() {
    let (outbox, managed) = TestOutbox::create().await;
    let server = start_with(&tokens(), [managed]).await;
    let given = [
        None,
        Some("a-token-that-is-wrong"),
        Some(VIEW),
        Some(OPERATE),
    ];
    for (method, path, body, statuses) in lines() {
        let path = path
            .replace("{outbox}", "orders")
            .replace("{id}", &outbox.id);
        for (token, status) in std::iter::zip(given, statuses) {
            let mut request = server.request(method, &path);
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            if let Some(body) = &body {
                let body = body.to_string().replace("{id}", &outbox.id);
                request = request
                    .header("content-type", "application/json")
                    .body(body);
            }
            let response = request.send().await.unwrap();
            let found = response.status().as_u16();
            let text = match path.ends_with("/events") && found == 200 {
                true => String::new(),
                false => response.text().await.unwrap(),
            };
            assert_eq!(found, status, "{method} {path} {token:?}: {text}");
            assert!(!text.contains(VIEW) && !text.contains(OPERATE), "{text}");
            let payload = text.contains("secret") && text.contains(": 7");
            assert!(!payload || path.ends_with("/payload"), "{text}");
        }
    }
    let looks = "postrider_audit WHERE action = 'read payload' AND who = 'ops'";
    assert_eq!(outbox.database.count(looks).await, 1);
    assert_eq!(outbox.database.count("outbox_events").await, 1);
}

/// Status, headers and body of a refusal say nothing of what was wrong, or of what is there.
#[tokio::test]
async fn no_token_a_wrong_one_and_a_malformed_one_get_the_same_answer() {
    let (_outbox, managed) = TestOutbox::create().await;
    let server = start_with(&tokens(), [managed]).await;
    let mut answers = std::collections::BTreeSet::new();
    for authorization in [
        None,
        Some("Bearer ".to_owned()),
        Some("Bearer wrong".to_owned()),
        Some(format!("Bearer {}", &OPERATE[..OPERATE.len() - 1])),
        Some(format!("Bearer {OPERATE}x")),
        Some(format!("Bearer {} {}", OPERATE, OPERATE)),
        Some(format!("Basic {OPERATE}")),
        Some(format!("Bearer\t{OPERATE}")),
        Some(OPERATE.to_owned()),
        Some(format!("Bearer {}", "x".repeat(5_000))),
    ] {
        for (method, path) in [
            ("GET", "/api/me"),
            ("GET", "/metrics"),
            ("GET", "/api/outboxes/orders/records"),
            ("GET", "/api/outboxes/none/records"),
            ("PUT", "/api/me"),
            ("POST", "/api/outboxes/orders/dead/discard"),
            ("GET", "/nowhere"),
        ] {
            let mut request = server.request(method, path);
            if let Some(value) = &authorization {
                request = request.header("authorization", value);
            }
            let response = request.send().await.unwrap();
            let mut headers = response.headers().clone();
            headers.remove("date");
            let status = response.status();
            let headers = format!("{headers:?}");
            answers.insert((status.as_u16(), headers, response.text().await.unwrap()));
        }
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
    let (status, headers, _) = answers.first().unwrap();
    assert_eq!(*status, 401);
    assert!(
        headers.contains("\"www-authenticate\": \"Bearer\""),
        "{headers}"
    );
}

#[tokio::test]
async fn a_token_says_who_one_is() {
    let server = start_with(&tokens(), []).await;
    for (token, name, role) in [(VIEW, "looking", "view"), (OPERATE, "ops", "operate")] {
        let me = server.request("GET", "/api/me").bearer_auth(token);
        let me: Value = me.send().await.unwrap().json().await.unwrap();
        assert_eq!(me, json!({ "name": name, "role": role, "demo": false }));
    }
    let me: Value = start().await.get("/api/me").await.json().await.unwrap();
    assert_eq!(
        me,
        json!({ "name": "loopback", "role": "operate", "demo": false })
    );
}
