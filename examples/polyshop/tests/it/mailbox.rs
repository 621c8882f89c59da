//! The mail server that the mixed set sends to.

use example_polyshop::MAILBOX;
use serde_json::Value;

use crate::process::Process;
use crate::shop::{Shop, programs};

/// Starts it, for the services that start from now on.
pub(crate) async fn start_mailbox(shop: &mut Shop) -> Process {
    shop.set("SMTP_LISTEN", "127.0.0.1:0");
    let program = programs().join("polyshop");
    let mailbox = shop.run(MAILBOX, "", &program, &[MAILBOX]);
    let port = &mailbox.logged("takes mail").await["smtp"];
    shop.set("SMTP_PORT", &port.to_string());
    mailbox
}

/// The mails that it has taken, whole.
pub(crate) async fn mails(address: &str) -> Vec<String> {
    let mails = reqwest::get(format!("{address}/mails")).await.unwrap();
    let mails: Vec<Value> = mails.json().await.unwrap();
    let text = |mail: &Value| mail["text"].as_str().unwrap().to_owned();
    mails.iter().map(text).collect()
}
