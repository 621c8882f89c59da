//! `postrider healthcheck`: asks the relay on this machine how it is. For images without curl.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ConfigArgs, UsageError};
use crate::{config, output};

/// For the whole question and its answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// No longer answer is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Ask whether every database and broker answers (/readyz), not only whether the process does (/livez)
    #[arg(long)]
    ready: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let admin = args.config.load()?.admin;
    if admin.listen.port() == 0 {
        let text = "admin.listen has port 0, so the relay's address is not known; give it a port";
        return Err(UsageError(text.into()).into());
    }
    let address = reachable(admin.listen);
    let path = if args.ready { "/readyz" } else { "/livez" };
    let asked = tokio::time::timeout(TIMEOUT, ask(address, &request(address, path, &admin))).await;
    let (status, body) = asked
        .map_err(anyhow::Error::from)
        .flatten()
        .with_context(|| format!("the relay does not answer at {address}"))?;
    let ok = status == "200";
    if !ok {
        output::note(&format!("{path} answers {status}"));
    }
    for trouble in troubles(&body) {
        output::note(&printable(&trouble));
    }
    Ok(output::verdict(ok))
}

/// What does not answer, which parts of a broker take no writes, and what the relay has found.
fn troubles(body: &Value) -> Vec<String> {
    let mut troubles = Vec::new();
    for outbox in body["outboxes"].as_array().into_iter().flatten() {
        let name = outbox["name"].as_str().unwrap_or_default();
        for dependency in ["database", "broker"] {
            if let Some(reason) = outbox[dependency]["reason"].as_str() {
                troubles.push(format!("{name}: {dependency}: {reason}"));
            }
        }
        for part in outbox["parts"].as_array().into_iter().flatten() {
            troubles.push(format!("{name}: {}", part.as_str().unwrap_or_default()));
        }
        for finding in outbox["findings"].as_array().into_iter().flatten() {
            let text = |part: &str| finding[part].as_str().unwrap_or_default();
            let (level, subject) = (text("level"), text("subject"));
            troubles.push(format!("{name}: {level}: {subject}: {}", text("message")));
        }
    }
    troubles
}

/// What rows contain must not steer a terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Where a listener on every address is reached from the same machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// With the token that may least.
fn request(address: SocketAddr, path: &str, admin: &config::Admin) -> String {
    let token = admin.tokens.values().min_by_key(|token| token.role);
    let token = token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {}\r\n", token.token.expose())
    });
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{token}Connection: close\r\n\r\n")
}

/// The status of the answer, as three digits, and its body where it is JSON.
async fn ask(address: SocketAddr, request: &str) -> anyhow::Result<(String, Value)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    // Whoever hangs up on us may have said something first.
    if answer.is_empty() {
        read?;
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer
        .split_once(' ')
        .filter(|(version, _)| version.starts_with("HTTP/1."))
        .and_then(|(_, rest)| rest.get(..3));
    let status = status.with_context(|| format!("whoever listens at {address} speaks no HTTP"))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((
        status.to_owned(),
        serde_json::from_str(body).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_named_in_words_that_a_terminal_bears() {
        let body = json!({ "outboxes": [{
            "name": "orders",
            "database": { "ready": false, "reason": "no answer" },
            "broker": { "ready": true, "reason": null },
            "parts": ["topic a takes no writes: it does not exist"],
            "findings": [{ "level": "warning", "subject": "record 7", "message": "refused\u{1b}[2J" }],
        }] });
        let told: Vec<String> = troubles(&body).iter().map(|it| printable(it)).collect();
        assert_eq!(
            told,
            [
                "orders: database: no answer",
                "orders: topic a takes no writes: it does not exist",
                "orders: warning: record 7: refused\u{fffd}[2J"
            ]
        );
        assert!(troubles(&Value::Null).is_empty());
    }
}
