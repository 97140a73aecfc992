//! A job as the request by which it is pushed.

use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderValue, Method, Request, Uri};
use bytes::Bytes;
use http_body_util::Full;
use linger::job::Envelope;
use linger::queue::Delivery;

use super::super::headers;
use crate::secrets::SigningKey;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("linger/", env!("CARGO_PKG_VERSION")));

/// The request by which a job is pushed at this second, signed by these keys.
pub(super) fn of(
    uri: Uri,
    job: &Delivery,
    keys: &[SigningKey],
    timestamp_s: u64,
) -> Request<Full<Bytes>> {
    let body = body(job);
    let mut headers = headers::of(job, keys, timestamp_s, &body);
    headers::put(&mut headers, CONTENT_TYPE, content_type(job));
    headers.entry(USER_AGENT).or_insert(AGENT);
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

fn body(job: &Delivery) -> Bytes {
    match job.envelope {
        Envelope::Body | Envelope::CloudEvents => job.body().as_bytes().clone(),
        Envelope::Task => {
            let task = serde_json::json!({
                "uid": job.id().as_str(),
                "name": job.topic().as_str(),
                "url": job.target.as_ref().map_or("", |target| target.as_str()),
                "args": String::from_utf8_lossy(job.body().as_bytes()),
            });
            task.to_string().into()
        }
    }
}

fn content_type(job: &Delivery) -> &str {
    match (&job.job.spec.content_type, job.envelope) {
        (_, Envelope::Task) => "application/json",
        (Some(given), _) => given.as_str(),
        (None, _) => job.body().content_type(),
    }
}
