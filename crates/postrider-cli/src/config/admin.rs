//! `[admin]`: where the admin address is, and who may do what there.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::error::{ConfigError, Problem};
use super::scope::Scope;
use super::secret::{Secret, Sources};
use super::validate::check_name;
use super::{defaults, raw};

/// What `admin.token` is called in logs and in the audit table.
const SHORTHAND: &str = "token";

#[derive(Debug, Serialize)]
pub(crate) struct Admin {
    pub(crate) listen: SocketAddr,
    /// By name. Never empty where `listen` is not on the loopback.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tokens: BTreeMap<String, Token>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Token {
    pub(crate) role: Role,
    pub(crate) token: Secret,
}

/// What the bearer of a token may do. Each may what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Ask for everything but payloads.
    View,
    /// Change things, and read payloads.
    Operate,
}

impl Admin {
    pub(super) fn read(
        raw: raw::Admin,
        scope: &Scope,
        sources: &Sources,
    ) -> Result<Self, ConfigError> {
        let listen = raw.listen.unwrap_or_else(|| defaults::ADMIN_LISTEN.into());
        let listen: SocketAddr = listen.parse().map_err(|_| {
            let allowed = "an IP address with a port is, for example 127.0.0.1:9464 or [::1]:9464";
            scope.refused("listen", &listen, allowed)
        })?;
        let mut tokens = BTreeMap::new();
        if let Some(token) = raw.token {
            let named = raw::Token {
                role: Some(Role::Operate),
                token: Some(token),
            };
            add(&mut tokens, SHORTHAND.into(), named, scope, sources)?;
        }
        for (name, token) in raw.tokens {
            let scope = Scope(scope.0.key("tokens").key(&name));
            check_name(&scope.0, &name)?;
            add(&mut tokens, name, token, &scope, sources)?;
        }
        if tokens.is_empty() && !listen.ip().to_canonical().is_loopback() {
            let allowed = "an address that others can reach needs `admin.token` or [admin.tokens.<name>]; \
                           without one, 127.0.0.1 or [::1] is";
            return Err(scope.refused("listen", listen, allowed));
        }
        Ok(Self { listen, tokens })
    }
}

fn add(
    tokens: &mut BTreeMap<String, Token>,
    name: String,
    raw: raw::Token,
    scope: &Scope,
    sources: &Sources,
) -> Result<(), ConfigError> {
    let role = scope.required("role", raw.role, "\"view\" or \"operate\" is needed")?;
    let needed = "give the token itself, `env:NAME` or `file:/path`";
    let token = scope
        .required("token", raw.token, needed)?
        .resolve(sources)
        .map_err(|error| scope.error("token", Problem::Secret(error)))?;
    let wrong = |reason: String| Err(scope.error("token", Problem::Malformed(reason)));
    let length = token.expose().chars().count();
    if !defaults::TOKEN_CHARS.contains(&length) {
        let (min, max) = (defaults::TOKEN_CHARS.start(), defaults::TOKEN_CHARS.end());
        return wrong(format!(
            "a token has {min} to {max} characters, this one has {length}; `openssl rand -hex 32` makes a good one"
        ));
    }
    if !token.expose().chars().all(|c| c.is_ascii_graphic()) {
        return wrong("a token is made of ASCII letters, digits and signs, without spaces: it travels in a header".into());
    }
    if let Some((other, _)) = tokens.iter().find(|(_, other)| other.token == token) {
        return wrong(format!(
            "it is the same as that of `{other}`; every token is a different one"
        ));
    }
    if tokens.contains_key(&name) {
        return wrong(format!(
            "`admin.token` is the token `{name}` already; name this one otherwise"
        ));
    }
    tokens.insert(name, Token { role, token });
    Ok(())
}
