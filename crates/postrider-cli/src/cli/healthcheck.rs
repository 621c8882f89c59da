//! `postrider healthcheck`: asks the relay on this machine how it is. For images without curl.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ConfigArgs, UsageError};
use crate::{config, output};

/// For the whole question and its answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Enough for `HTTP/1.1 503`; the rest of the answer is not read.
const STATUS_LINE_BYTES: u64 = 12;

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
    let status = asked
        .map_err(anyhow::Error::from)
        .flatten()
        .with_context(|| format!("the relay does not answer at {address}"))?;
    let ok = status == "200";
    if !ok {
        output::note(&format!("{path} answers {status}"));
    }
    Ok(output::verdict(ok))
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

/// The status of the answer, as three digits.
async fn ask(address: SocketAddr, request: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut line = Vec::new();
    stream
        .take(STATUS_LINE_BYTES)
        .read_to_end(&mut line)
        .await?;
    let line = String::from_utf8_lossy(&line);
    let status = line
        .split_once(' ')
        .filter(|(version, status)| version.starts_with("HTTP/1.") && status.len() == 3)
        .map(|(_, status)| status.to_owned());
    status.with_context(|| format!("whoever listens at {address} speaks no HTTP"))
}
