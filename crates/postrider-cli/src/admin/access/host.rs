//! The name by which the address was reached. Where there are no tokens it must be one of the loopback's own: a web page can
//! make its own name lead to 127.0.0.1, but not make a browser send another name.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::super::Admin;
use super::super::refused::Refused;

pub(in super::super) async fn require_loopback_name(
    State(admin): State<Admin>,
    request: Request,
    next: Next,
) -> Response {
    if admin.access.has_no_tokens()
        && let Err(refused) = check(&request)
    {
        return refused.into_response();
    }
    next.run(request).await
}

fn check(request: &Request) -> Result<(), Refused> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refused::bad("exactly one `Host` header is needed"));
    };
    // A request may name its target twice.
    let target = request.uri().authority().map(|named| named.as_str());
    let named = [host.to_str().ok(), Some(target.unwrap_or("localhost"))];
    if named.iter().all(|name| name.is_some_and(is_loopback)) {
        return Ok(());
    }
    let error = "without tokens this address is reached as localhost, 127.0.0.1 or [::1] only; \
                 set [admin.tokens.<name>] to reach it by another name";
    Err(Refused::new(StatusCode::MISDIRECTED_REQUEST, error))
}

/// `localhost` or an address of the loopback, with or without a port.
fn is_loopback(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) => {
                let loopback = host.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback());
                (loopback, port)
            }
            None => return false,
        },
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, port) = authority.split_at(end);
            let loopback = host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback());
            (loopback || host.eq_ignore_ascii_case("localhost"), port)
        }
    };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_the_loopbacks_own_names_are_taken() {
        for name in [
            "localhost",
            "localhost:9464",
            "LocalHost:1",
            "127.0.0.1",
            "127.0.0.1:65535",
            "127.8.9.10:80",
            "[::1]",
            "[::1]:9464",
            "[0:0:0:0:0:0:0:1]",
        ] {
            assert!(is_loopback(name), "{name}");
        }
        for name in [
            "",
            ":9464",
            "evil.example",
            "evil.example:9464",
            "localhost.",
            "localhost.:9464",
            "localhost.evil.example",
            "evil.localhost",
            "127.0.0.1.nip.io",
            "127.0.0.1.",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "0.0.0.0",
            "128.0.0.1",
            "::1",
            "[::1",
            "[::]",
            "[::2]:9464",
            "[::1%lo]",
            "[::ffff:127.0.0.1]",
            "[::1]evil.example",
            "user@localhost",
            "localhost:9464@evil.example",
            "evil.example:9464:localhost",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "localhost/evil",
            " localhost",
            "localhost, evil.example",
            "ⅼocalhost",
        ] {
            assert!(!is_loopback(name), "{name}");
        }
    }
}
