//! The dashboard's own files. They hold nothing that is secret, so they are answered without a token; what the dashboard
//! shows comes from the API, which asks for one.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::Admin;

/// A file in the binary, at the path under which the browser asks for it.
#[derive(Clone, Copy)]
struct File {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const PAGE: File = File {
    path: "/",
    kind: "text/html; charset=utf-8",
    text: include_str!("index.html"),
};

macro_rules! files {
    ($kind:literal: $($name:literal),+) => {
        [$(File { path: concat!("/ui/", $name), kind: $kind, text: include_str!($name) }),+]
    };
}

const SCRIPTS: [File; 23] = files!("text/javascript; charset=utf-8":
    "api.js", "app.js", "changes.js", "chart.js", "dialog.js", "dom.js", "format.js", "live.js", "parts.js", "pretty.js",
    "route.js", "selection.js", "series.js", "stream.js", "theme.js", "pages/audit.js", "pages/dead.js", "pages/event.js",
    "pages/login.js", "pages/overview.js", "pages/parked.js", "pages/records.js", "pages/replay.js");
const STYLES: [File; 2] = files!("text/css; charset=utf-8": "parts.css", "style.css");
const IMAGES: [File; 1] = files!("image/svg+xml": "mark.svg");

fn files() -> impl Iterator<Item = File> {
    [PAGE]
        .into_iter()
        .chain(SCRIPTS)
        .chain(STYLES)
        .chain(IMAGES)
}

/// `GET /` and every file that it loads.
pub(crate) fn routes() -> Router<Admin> {
    files().fold(Router::new(), |router, file| {
        let tag = tag(file.text);
        let answer = move |headers: HeaderMap| async move { file.answer(&tag, &headers) };
        router.route(file.path, get(answer))
    })
}

impl File {
    /// A browser asks each time, so that a new version is seen at once, and is told where nothing has changed.
    fn answer(self, tag: &HeaderValue, asked: &HeaderMap) -> Response {
        let head = [
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::ETAG, tag.clone()),
        ];
        if asked.get(header::IF_NONE_MATCH) == Some(tag) {
            return (StatusCode::NOT_MODIFIED, head).into_response();
        }
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(self.kind))];
        (head, kind, self.text).into_response()
    }
}

/// The same for the same text, in every process of this version.
fn tag(text: &str) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    HeaderValue::try_from(tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::files;

    /// A file that is forgotten here is a page that does not load.
    #[test]
    fn every_file_of_the_dashboard_is_in_the_binary() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/ui");
        let mut found = 0;
        for entry in [folder.clone(), folder.join("pages")]
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten())
        {
            let path = entry.path();
            if path.is_dir() || path.extension().is_some_and(|end| end == "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                files().any(|file| file.text == text),
                "{} is not served",
                path.display()
            );
            assert!(text.lines().count() <= 500, "{}", path.display());
            found += 1;
        }
        assert_eq!(found, files().count());
    }

    /// The policy forbids what is inline, and the dashboard loads nothing from elsewhere.
    #[test]
    fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
        for file in files() {
            for mark in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                " style=\"",
                "eval(",
            ] {
                assert!(!file.text.contains(mark), "{} has {mark}", file.path);
            }
            let own = file.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!own.contains("://"), "{} names another host", file.path);
        }
    }
}
