//! The dashboard: the files of `server/dashboard/`, which are in the binary. The page itself speaks
//! the public API.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::Embed;

use super::{App, Route, no_route, only_get, only_list};

/// Where its files are, but for the page, which is at `/`.
const FOLDER: &str = "/dashboard/";
const PAGE: &str = "index.html";

/// `GET /` and what that page is made of.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        ("/", get(page).fallback(other_at_root)),
        ("/dashboard/{*file}", get(file).fallback(only_get)),
    ]
}

async fn page(uri: Uri, headers: HeaderMap) -> Response {
    match files().get(PAGE) {
        Some(page) => page.answer(&headers),
        None => no_route(uri).await,
    }
}

/// By the path as it was sent: the files have plain names, and no path leads out of a list.
async fn file(uri: Uri, headers: HeaderMap) -> Response {
    let name = uri.path().strip_prefix(FOLDER).filter(|name| *name != PAGE);
    match name.and_then(|name| files().get(name)) {
        Some(file) => file.answer(&headers),
        None => no_route(uri).await,
    }
}

/// The command protocol takes `POST` here, while it is switched on.
async fn other_at_root(State(app): State<Arc<App>>) -> Response {
    match app.config().fronts.command {
        true => only_list().await,
        false => only_get().await,
    }
}

#[derive(Embed)]
#[folder = "dashboard/"]
struct Folder;

/// A file as it is sent: plain, and smaller if that is worth it.
struct File {
    kind: &'static str,
    plain: Form,
    gzip: Option<Form>,
}

/// The same bytes always have the same tag, and others another.
struct Form {
    bytes: Bytes,
    tag: HeaderValue,
}

/// Every file by its name, packed when the first is asked for.
fn files() -> &'static BTreeMap<Cow<'static, str>, File> {
    static FILES: OnceLock<BTreeMap<Cow<'static, str>, File>> = OnceLock::new();
    FILES.get_or_init(|| {
        let files = Folder::iter().filter_map(|name| {
            let file = Folder::get(&name)?;
            let hash = u64::from_be_bytes(*file.metadata.sha256_hash().first_chunk()?);
            let file = File::new(kind_of(&name), file.data, hash);
            Some((name, file))
        });
        files.collect()
    })
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

impl File {
    fn new(kind: &'static str, data: Cow<'static, [u8]>, hash: u64) -> File {
        let gzip = Some(packed(&data)).filter(|packed| packed.len() < data.len());
        let plain = match data {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => bytes.into(),
        };
        let form = |bytes: Bytes, coding: &str| {
            let tag = HeaderValue::try_from(format!("\"{hash:016x}{coding}\""));
            Form { bytes, tag: tag.expect("hex digits and letters") }
        };
        File { kind, plain: form(plain, ""), gzip: gzip.map(|bytes| form(bytes.into(), "-gzip")) }
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let gzip = self.gzip.as_ref().filter(|_| takes_gzip(asked));
        let form = gzip.unwrap_or(&self.plain);
        let mut answer = match has(asked, &form.tag) {
            true => Response::new(Body::empty()),
            false => Response::new(Body::from(form.bytes.clone())),
        };
        let headers = answer.headers_mut();
        ALWAYS.iter().for_each(|(name, value)| {
            headers.insert(name, HeaderValue::from_static(value));
        });
        headers.insert(ETAG, form.tag.clone());
        if has(asked, &form.tag) {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            return answer;
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        if gzip.is_some() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answer
    }
}

/// What every file is sent with. What jobs bring is shown on the page, so nothing that it is talked
/// into loads, runs or sends anything anywhere else.
const ALWAYS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // Kept, and asked for each time whether it is still the same: a newer server has a newer page.
    (CACHE_CONTROL, "no-cache"),
    (VARY, "accept-encoding"),
];

fn packed(data: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(data).and_then(|()| out.finish()).expect("a Vec takes all")
}

/// Whether the caller has what has this tag.
fn has(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    let tag = tag.to_str().unwrap_or_default();
    words(asked, IF_NONE_MATCH).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    words(asked, ACCEPT_ENCODING).any(|word| {
        let (coding, weight) = word.split_once(';').unwrap_or((word, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|text| text.trim().parse().ok());
        coding.trim().eq_ignore_ascii_case("gzip") && weight.unwrap_or(1.0) > 0.0
    })
}

/// What stands between the commas of a header.
fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn every_file_is_of_a_known_kind() {
        assert!(files().contains_key(PAGE));
        for (name, file) in files() {
            assert_ne!(file.kind, "application/octet-stream", "{name}");
        }
    }

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (said, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate , gzip ; q=1", true),
            ("gzip;q=0", false),
            ("gzip;q=0.0, br", false),
            ("xgzip", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(&asking(ACCEPT_ENCODING, said)), takes, "{said}");
        }
    }

    #[test]
    fn who_has_the_same_is_told_so() {
        let tag = HeaderValue::from_static("\"a\"");
        for (said, same) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("\"a-gzip\"", false),
        ] {
            assert_eq!(has(&asking(IF_NONE_MATCH, said), &tag), same, "{said}");
        }
    }

    #[test]
    fn what_gets_no_smaller_is_sent_as_it_is() {
        let small = File::new("image/png", Cow::Borrowed(b"x"), 7);
        assert!(small.gzip.is_none());
        let large = File::new("text/css", Cow::Owned(vec![b' '; 1000]), 7);
        assert!(large.gzip.is_some_and(|gzip| gzip.tag != large.plain.tag));
    }
}
