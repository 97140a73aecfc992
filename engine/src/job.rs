//! Jobs as callers give them: valid, or not constructible.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::{Code, Error, Result};
use crate::name::name;
use crate::retry::Retry;
use crate::schedule::Repeat;
use crate::time::{DAY, Time, duration_ms, excerpt, format_duration};
use crate::topic::Topic;

name! {
    /// A job's id within its topic: 1 to 256 bytes of UTF-8 without control characters.
    Id, field "id", bytes_max 256, blank_ends allowed
}

name! {
    /// Who called, as shown in a job's history: a key's name, a node, a consumer.
    Caller, field "by", bytes_max 128, blank_ends allowed
}

/// How long one attempt may take: 1 ms to 7 d.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttr(u32);

impl Ttr {
    /// 60 s.
    pub const DEFAULT: Ttr = Ttr(60_000);
    /// The longest an attempt may take.
    pub const MAX: Duration = Duration::from_secs(7 * 86_400);

    /// This long, rounded up to the millisecond.
    pub fn new(length: Duration) -> Result<Ttr> {
        if length.is_zero() || length > Ttr::MAX {
            let length = format_duration(length);
            return Err(Error::invalid("ttr", format!("ttr is {length}; give 1ms to 7d")));
        }
        Ok(Ttr(duration_ms(length) as u32))
    }

    /// The length in milliseconds.
    pub fn as_ms(self) -> u64 {
        u64::from(self.0)
    }

    /// The length.
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.as_ms())
    }
}

/// When a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This long from now, by the store's clock.
    In(Duration),
    /// At this moment.
    At(Time),
}

/// What form a body was given in, so that it can be given back in the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A JSON value, kept byte for byte.
    Json,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
}

/// What a job carries: opaque, with the form it was given in.
#[derive(Clone, PartialEq, Eq)]
pub struct Body {
    form: Form,
    bytes: Bytes,
}

impl Body {
    /// The largest body a store takes unless it is set otherwise.
    pub const BYTES_MAX_DEFAULT: usize = 1 << 20;

    /// JSON as it was written, never re-serialised. A JSON string is kept as its text.
    pub fn json(raw: impl Into<Bytes>) -> Result<Body> {
        let bytes = raw.into();
        let wrong = |cause| Error::invalid("body", format!("body is not JSON: {cause}"));
        if bytes.trim_ascii_start().first() == Some(&b'"') {
            return Ok(Body::text(serde_json::from_slice::<String>(&bytes).map_err(wrong)?));
        }
        serde_json::from_slice::<IgnoredAny>(&bytes).map_err(wrong)?;
        Ok(Body { form: Form::Json, bytes })
    }

    /// A value, written as JSON.
    pub fn json_of(value: &impl Serialize) -> Result<Body> {
        let raw = serde_json::to_vec(value).map_err(|cause| {
            Error::invalid("body", format!("body cannot be written as JSON: {cause}"))
        })?;
        Body::json(raw)
    }

    /// Text.
    pub fn text(text: impl Into<String>) -> Body {
        Body { form: Form::Text, bytes: text.into().into() }
    }

    /// Bytes, whatever they are.
    pub fn bytes(bytes: impl Into<Bytes>) -> Body {
        Body { form: Form::Bytes, bytes: bytes.into() }
    }

    /// Bytes from a protocol that knows no forms: text if they are valid UTF-8.
    pub fn from_wire(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        let form = if std::str::from_utf8(&bytes).is_ok() { Form::Text } else { Form::Bytes };
        Body { form, bytes }
    }

