//! A job as the request by which it is pushed.

use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderValue, Method, Request, Uri};
use bytes::Bytes;
use http_body_util::Full;
use linger::queue::Delivery;

use super::super::{headers, message};
use crate::secrets::SigningKey;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("linger/", env!("CARGO_PKG_VERSION")));

/// The request by which a job is pushed at this second, signed by these keys.
pub(super) fn of(
    uri: Uri,
    job: &Delivery,
    keys: &[SigningKey],
    timestamp_s: u64,
) -> Request<Full<Bytes>> {
    let body = message::body(job);
    let mut headers = headers::of(job, keys, timestamp_s, &body);
    headers::put(&mut headers, CONTENT_TYPE, message::content_type(job));
    headers.entry(USER_AGENT).or_insert(AGENT);
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}
