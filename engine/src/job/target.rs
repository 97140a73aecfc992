//! Where and how a job is pushed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result, excerpt};
use crate::topic::Topic;

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
            return wrong(format!(
                "target `{}` has blanks or control characters; percent-encode them",
                excerpt(text)
            ));
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
                "target `{}` is not one we know; give http(s)://…, grpc://host:port, worker:, worker:APP or sink:NAME",
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

/// Where pushes go that fail and wait together: a host, a sink, or the workers of a topic.
///
/// Concurrency is bounded and failures are counted by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(Arc<str>);

impl Destination {
    /// Where a job of this topic goes that is pushed to `target`.
    pub fn of(topic: &Topic, target: &Target) -> Destination {
        let text = target.as_str();
        Destination(match text.split_once("://") {
            Some((_, rest)) => {
                let path = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                text[..text.len() - rest.len() + path].into()
            }
            // Those who work for one topic may be well while those for another are not.
            None if text.starts_with("worker:") => format!("{text}/{topic}").into(),
            None => text.into(),
        })
    }

    /// As people see it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What a push makes of a job's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Envelope {
    /// The body as it is.
    #[default]
    Body,
    /// The body as it is, described by the headers of a CloudEvent.
    CloudEvents,
    /// A callback of the task calls: the body is its `args`.
    Task,
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_destination_is_what_fails_together() {
        for (target, destination) in [
            ("http://a", "http://a"),
            ("https://a.b:8443/c?d=e", "https://a.b:8443"),
            ("https://a.b?d=/e", "https://a.b"),
            ("grpc://h:1/svc/m", "grpc://h:1"),
            ("worker:", "worker:/mail"),
            ("worker:shop", "worker:shop/mail"),
            ("sink:events", "sink:events"),
        ] {
            let of = Destination::of(&"mail".parse().unwrap(), &target.parse().unwrap());
            assert_eq!(of.as_str(), destination, "{target}");
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
}
