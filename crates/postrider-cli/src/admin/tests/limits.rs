//! Too much, too slow, too many.

use std::time::Duration;

use postrider_testkit::eventually;

use super::super::limits;
use super::*;

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let server = start().await;
    let body = "POST /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999\r\n\r\n";
    assert_eq!(server.send(body.as_bytes()).await, 413);
    let header = format!(
        "GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    assert_eq!(server.send(header.as_bytes()).await, 431);
    let headers = "a: b\r\n".repeat(100);
    let many = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    assert_eq!(server.send(many.as_bytes()).await, 431);
    let long = format!(
        "GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "x".repeat(20_000)
    );
    let status = server.send(long.as_bytes()).await;
    assert!([414, 431].contains(&status), "{status}");
}

/// A body without a length is cut off where it is read.
#[tokio::test]
async fn a_body_without_a_length_is_cut_off() {
    let (_outbox, managed) = TestOutbox::create().await;
    let server = start_with(&BTreeMap::new(), [managed]).await;
    let chunk = format!("ffff\r\n{}\r\n", " ".repeat(0xffff));
    let request = format!(
        "POST /api/outboxes/orders/dead/resend HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}"
    );
    assert_eq!(server.send(request.as_bytes()).await, 413);
}

#[tokio::test]
async fn connections_that_say_nothing_end_by_themselves_and_let_others_in() {
    let server = start().await;
    let mut slow = Vec::new();
    for _ in 0..limits::CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // A little at first, and then no more.
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nho")
            .await
            .unwrap();
        slow.push(stream);
    }
    let began = std::time::Instant::now();
    assert_eq!(server.get("/livez").await.status(), 200);
    let waited = began.elapsed();
    assert!(waited < limits::HEADER_TIMEOUT * 2, "{waited:?}");
    eventually("slow connections are closed", async || {
        let mut open = 0;
        for stream in &mut slow {
            let mut answer = [0; 512];
            let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut answer));
            // 0 bytes or an error: closed.
            open += usize::from(!matches!(read.await, Ok(Ok(0) | Err(_))));
        }
        if open == 0 { Ok(()) } else { Err(open) }
    })
    .await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let (_outbox, managed) = TestOutbox::create().await;
    let server = start_with(&BTreeMap::new(), [managed]).await;
    let request = "POST /api/outboxes/orders/dead/resend HTTP/1.1\r\nhost: localhost\r\n\
                   content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let began = std::time::Instant::now();
    assert_eq!(server.send(request.as_bytes()).await, 408);
    assert!(began.elapsed() < limits::BODY_TIMEOUT * 2);
}
