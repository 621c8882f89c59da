//! Pages of other sites. A browser says where a request comes from, and a page cannot make it say otherwise; what is no
//! browser says nothing of the kind.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::super::refused::Refused;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(in super::super) async fn refuse_other_sites(request: Request, next: Next) -> Response {
    let target = request.uri().authority().map(|named| named.as_str());
    if is_from_here(request.headers(), target) {
        return next.run(request).await;
    }
    let error = "this comes from a page of another site; open the dashboard at this address itself";
    Refused::new(StatusCode::FORBIDDEN, error).into_response()
}

fn is_from_here(headers: &HeaderMap, target: Option<&str>) -> bool {
    // `none`: typed, or a bookmark. `same-site` is no better than `cross-site`: other ports of this machine are that.
    let ours = [b"same-origin".as_slice(), b"none"];
    let site = headers.get_all(SEC_FETCH_SITE).iter();
    let host = target.or_else(|| headers.get(header::HOST)?.to_str().ok());
    let mut origins = headers.get_all(header::ORIGIN).iter();
    site.map(|value| value.as_bytes())
        .all(|site| ours.contains(&site))
        && origins.all(|origin| is_origin_of(origin.as_bytes(), host))
}

fn is_origin_of(origin: &[u8], host: Option<&str>) -> bool {
    let named = [b"http://".as_slice(), b"https://"]
        .into_iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    match (named, host) {
        (Some(named), Some(host)) => named.eq_ignore_ascii_case(host.as_bytes()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allowed(given: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_static(value));
        }
        is_from_here(&headers, None)
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        const HOST: (&str, &str) = ("host", "localhost:9464");
        for given in [
            &[HOST][..],
            &[HOST, ("origin", "http://localhost:9464")],
            &[HOST, ("origin", "https://LOCALHOST:9464")],
            &[HOST, ("sec-fetch-site", "same-origin")],
            &[HOST, ("sec-fetch-site", "none")],
        ] {
            assert!(allowed(given), "{given:?}");
        }
        for given in [
            &[HOST, ("origin", "http://evil.example")][..],
            &[HOST, ("origin", "null")],
            &[HOST, ("origin", "")],
            &[HOST, ("origin", "http://localhost:8080")],
            &[HOST, ("origin", "http://localhost")],
            &[HOST, ("origin", "http://localhost:9464.evil.example")],
            &[HOST, ("origin", "file://localhost:9464")],
            &[("origin", "http://localhost:9464")],
            &[
                HOST,
                ("origin", "http://localhost:9464"),
                ("origin", "http://evil.example"),
            ],
            &[
                HOST,
                ("origin", "http://evil.example"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[
                HOST,
                ("origin", "http://evil.example"),
                ("x-forwarded-host", "evil.example"),
            ],
            &[HOST, ("sec-fetch-site", "cross-site")],
            &[HOST, ("sec-fetch-site", "same-site")],
            &[HOST, ("sec-fetch-site", "")],
            &[
                HOST,
                ("sec-fetch-site", "same-origin"),
                ("sec-fetch-site", "cross-site"),
            ],
        ] {
            assert!(!allowed(given), "{given:?}");
        }
    }
}
