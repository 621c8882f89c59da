use crate::binary::Project;
use crate::outbox::TestOutbox;

#[tokio::test]
async fn a_running_relay_is_healthy_and_a_missing_one_is_not() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    let relay = project.relay().await;
    let address = relay.address().await;
    let asking = outbox
        .project("")
        .variable("POSTRIDER__ADMIN__LISTEN", &address);
    asking.run(&["healthcheck"]).ok();
    relay.becomes(200).await;
    asking.run(&["healthcheck", "--ready"]).ok();
    drop(relay);
    asking
        .run(&["healthcheck"])
        .exits(1)
        .says("the relay does not answer at");
}

/// A database that is down: the process lives, and is not ready.
#[tokio::test]
async fn an_outage_is_not_ready_and_alive() {
    let outbox = TestOutbox::create("polyshop").await;
    let config = outbox
        .config("")
        .replace(outbox.url(), "postgres://nobody@127.0.0.1:1/nothing");
    let project = Project::new(&config);
    let relay = project.relay().await;
    let asking = Project::new(&config).variable("POSTRIDER__ADMIN__LISTEN", &relay.address().await);
    relay.becomes(503).await;
    asking.run(&["healthcheck"]).ok();
    asking
        .run(&["healthcheck", "--ready"])
        .exits(1)
        .says("/readyz answers 503")
        .says("orders: database: ");
}

#[tokio::test]
async fn whoever_else_listens_is_no_relay() {
    let outbox = TestOutbox::empty("polyshop").await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stranger = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example ESMTP\r\n")
            .await
            .unwrap();
    });
    let project = outbox
        .project("")
        .variable("POSTRIDER__ADMIN__LISTEN", &address);
    let ran = tokio::task::spawn_blocking(move || project.run(&["healthcheck"]));
    ran.await.unwrap().exits(1).says("speaks no HTTP");
    stranger.await.unwrap();
    // Without a port nobody can be asked.
    outbox
        .project("")
        .run(&["healthcheck"])
        .exits(2)
        .says("give it a port");
}
