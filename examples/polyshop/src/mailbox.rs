//! mailbox: a mail server for one machine, so that notification-service has somebody to send to. It takes every mail by
//! SMTP, delivers none, and shows the latest at `GET /mails`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::http::serve;
use crate::settings::{listen, optional};

const SMTP_LISTEN: &str = "127.0.0.1:2525";
const MAILS_MAX: usize = 1_000;
/// What SMTP allows is less.
const LINE_BYTES_MAX: u64 = 4_096;
const MAIL_BYTES_MAX: usize = 1_000_000;

#[derive(Debug, Clone, Default, Serialize)]
struct Mail {
    from: String,
    to: Vec<String>,
    /// Headers and body, as they came.
    text: String,
}

#[derive(Clone, Default)]
struct Mails(Arc<Mutex<VecDeque<Mail>>>);

impl Mails {
    fn keep(&self, mail: Mail) {
        tracing::info!(to = mail.to.join(", "), "mail");
        let mut mails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if mails.len() == MAILS_MAX {
            mails.pop_front();
        }
        mails.push_back(mail);
    }

    fn all(&self) -> Vec<Mail> {
        let mails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mails.iter().cloned().collect()
    }
}

pub async fn run(shutdown: CancellationToken) -> anyhow::Result<()> {
    let mails = Mails::default();
    let shown = mails.clone();
    let routes = Router::new()
        .route("/livez", get(async || Json(json!({ "live": true }))))
        .route("/readyz", get(async || Json(json!({ "ready": true }))))
        .route("/mails", get(async move || Json(shown.all())));
    let smtp = optional("SMTP_LISTEN").unwrap_or_else(|| SMTP_LISTEN.into());
    let smtp: SocketAddr = smtp.parse().context("SMTP_LISTEN is no address and port")?;
    let listener = TcpListener::bind(smtp).await;
    let listener = listener.with_context(|| format!("cannot listen on {smtp}"))?;
    tracing::info!(smtp = listener.local_addr()?.port(), "takes mail");
    tokio::select! {
        served = serve(listen()?, routes, shutdown) => served,
        accepted = accept(listener, mails) => accepted,
    }
}

async fn accept(listener: TcpListener, mails: Mails) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let mails = mails.clone();
        tokio::spawn(async move {
            if let Err(error) = converse(stream, &mails).await {
                tracing::warn!(error = format!("{error:#}"), "a client went wrong");
            }
        });
    }
}

/// SMTP, as much of it as a client needs that only sends.
async fn converse(stream: TcpStream, mails: &Mails) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut mail = Mail::default();
    answer(&mut stream, "220 polyshop").await?;
    while let Some(line) = line(&mut stream).await? {
        let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
        match (&*verb.to_ascii_uppercase(), argument.split_once(':')) {
            ("EHLO" | "HELO" | "NOOP", _) => answer(&mut stream, "250 polyshop").await?,
            ("RSET", _) => {
                mail = Mail::default();
                answer(&mut stream, "250 forgotten").await?;
            }
            ("MAIL", Some((_, from))) => {
                mail.from = address(from);
                answer(&mut stream, "250 from").await?;
            }
            ("RCPT", Some((_, to))) => {
                mail.to.push(address(to));
                answer(&mut stream, "250 to").await?;
            }
            ("DATA", _) => {
                answer(&mut stream, "354 go on, and end with a dot").await?;
                mail.text = text(&mut stream).await?;
                mails.keep(std::mem::take(&mut mail));
                answer(&mut stream, "250 taken").await?;
            }
            ("QUIT", _) => return answer(&mut stream, "221 bye").await,
            _ => answer(&mut stream, "502 not known here").await?,
        }
    }
    Ok(())
}

async fn answer(stream: &mut BufReader<TcpStream>, answer: &str) -> anyhow::Result<()> {
    stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
    Ok(())
}

/// Without its end; nothing where the client has left.
async fn line(stream: &mut BufReader<TcpStream>) -> anyhow::Result<Option<String>> {
    let mut line = Vec::new();
    let mut bounded = stream.take(LINE_BYTES_MAX);
    if bounded.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        bail!("a line has no end");
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
}

async fn text(stream: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let mut text = String::new();
    while let Some(line) = line(stream).await? {
        if line == "." {
            return Ok(text);
        }
        // A dot that begins a line is doubled on its way.
        text.push_str(line.strip_prefix('.').unwrap_or(&line));
        text.push('\n');
        if text.len() > MAIL_BYTES_MAX {
            bail!("a mail is over {MAIL_BYTES_MAX} bytes");
        }
    }
    bail!("a mail has no end")
}

/// `<ada@example.com> SIZE=…` without what is around the address.
fn address(argument: &str) -> String {
    let inner = argument.split_once('<').map_or(argument, |(_, rest)| rest);
    let inner = inner.split_once('>').map_or(inner, |(inner, _)| inner);
    inner.trim().to_owned()
}
