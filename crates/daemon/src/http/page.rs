//! The page: files that were built into the program, packed. Their names are looked up in a table, so that no path leads anywhere else.

use super::Problem;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use std::io::Read;

/// One file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    /// The file's hash, for browsers that have it already.
    tag: &'static str,
    bytes: &'static [u8],
    is_packed: bool,
    /// Another content would have another name.
    is_lasting: bool,
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// What no route of the API is for: a file of the page, or the page itself, which has addresses of its own.
pub async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let Some(file) = find(path) else {
        let title = format!("there is nothing at `{}`; /api/v1/openapi.json describes what there is", uri.path());
        return Problem::new(StatusCode::NOT_FOUND, "not-found", title).into_response();
    };
    if !matches!(method, Method::GET | Method::HEAD) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")]).into_response();
    }
    let caching = if file.is_lasting { "public, max-age=31536000, immutable" } else { "no-cache" };
    let common = [(header::ETAG, file.tag), (header::CACHE_CONTROL, caching), (header::VARY, "accept-encoding")];
    if has(&headers, &header::IF_NONE_MATCH, file.tag) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let kind = [(header::CONTENT_TYPE, file.kind)];
    if !file.is_packed {
        return (common, kind, Bytes::from_static(file.bytes)).into_response();
    }
    if has(&headers, &header::ACCEPT_ENCODING, "gzip") {
        return (common, kind, [(header::CONTENT_ENCODING, "gzip")], Bytes::from_static(file.bytes)).into_response();
    }
    let mut plain = Vec::new();
    // It was packed when the program was built.
    _ = flate2::read::GzDecoder::new(file.bytes).read_to_end(&mut plain);
    (common, kind, plain).into_response()
}

fn find(path: &str) -> Option<&'static File> {
    let named = |name: &str| FILES.iter().find(|file| file.path == name);
    let last = path.rsplit('/').next().unwrap_or_default();
    let is_ours = path != "api" && !path.starts_with("api/") && !last.contains('.');
    named(path).or_else(|| named("index.html").filter(|_| is_ours))
}

/// Whether a header lists a word, parameters aside.
pub fn has(headers: &HeaderMap, name: &header::HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| {
        let mut parts = part.split(';').map(str::trim);
        parts.next() == Some(word) && parts.all(|parameter| parameter != "q=0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_page_are_the_page_and_nothing_leads_elsewhere() {
        for path in ["", "index.html", "jobs/17", "history"] {
            assert_eq!(find(path).unwrap().path, "index.html", "{path}");
        }
        for path in ["api", "api/v1/nothing", "missing.js", "../Cargo.toml", "..%2fCargo.toml", "assets/../../token.txt", ".env"]
        {
            assert!(find(path).is_none(), "{path}");
        }
    }

    #[test]
    fn words_in_headers_are_whole() {
        let headers = |text| HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]);
        for text in ["gzip", "br, gzip;q=0.5", "deflate,gzip"] {
            assert!(has(&headers(text), &header::ACCEPT_ENCODING, "gzip"), "{text}");
        }
        for text in ["", "gzippy", "gzip;q=0", "identity"] {
            assert!(!has(&headers(text), &header::ACCEPT_ENCODING, "gzip"), "{text}");
        }
    }
}
