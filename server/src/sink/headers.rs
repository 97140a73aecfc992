//! What travels with a pushed job besides its body: headers of a webhook, metadata of a call.

use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use linger::job::Envelope;
use linger::queue::Delivery;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::secrets::{SigningKey, signatures};

/// All but what a URL takes as it is.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What CloudEvents has encoded in headers, besides what is not ASCII.
const ATTRIBUTE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Who the job is, at this second, with `body` signed by these keys; and what its topic adds.
pub(super) fn of(job: &Delivery, keys: &[SigningKey], timestamp_s: u64, body: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    // First, so that what is ours cannot be set by a topic.
    for (name, value) in job.headers.iter() {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            put(&mut headers, name, value);
        }
    }
    put_job(&mut headers, job);
    let id = id(job);
    if let Some(signatures) = signatures(keys, &id, timestamp_s, body) {
        put(&mut headers, named("webhook-signature"), signatures);
    }
    put(&mut headers, named("webhook-id"), id);
    put(&mut headers, named("webhook-timestamp"), timestamp_s);
    if job.envelope == Envelope::CloudEvents {
        put_event(&mut headers, job);
    }
    headers
}

/// The same for every attempt at an occurrence, so that a receiver knows it again.
fn id(job: &Delivery) -> String {
    format!("lg_{}_{}", job.job.number, job.job.occurrence)
}

fn put_job(headers: &mut HeaderMap, job: &Delivery) {
    put(headers, named("linger-topic"), encoded(job.topic().as_str()));
    put(headers, named("linger-job"), encoded(job.id().as_str()));
    put(headers, named("linger-attempt"), job.job.attempt);
    put(headers, named("linger-due"), job.job.due);
    put(headers, named("linger-lease"), job.lease);
    if let Some(trace) = &job.job.spec.traceparent {
        put(headers, named("traceparent"), trace.as_str());
    }
}

/// CloudEvents in binary mode.
fn put_event(headers: &mut HeaderMap, job: &Delivery) {
    let attribute = |text: &str| utf8_percent_encode(text, ATTRIBUTE).to_string();
    put(headers, named("ce-specversion"), "1.0");
    put(headers, named("ce-id"), id(job));
    put(headers, named("ce-source"), format!("/topics/{}", encoded(job.topic().as_str())));
    put(headers, named("ce-type"), attribute(job.topic().as_str()));
    put(headers, named("ce-time"), job.job.due);
    put(headers, named("ce-subject"), attribute(job.id().as_str()));
}

/// A topic or an id as it stands in a header.
fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NAME).to_string()
}

fn named(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

/// In place of what was there.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, value: impl ToString) {
    // Whatever comes here was checked when it was given, or is encoded.
    if let Ok(value) = HeaderValue::try_from(value.to_string()) {
        headers.insert(name, value);
    }
}
