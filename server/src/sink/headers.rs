//! What travels with a pushed job besides its body: headers of a webhook, metadata of a call.

use std::borrow::Cow;

use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use linger::job::Envelope;
use linger::queue::Delivery;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::secrets::{SigningKey, signatures};

/// All but what a URL takes as it is.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What CloudEvents has encoded in headers, besides what is not ASCII.
const ATTRIBUTE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

const TOPIC: HeaderName = HeaderName::from_static("linger-topic");
const JOB: HeaderName = HeaderName::from_static("linger-job");
const ATTEMPT: HeaderName = HeaderName::from_static("linger-attempt");
const DUE: HeaderName = HeaderName::from_static("linger-due");
const LEASE: HeaderName = HeaderName::from_static("linger-lease");
const TRACE: HeaderName = HeaderName::from_static("traceparent");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Who the job is, at this second, with `body` signed by these keys; and what its topic adds.
pub(super) fn of(job: &Delivery, keys: &[SigningKey], timestamp_s: u64, body: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    about(job, |name, value| put(&mut headers, name, value));
    if let Some(signatures) = signatures(keys, &id(job), timestamp_s, body) {
        put(&mut headers, SIGNATURE, &signatures);
    }
    headers.insert(TIMESTAMP, timestamp_s.into());
    headers
}

/// Who the job is, and what its topic adds: a later value takes the place of one before of that name.
pub(super) fn about(job: &Delivery, mut put: impl FnMut(HeaderName, &str)) {
    // First, so that what is ours cannot be set by a topic.
    for (name, value) in job.headers.iter() {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            put(name, value);
        }
    }
    put(TOPIC, &encoded(job.topic().as_str()));
    put(JOB, &encoded(job.id().as_str()));
    put(ATTEMPT, &job.job.attempt.to_string());
    put(DUE, &job.job.due.to_string());
    put(LEASE, &job.lease.to_string());
    if let Some(trace) = &job.job.spec.traceparent {
        put(TRACE, trace.as_str());
    }
    put(ID, &id(job));
    if job.envelope == Envelope::CloudEvents {
        put_event(job, put);
    }
}

/// The same for every attempt at an occurrence, so that a receiver knows it again.
pub(super) fn id(job: &Delivery) -> String {
    format!("lg_{}_{}", job.job.number, job.job.occurrence)
}

/// CloudEvents in binary mode.
fn put_event(job: &Delivery, mut put: impl FnMut(HeaderName, &str)) {
    let attribute = |text| Cow::from(utf8_percent_encode(text, ATTRIBUTE));
    let mut put = |name, value: &str| put(HeaderName::from_static(name), value);
    put("ce-specversion", "1.0");
    put("ce-id", &id(job));
    put("ce-source", &format!("/topics/{}", encoded(job.topic().as_str())));
    put("ce-type", &attribute(job.topic().as_str()));
    put("ce-time", &job.job.due.to_string());
    put("ce-subject", &attribute(job.id().as_str()));
}

/// A topic or an id as it stands in a header.
fn encoded(name: &str) -> Cow<'_, str> {
    utf8_percent_encode(name, NAME).into()
}

/// In place of what was there.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Whatever comes here was checked when it was given, or is encoded.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
