//! What a query or a body asks for. Everything that is not understood is refused: a filter that is ignored would match more
//! than was meant.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use postrider::core::operate::{Cursor, RecordFilter, RecordState};
use postrider::core::{RecordId, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::limits;
use super::refused::Refused;
use crate::moment;

/// Which records, as it was written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    #[serde(rename = "type")]
    pub(super) event_type: Option<String>,
    pub(super) key: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) error: Option<String>,
    pub(super) since: Option<String>,
    pub(super) until: Option<String>,
    #[serde(skip)]
    pub(super) state: Option<RecordState>,
    #[serde(skip)]
    pub(super) ids: Vec<String>,
}

impl Wanted {
    pub(super) fn filter(self) -> Result<RecordFilter, Refused> {
        let optional = |name, value: Option<String>| value.map(|it| text(name, it)).transpose();
        let time_of = |name, value: Option<String>| value.map(|it| time(name, it)).transpose();
        Ok(RecordFilter {
            state: self.state,
            ids: ids(self.ids)?,
            event_type: optional("type", self.event_type)?,
            key: optional("key", self.key)?,
            topic: optional("topic", self.topic)?,
            error: optional("error", self.error)?,
            since: time_of("since", self.since)?,
            until: time_of("until", self.until)?,
        })
    }
}

/// A query that says which records.
pub(super) struct Filter(pub(super) RecordFilter);

/// A query that says which records, and which page of them.
pub(super) struct Paged {
    pub(super) filter: RecordFilter,
    pub(super) from: Option<Cursor>,
    pub(super) limit: u32,
}

impl<S: Send + Sync> FromRequestParts<S> for Filter {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let mut wanted = Wanted::default();
        for (name, value) in pairs(parts)? {
            wanted.set(&name, value)?;
        }
        wanted.filter().map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Paged {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let (mut wanted, mut from, mut limit) = (Wanted::default(), None, None);
        for (name, value) in pairs(parts)? {
            match name.as_str() {
                "from" => once(&name, &mut from, text("from", value)?)?,
                "limit" => once(&name, &mut limit, page(&value)?)?,
                _ => wanted.set(&name, value)?,
            }
        }
        Ok(Self {
            filter: wanted.filter()?,
            from: from.map(Cursor),
            limit: limit.unwrap_or(limits::PAGE_DEFAULT),
        })
    }
}

impl Wanted {
    fn set(&mut self, name: &str, value: String) -> Result<(), Refused> {
        match name {
            "state" => once(name, &mut self.state, state(&value)?),
            "id" => {
                self.ids.push(value);
                Ok(())
            }
            "type" => once(name, &mut self.event_type, value),
            "key" => once(name, &mut self.key, value),
            "topic" => once(name, &mut self.topic, value),
            "error" => once(name, &mut self.error, value),
            "since" => once(name, &mut self.since, value),
            "until" => once(name, &mut self.until, value),
            _ => Err(Refused::bad(
                "the query has a parameter that this resource does not know; docs/admin-api.md has them all",
            )),
        }
    }
}

/// A JSON body, within the limits.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        if !is_json(request.headers()) {
            let error = "a change is sent with `Content-Type: application/json`";
            return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
        }
        let body = to_bytes(request.into_body(), limits::BODY_BYTES_MAX);
        let body = tokio::time::timeout(limits::BODY_TIMEOUT, body).await;
        let body = body.map_err(|_| {
            let error = "the body did not come within 10 seconds";
            Refused::new(StatusCode::REQUEST_TIMEOUT, error)
        })?;
        let body = body.map_err(|_| limits::too_large())?;
        let asked = serde_json::from_slice(&body);
        asked
            .map(Self)
            .map_err(|error| Refused::bad(format!("the body cannot be followed: {error}")))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else {
        return false;
    };
    let essence = kind.to_str().unwrap_or_default().split(';').next();
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn pairs(parts: &Parts) -> Result<Vec<(String, String)>, Refused> {
    let query = parts.uri.query().unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        })
        .collect()
}

/// Percent-encoding, strictly: what is half encoded or no UTF-8 is refused.
fn decoded(text: &str) -> Result<String, Refused> {
    let wrong = || Refused::bad("the query is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                u8::try_from(high * 16 + low).map_err(|_| wrong())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

fn once<T>(name: &str, place: &mut Option<T>, value: T) -> Result<(), Refused> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refused::bad(format!("`{name}` is given twice"))),
    }
}

/// Text to look for.
pub(super) fn text(name: &str, value: String) -> Result<String, Refused> {
    let wrong = |why: &str| Err(Refused::bad(format!("`{name}` {why}")));
    if value.is_empty() {
        return wrong("is empty; leave it out to match everything");
    }
    if value.len() > limits::TEXT_BYTES_MAX {
        return wrong("is over 1 KiB");
    }
    if value.contains('\0') {
        return wrong("has a NUL in it, which no record has");
    }
    Ok(value)
}

/// Each once, in their order.
fn ids(ids: Vec<String>) -> Result<Vec<RecordId>, Refused> {
    if ids.len() > limits::IDS_MAX {
        return Err(Refused::bad(format!(
            "{} ids are more than 1,000; use a filter",
            ids.len()
        )));
    }
    let mut found: Vec<RecordId> = Vec::with_capacity(ids.len());
    let mut seen = std::collections::HashSet::new();
    for id in ids {
        let id = RecordId::Text(text("id", id)?.into());
        if seen.insert(id.clone()) {
            found.push(id);
        }
    }
    Ok(found)
}

fn state(value: &str) -> Result<RecordState, Refused> {
    let known = RecordState::ALL
        .into_iter()
        .find(|state| state.as_str() == value);
    known.ok_or_else(|| Refused::bad("`state` is pending, waiting, dead or published"))
}

fn page(value: &str) -> Result<u32, Refused> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let limit = value.parse().ok().filter(|_| digits);
    limit
        .filter(|limit| (1..=limits::PAGE_MAX).contains(limit))
        .ok_or_else(|| Refused::bad("`limit` is 1 to 500"))
}

fn time(name: &str, value: String) -> Result<Timestamp, Refused> {
    moment::parse(&text(name, value)?).map_err(|why| Refused::bad(format!("`{name}`: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_escape_is_refused_and_a_whole_one_is_read() {
        assert_eq!(decoded("a+b%20c%C3%A9").unwrap(), "a b cé");
        for wrong in ["%", "%4", "%zz", "%+1", "%FF", "a%C3", "%-1"] {
            assert!(decoded(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ids_are_taken_once_each() {
        let given = ["b", "a", "b"].map(String::from).to_vec();
        let texts: Vec<String> = ids(given)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(texts, ["b", "a"]);
        assert!(ids(vec!["x".into(); 1_001]).is_err());
        assert!(ids(vec![String::new()]).is_err());
    }
}