    /// The form it was given in.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The bytes themselves.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The text, if it is any.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Reads the body as JSON.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.bytes).map_err(|cause| {
            Error::invalid("body", format!("body does not read as the type wanted: {cause}"))
        })
    }

    /// Refuses a body over the limit.
    pub fn check_size(&self, bytes_max: usize) -> Result<()> {
        if self.bytes.len() > bytes_max {
            let len = self.bytes.len();
            let message = format!("job body is {len} bytes, over the limit of {bytes_max}");
            return Err(Error::new(Code::TooLarge, message).field("body"));
        }
        Ok(())
    }

    /// The content type to deliver it with when the job does not say.
    pub fn content_type(&self) -> &'static str {
        match self.form {
            Form::Json => "application/json",
            Form::Bytes => "application/octet-stream",
            Form::Text if self.is_json_object_or_array() => "application/json",
            Form::Text => "text/plain; charset=utf-8",
        }
    }

    fn is_json_object_or_array(&self) -> bool {
        matches!(self.bytes.trim_ascii_start().first(), Some(b'{' | b'['))
            && serde_json::from_slice::<IgnoredAny>(&self.bytes).is_ok()
    }
}

impl Default for Body {
    fn default() -> Self {
        Body::text("")
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.form, self.bytes.len())
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Body {
        Body::text(text)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Body::text(text)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body::bytes(bytes)
    }
}

/// Where a job is pushed when it is due, as a URL.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Target(Arc<str>);

impl Target {
    /// The longest a target may be, in bytes.
    pub const BYTES_MAX: usize = 2048;

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Takes `http(s)://…`, `grpc://…`, `worker:`, `worker:APP` and `sink:NAME`.
impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        let wrong = |why: String| Err(Error::invalid("target", why));
        if text.len() > Target::BYTES_MAX {
            return wrong(format!(
                "target is {} bytes, over the limit of {}",
                text.len(),
                Target::BYTES_MAX
            ));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return wrong(format!("target `{}` has blanks or control characters", excerpt(text)));
        }
        let has_host = |rest: &str| !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']);
        let fits = match text.split_once(':') {
            Some(("http" | "https" | "grpc", rest)) => {
                rest.strip_prefix("//").is_some_and(has_host)
            }
            Some(("worker", _)) => true,
            Some(("sink", name)) => !name.is_empty(),
            _ => false,
        };
        if !fits {
            return wrong(format!(
                "target `{}` is none we know; give http(s)://…, grpc://host:port, worker:, worker:APP or sink:NAME",
                excerpt(text)
            ));
        }
        Ok(Target(text.into()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A content type, as it stands in a header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentType(Arc<str>);

impl ContentType {
    /// The longest it may be, in bytes.
    pub const BYTES_MAX: usize = 255;

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContentType {
    type Err = Error;

    fn from_str(text: &str) -> Result<ContentType> {
        // It goes into a header as it is, so that nothing may end the line.
        let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let (kind, rest) = text.split_once('/').unwrap_or_default();
        let named = !kind.is_empty() && !rest.is_empty() && text.trim() == text;
        if !plain || !named || text.len() > ContentType::BYTES_MAX {
            let (text, max) = (excerpt(text), ContentType::BYTES_MAX);
            let message = format!(
                "`{text}` is not a content type; write type/subtype in at most {max} bytes of ASCII"
            );
            return Err(Error::invalid("content_type", message));
        }
        Ok(ContentType(text.into()))
    }
}

/// Where a job stands in its caller's trace: a W3C `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Traceparent(Arc<str>);

impl Traceparent {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Traceparent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Traceparent> {
        let hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let lens: Vec<usize> = text.split('-').map(str::len).collect();
        if lens != [2, 32, 16, 2] || !text.split('-').all(hex) {
            let text = excerpt(text);
            let message = format!(
                "`{text}` is not a traceparent; write version-trace-parent-flags in lower-case hex"
            );
            return Err(Error::invalid("traceparent", message));
        }
        Ok(Traceparent(text.into()))
    }
}

/// When a pushed job counts as finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Confirm {
    /// When the receiver or broker has taken it.
    #[default]
    Delivery,
    /// When someone calls finish with the lease that travelled along.
    Finish,
}

/// What to do when a job of the same topic and id is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// Refuse with `already_exists`.
    #[default]
    Reject,
    /// Leave the old one and answer it.
    Keep,
    /// Put the new one in its place, with a new number; an old lease is lost.
    Replace,
}

/// What a caller says about a job that stays as it is until an update: all but its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The topic it belongs to.
    pub topic: Topic,
    /// Its id within the topic.
    pub id: Id,
    /// The content type to deliver the body with; else the default for its form.
    pub content_type: Option<ContentType>,
    /// How long an attempt may take; else the topic's.
    pub ttr: Option<Ttr>,
    /// Attempts and pace; else the topic's.
    pub retry: Option<Retry>,
    /// When it runs again after it finishes.
    pub repeat: Option<Repeat>,
    /// Where it is pushed; else the topic's; else it waits to be popped.
    pub target: Option<Target>,
    /// When a push counts as finished; else the topic's.
    pub confirm: Option<Confirm>,
    /// How long it stays visible when finished; else the topic's.
    pub retain: Option<Duration>,
    /// The caller's trace, continued at delivery.
    pub traceparent: Option<Traceparent>,
}

/// A job to add. Each part is valid by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// What stays until an update.
    pub spec: Spec,
    /// What it carries.
    pub body: Body,
    /// When it is due; else at once, or when its repeat says.
    pub when: Option<When>,
    /// Smaller is sooner among ready jobs of a topic.
    pub priority: u32,
    /// Whether it is set aside from the start.
    pub held: bool,
    /// What to do if the id is taken.
    pub on_conflict: OnConflict,
    /// Who adds it.
    pub by: Option<Caller>,
}

