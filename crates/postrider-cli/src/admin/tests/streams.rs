//! Event streams.

use std::time::Duration;

use super::super::limits;
use super::*;

async fn next(stream: &mut reqwest::Response) -> Option<String> {
    let chunk = stream.chunk().await.unwrap()?;
    Some(String::from_utf8(chunk.to_vec()).unwrap())
}

fn overview(event: &str) -> serde_json::Value {
    let data = event.strip_prefix("event: overview\ndata: ").unwrap();
    serde_json::from_str(data.trim_end()).unwrap()
}

#[tokio::test]
async fn a_stream_tells_the_overview_every_second_with_counts() {
    let (outbox, managed) = TestOutbox::create().await;
    let server = start_with(&BTreeMap::new(), [managed]).await;
    let mut stream = server.get("/api/events").await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let first = overview(&next(&mut stream).await.unwrap());
    assert_eq!(first["outboxes"][0]["pending"], 1, "{first}");
    assert_eq!(first["outboxes"][0]["dead"], 0);
    outbox
        .database
        .execute("INSERT INTO outbox_events SELECT (jsonb_populate_record(o, jsonb_build_object('id', gen_random_uuid()))).* FROM outbox_events o")
        .await;
    let began = std::time::Instant::now();
    let mut events = 0;
    loop {
        events += 1;
        let seen = overview(&next(&mut stream).await.unwrap());
        if seen["outboxes"][0]["pending"] == 2 {
            break;
        }
        assert!(events < 30, "{seen}");
    }
    let elapsed = began.elapsed().as_secs_f64();
    assert!(
        (f64::from(events) - elapsed).abs() < 2.5,
        "{events} in {elapsed} s"
    );
}

/// However many streams there are, one second has one overview.
#[tokio::test]
async fn streams_share_one_computation() {
    let server = start().await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(server.get("/api/events").await);
    }
    let mut made = std::collections::BTreeSet::new();
    let began = std::time::Instant::now();
    for _ in 0..3 {
        for stream in &mut streams {
            let event = overview(&next(stream).await.unwrap());
            made.insert(event["at"].as_str().unwrap().to_owned());
        }
    }
    let seconds = began.elapsed().as_secs() as usize;
    assert!(made.len() <= seconds + 2, "{made:?} in {seconds} s");
}

/// However often somebody looks, the table is counted every two seconds at most.
#[tokio::test]
async fn looking_often_does_not_count_often() {
    let (_outbox, managed) = TestOutbox::create().await;
    let server = start_with(&BTreeMap::new(), [managed]).await;
    let mut counted = std::collections::BTreeSet::new();
    let began = std::time::Instant::now();
    for _ in 0..50 {
        let overview = server.get("/api/overview").await;
        let overview: serde_json::Value = overview.json().await.unwrap();
        let at = &overview["outboxes"][0]["counted_at"];
        counted.insert(at.as_str().unwrap().to_owned());
    }
    let most = began.elapsed().as_secs() as usize / 2 + 1;
    assert!(counted.len() <= most, "{counted:?}");
}

#[tokio::test]
async fn the_seventeenth_stream_is_refused_until_another_ends() {
    let server = start().await;
    let mut streams = Vec::new();
    for _ in 0..limits::STREAMS_MAX {
        let mut stream = server.get("/api/events").await;
        assert!(next(&mut stream).await.is_some());
        streams.push(stream);
    }
    assert_eq!(server.get("/api/events").await.status(), 429);
    assert_eq!(server.get("/api/overview").await.status(), 200);
    streams.pop();
    postrider_testkit::eventually("a place is free", async || {
        match server.get("/api/events").await.status().as_u16() {
            200 => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

#[tokio::test]
async fn streams_end_at_a_stop() {
    let server = start().await;
    let mut stream = server.get("/api/events").await;
    assert!(next(&mut stream).await.is_some());
    server.stopping.cancel();
    let ends = async { while next(&mut stream).await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(5), ends)
        .await
        .unwrap();
    server.close.cancel();
    server.task.await.unwrap();
}
