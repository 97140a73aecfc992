//! What is sent of a job: by a webhook or to a broker, it is the same.

use bytes::Bytes;
use linger::job::Envelope;
use linger::queue::Delivery;

/// The bytes of a job.
pub(super) fn body(job: &Delivery) -> Bytes {
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

/// What they are.
pub(super) fn content_type(job: &Delivery) -> &str {
    match (&job.job.spec.content_type, job.envelope) {
        (_, Envelope::Task) => "application/json",
        (Some(given), _) => given.as_str(),
        (None, _) => job.body().content_type(),
    }
}