/// The priority of jobs that do not say.
pub const PRIORITY_DEFAULT: u32 = 1024;

impl NewJob {
    /// A job that is due at once, with nothing but the defaults.
    pub fn new(topic: Topic, id: Id, body: Body) -> NewJob {
        let spec = Spec {
            topic,
            id,
            content_type: None,
            ttr: None,
            retry: None,
            repeat: None,
            target: None,
            confirm: None,
            retain: None,
            traceparent: None,
        };
        NewJob {
            spec,
            body,
            when: None,
            priority: PRIORITY_DEFAULT,
            held: false,
            on_conflict: OnConflict::default(),
            by: None,
        }
    }
}

/// A job being written: the builder that library users know. What is wrong is said by [`Job::check`].
#[derive(Clone, Debug)]
pub struct Job {
    topic: String,
    id: Option<String>,
    body: Body,
    ttr: Option<Duration>,
    target: Option<String>,
    content_type: Option<String>,
    job: NewJob,
}

impl Job {
    /// A job for `topic` that is due at once.
    pub fn new(topic: impl Into<String>, body: impl Into<Body>) -> Job {
        let blank = NewJob::new(Topic::default(), Id("-".into()), Body::default());
        Job {
            topic: topic.into(),
            id: None,
            body: body.into(),
            ttr: None,
            target: None,
            content_type: None,
            job: blank,
        }
    }

    /// Names it, by an order number, say. Without, it gets a UUIDv7.
    pub fn id(mut self, id: impl Into<String>) -> Job {
        self.id = Some(id.into());
        self
    }

    /// Due this long from now.
    pub fn delay(mut self, delay: Duration) -> Job {
        self.job.when = Some(When::In(delay));
        self
    }

    /// Due at this moment.
    pub fn at(mut self, at: Time) -> Job {
        self.job.when = Some(When::At(at));
        self
    }

    /// How long an attempt may take.
    pub fn ttr(mut self, ttr: Duration) -> Job {
        self.ttr = Some(ttr);
        self
    }

    /// Smaller is sooner among ready jobs of the topic.
    pub fn priority(mut self, priority: u32) -> Job {
        self.job.priority = priority;
        self
    }

