//! What a receiver answered, and what becomes of the job.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use linger::history::Report;
use linger::job::{Confirm, Envelope};
use linger::queue::Delivery;
use linger::time::{DAY, Time, parse_duration};
use linger::worker::Outcome;
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// How much of an answer is kept with the job.
const EXCERPT_BYTES: usize = 1024;
/// The longest that a receiver may put us off.
const PUT_OFF_MAX: Duration = DAY;

/// An answer, as far as it was read.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// Whether there was, or may have been, more.
    is_cut: bool,
}

/// What a receiver may say of a job that it took.
#[derive(Default)]
struct Said {
    outcome: Option<String>,
    retry_in: Option<serde_json::Value>,
    error: Option<String>,
}

/// Reads what is said into where it stays, though the end may be missing.
struct Saying<'a>(&'a mut Said);

impl<'de> Visitor<'de> for Saying<'_> {
    type Value = ();

    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<(), M::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "outcome" => self.0.outcome = fields.next_value()?,
                "retry_in" => self.0.retry_in = fields.next_value()?,
                "error" => self.0.error = fields.next_value()?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl Answer {
    /// Reads to the end, so that the connection can be used again, or to the limit.
    pub(super) async fn read(
        response: Response<Incoming>,
        bytes_max: usize,
    ) -> Result<Answer, hyper::Error> {
        let (parts, mut incoming) = response.into_parts();
        let (mut body, mut is_cut) = (Vec::new(), false);
        while let Some(frame) = incoming.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            body.extend_from_slice(&data[..data.len().min(bytes_max - body.len())]);
            is_cut = body.len() == bytes_max;
            if is_cut {
                break;
            }
        }
        Ok(Answer { status: parts.status, headers: parts.headers, body, is_cut })
    }

    /// What becomes of the job.
    pub(super) fn outcome(&self, job: &Delivery, now: Time) -> Outcome {
        let report = Report { status: Some(self.status.as_u16()), excerpt: self.excerpt() };
        let outcome = match job.envelope {
            // The rule of that lineage.
            Envelope::Task if self.status.as_u16() < 400 => self.taken(job),
            Envelope::Body | Envelope::CloudEvents if self.status.is_success() => {
                self.said().unwrap_or_else(|| self.taken(job))
            }
            _ => self.refused(now),
        };
        outcome.report(report)
    }

    fn taken(&self, job: &Delivery) -> Outcome {
        let asks = self.headers.get("linger-confirm").is_some_and(|value| value == "finish");
        match job.confirm {
            Confirm::Delivery if !asks => Outcome::done(),
            _ => Outcome::leave(),
        }
    }

    /// What the body says of the job, if it says anything that we know.
    fn said(&self) -> Option<Outcome> {
        // As most do: nothing to be read.
        if self.body.is_empty() {
            return None;
        }
        let mut said = Said::default();
        let mut json = serde_json::Deserializer::from_slice(&self.body);
        let read = json.deserialize_any(Saying(&mut said)).and_then(|()| json.end());
        // A long text after the outcome does not make it less of one.
        read.or_else(|why| if self.is_cut && why.is_eof() { Ok(()) } else { Err(why) }).ok()?;
        let error = || said.error.clone().unwrap_or_else(|| "the receiver says so".into());
        let outcome = match said.outcome.as_deref()? {
            "again" => Outcome::again(),
            "failed" => Outcome::failed(error()),
            "dead" => Outcome::dead(error()),
            _ => return None,
        };
        Some(match said.retry_in.as_ref().and_then(duration) {
            Some(wait) => outcome.retry_in(wait.min(PUT_OFF_MAX)),
            None => outcome,
        })
    }

    fn refused(&self, now: Time) -> Outcome {
        let reason = self.status.canonical_reason().unwrap_or_default();
        let answered = format!("answered {} {reason}", self.status.as_u16());
        let answered = answered.trim_end();
        match (self.status, self.put_off(now)) {
            (StatusCode::GONE, _) => Outcome::dead(answered),
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(wait)) => {
                Outcome::failed(answered).retry_in(wait)
            }
            (status, _) if status.is_server_error() => Outcome::down(answered),
            (status, _) if status.is_redirection() => {
                Outcome::failed(format!("{answered}; redirects are not followed"))
            }
            _ => Outcome::failed(answered),
        }
    }

    /// How long `Retry-After` asks us to wait: seconds, or a date.
    fn put_off(&self, now: Time) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = match text.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let date = httpdate::parse_http_date(text).ok()?;
                let now: SystemTime = UNIX_EPOCH + Duration::from_millis(now.as_ms());
                date.duration_since(now).unwrap_or_default()
            }
        };
        Some(wait.min(PUT_OFF_MAX))
    }

    /// The start of the body, as text without anything that could move a cursor.
    fn excerpt(&self) -> Option<std::sync::Arc<str>> {
        let start = &self.body[..self.body.len().min(EXCERPT_BYTES)];
        let text = String::from_utf8_lossy(start);
        // A character that was cut in two is not there.
        let text =
            if start.len() < self.body.len() { text.trim_end_matches('\u{fffd}') } else { &text };
        let plain =
            |c: char| if c.is_whitespace() { Some(' ') } else { (!c.is_control()).then_some(c) };
        let text: String = text.trim().chars().filter_map(plain).collect();
        (!text.is_empty()).then(|| text.into())
    }
}

/// A length of time: text as people write it, or a number of seconds.
fn duration(value: &serde_json::Value) -> Option<Duration> {
    match value.as_str() {
        Some(text) => parse_duration(text).ok(),
        None => Duration::try_from_secs_f64(value.as_f64()?).ok(),
    }
}
