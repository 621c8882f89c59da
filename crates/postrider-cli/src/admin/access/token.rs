//! `Authorization: Bearer <token>`, compared with every token in the same time, whatever was given.

use axum::http::{HeaderMap, header};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use crate::config::TOKEN_BYTES_MAX;

/// A token and its length, in as many bytes as a token may have.
pub(super) struct Padded {
    bytes: [u8; TOKEN_BYTES_MAX],
    length: u64,
}

impl Padded {
    /// Of what is longer, only the length tells: no token has it.
    pub(super) fn new(token: &[u8]) -> Self {
        let mut bytes = [0; TOKEN_BYTES_MAX];
        for (byte, given) in bytes.iter_mut().zip(token) {
            *byte = *given;
        }
        Self {
            bytes,
            length: token.len() as u64,
        }
    }

    fn is(&self, other: &Self) -> Choice {
        self.bytes.ct_eq(&other.bytes) & self.length.ct_eq(&other.length)
    }
}

/// What a request says is its token.
pub(super) struct Given(Padded);

impl Given {
    /// No token, two tokens and what is no bearer token are compared like a wrong one.
    pub(super) fn in_headers(headers: &HeaderMap) -> Self {
        Self(Padded::new(bearer(headers).unwrap_or_default()))
    }

    /// Which of the tokens it is. All of them are looked at, also after the right one.
    pub(super) fn position<'a>(&self, tokens: impl Iterator<Item = &'a Padded>) -> Option<usize> {
        let (mut found, mut position) = (Choice::from(0), 0_u64);
        for (index, token) in (0_u64..).zip(tokens) {
            let same = token.is(&self.0);
            position.conditional_assign(&index, same);
            found |= same;
        }
        bool::from(found)
            .then(|| usize::try_from(position).ok())
            .flatten()
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return None;
    };
    let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then_some(token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const TOKENS: [&str; 3] = [
        "the-first-of-them",
        "the-second-of-them",
        "the-third-of-them",
    ];

    fn position(authorization: &[&[u8]]) -> Option<usize> {
        let mut headers = HeaderMap::new();
        for value in authorization {
            let value = HeaderValue::from_bytes(value).unwrap();
            headers.append(header::AUTHORIZATION, value);
        }
        let tokens = TOKENS.map(|token| Padded::new(token.as_bytes()));
        Given::in_headers(&headers).position(tokens.iter())
    }

    #[test]
    fn every_token_is_found_and_nothing_else_is() {
        for (index, token) in TOKENS.iter().enumerate() {
            for scheme in ["Bearer ", "bearer ", "BEARER   "] {
                let value = format!("{scheme}{token}");
                assert_eq!(position(&[value.as_bytes()]), Some(index), "{value}");
            }
        }
        let long = [b"Bearer the-first-of-them".as_slice(), &[b'x'; 300]].concat();
        let right: &[u8] = b"Bearer the-first-of-them";
        let wrong: [&[&[u8]]; 13] = [
            &[],
            &[b""],
            &[b"Bearer"],
            &[b"Bearer "],
            &[b"Basic the-first-of-them"],
            &[b"the-first-of-them"],
            &[b"Bearer the-first-of-the"],
            &[b"Bearer the-first-of-them2"],
            &[b"Bearer The-first-of-them"],
            &[b"Bearer the-first-of-them\xff"],
            &[long.as_slice()],
            &[right, right],
            &[right, b"Bearer wrong"],
        ];
        for wrong in wrong {
            assert_eq!(position(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn nothing_given_is_not_found_among_no_tokens() {
        assert_eq!(
            Given::in_headers(&HeaderMap::new()).position([].iter()),
            None
        );
    }
}