    /// Attempts and pace.
    pub fn retry(mut self, retry: Retry) -> Job {
        self.job.spec.retry = Some(retry);
        self
    }

    /// When it runs again after it finishes.
    pub fn repeat(mut self, repeat: Repeat) -> Job {
        self.job.spec.repeat = Some(repeat);
        self
    }

    /// Where it is pushed when due.
    pub fn target(mut self, target: impl Into<String>) -> Job {
        self.target = Some(target.into());
        self
    }

    /// What a push must do to count as finished.
    pub fn confirm(mut self, confirm: Confirm) -> Job {
        self.job.spec.confirm = Some(confirm);
        self
    }

    /// The content type to deliver the body with, if the default for its form will not do.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Job {
        self.content_type = Some(content_type.into());
        self
    }

    /// How long it stays visible when finished.
    pub fn retain(mut self, retain: Duration) -> Job {
        self.job.spec.retain = Some(retain);
        self
    }

    /// Sets it aside from the start.
    pub fn held(mut self) -> Job {
        self.job.held = true;
        self
    }

    /// What to do if the id is taken.
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Job {
        self.job.on_conflict = on_conflict;
        self
    }

    /// The job, if all of it is right; `now` goes into an id that Linger makes.
    pub fn check(self, now: Time) -> Result<NewJob> {
        let mut job = self.job;
        job.spec.topic = self.topic.parse()?;
        job.spec.id = match self.id {
            Some(id) => id.parse()?,
            None => made_id(now),
        };
        job.spec.ttr = self.ttr.map(Ttr::new).transpose()?;
        job.spec.target = self.target.map(|target| target.parse()).transpose()?;
        job.spec.content_type = self.content_type.map(|text| text.parse()).transpose()?;
        job.body = self.body;
        Ok(job)
    }
}

/// An id for a job whose caller gave none: a UUIDv7, so that ids sort by when they were made.
pub fn made_id(now: Time) -> Id {
    let (secs, nanos) = (now.as_ms() / 1000, (now.as_ms() % 1000) as u32 * 1_000_000);
    let stamp = uuid::Timestamp::from_unix(uuid::NoContext, secs, nanos);
    Id(uuid::Uuid::new_v7(stamp).to_string().into())
}

/// What to do with one part of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Edit<T> {
    /// Leave it.
    #[default]
    Keep,
    /// Give it this value.
    Set(T),
    /// Take its own value away, so that the topic's holds again.
    Clear,
}

impl<T: Clone> Edit<T> {
    /// Carries the edit out.
    pub fn apply(&self, to: &mut Option<T>) {
        match self {
            Edit::Keep => {}
            Edit::Set(value) => *to = Some(value.clone()),
            Edit::Clear => *to = None,
        }
    }
}

/// Changes to a job, made together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// A new due time.
    pub when: Option<When>,
    /// A new body.
    pub body: Option<Body>,
    /// A new priority.
    pub priority: Option<u32>,
    /// A new time to run.
    pub ttr: Edit<Ttr>,
    /// New attempts and pace.
    pub retry: Edit<Retry>,
    /// A new target.
    pub target: Edit<Target>,
}

/// The furthest ahead a job may be due by `delay`; `at` goes to the end of the year 9999.
pub const DELAY_MAX: Duration = Duration::from_secs(100 * 366 * DAY.as_secs());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_kept_byte_for_byte_and_a_string_as_its_text() {
        let raw = "{ \"a\" : 1.000, \"a\": 2 }";
        let body = Body::json(raw).unwrap();
        assert_eq!((body.form(), body.as_str()), (Form::Json, Some(raw)));
        let text = Body::json(" \"he\\nllo\" ").unwrap();
        assert_eq!((text.form(), text.as_str()), (Form::Text, Some("he\nllo")));
        for bad in ["", "{", "nope", "\"open", "1 2", "[1,]"] {
            assert_eq!(Body::json(bad).unwrap_err().at_field(), Some("body"), "{bad:?}");
        }
    }

    #[test]
    fn wire_bytes_are_text_if_they_can_be() {
        assert_eq!(Body::from_wire("héllo").form(), Form::Text);
        assert_eq!(Body::from_wire(vec![0xff, 0xfe]).form(), Form::Bytes);
    }

    #[test]
    fn the_content_type_follows_the_form() {
        for (body, expected) in [
            (Body::json("5").unwrap(), "application/json"),
            (Body::text("{\"a\":1}"), "application/json"),
            (Body::text("[1]"), "application/json"),
            (Body::text("{oops"), "text/plain; charset=utf-8"),
            (Body::text("5"), "text/plain; charset=utf-8"),
            (Body::bytes(vec![1]), "application/octet-stream"),
            (Body::default(), "text/plain; charset=utf-8"),
        ] {
            assert_eq!(body.content_type(), expected, "{body:?}");
        }
    }

    #[test]
    fn a_body_over_the_limit_says_both_sizes() {
        let refused = Body::bytes(vec![0; 11]).check_size(10).unwrap_err();
        assert_eq!(refused.code(), Code::TooLarge);
        assert_eq!(refused.message(), "job body is 11 bytes, over the limit of 10");
        assert!(Body::bytes(vec![0; 10]).check_size(10).is_ok());
    }

    #[test]
    fn targets_are_checked() {
        for good in [
            "http://a",
            "https://a.b/c?d=e",
            "grpc://h:1/svc/m",
            "worker:",
            "worker:shop",
            "sink:events",
        ] {
            assert!(good.parse::<Target>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "a",
            "http:/a",
            "http://",
            "https:///x",
            "http://:80",
            "ftp://x",
            "sink:",
            "http://a b",
            "HTTP//x",
        ] {
            assert_eq!(bad.parse::<Target>().unwrap_err().at_field(), Some("target"), "{bad:?}");
        }
    }

    #[test]
    fn content_types_and_traces_are_checked() {
        for good in ["text/html", "application/xml; charset=utf-8"] {
            assert!(good.parse::<ContentType>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "html",
            "/x",
            "x/",
            "a/b\r\nevil: 1",
            "a/é",
            " a/b",
            &format!("a/{}", "b".repeat(254)),
        ] {
            assert_eq!(
                bad.parse::<ContentType>().unwrap_err().at_field(),
                Some("content_type"),
                "{bad:?}"
            );
        }
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(good.parse::<Traceparent>().unwrap().as_str(), good);
        for bad in [
            "",
            "00-1-2-00",
            &good.to_uppercase(),
            &good[1..],
            &format!("{good}-"),
            &good.replace('0', "é"),
        ] {
            assert_eq!(
                bad.parse::<Traceparent>().unwrap_err().at_field(),
                Some("traceparent"),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_bad_job_says_which_field() {
        let now = Time::from_ms(1).unwrap();
        for (job, field) in [
            (Job::new("", "x"), "topic"),
            (Job::new("t", "x").id(""), "id"),
            (Job::new("t", "x").id("a\tb"), "id"),
            (Job::new("t", "x").id("x".repeat(257)), "id"),
            (Job::new("t", "x").ttr(Duration::ZERO), "ttr"),
            (Job::new("t", "x").ttr(8 * DAY), "ttr"),
            (Job::new("t", "x").target("nowhere"), "target"),
            (Job::new("t", "x").content_type("nothing"), "content_type"),
        ] {
            assert_eq!(job.check(now).unwrap_err().at_field(), Some(field));
        }
        assert!(Job::new("t", "x").id("x".repeat(256)).ttr(7 * DAY).check(now).is_ok());
    }

    #[test]
    fn made_ids_differ_and_sort_by_time() {
        let at = |ms| made_id(Time::from_ms(ms).unwrap());
        assert!(at(1000) < at(2000));
        assert_ne!(at(1000), at(1000));
    }
}
