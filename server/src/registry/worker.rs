//! What a worker says of itself, valid or not constructible, and what is known of it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use bytes::Bytes;
use linger::error::{Code, Error, Result};
use linger::job::{Destination, Id};
use linger::time::{MINUTE, SECOND, Time, format_duration};
use linger::topic::Topic;
use serde::{Deserialize, Serialize};

/// The shortest that a registration may hold without a heartbeat.
pub(crate) const LEASE_MIN: Duration = SECOND;
/// The longest.
pub(crate) const LEASE_MAX: Duration = Duration::from_secs(10 * MINUTE.as_secs());
/// The most topics that one worker may serve.
pub(crate) const TOPICS_MAX: usize = 100;

/// The name of an application: what `worker:APP` means by `APP`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AppName(Arc<str>);

impl AppName {
    /// The longest it may be, in bytes.
    pub(crate) const BYTES_MAX: usize = 128;

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AppName {
    type Err = Error;

    fn from_str(text: &str) -> Result<AppName> {
        let max = AppName::BYTES_MAX;
        let wrong = |why: String| Err(Error::invalid("app", why));
        if text.is_empty() {
            return wrong(format!("app is empty; give 1 to {max} bytes"));
        }
        if text.len() > max {
            return wrong(format!("app is {} bytes, over the limit of {max}", text.len()));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '/') {
            let text = excerpt(text);
            return wrong(format!(
                "app `{text}` has blanks, control characters or slashes; leave them out"
            ));
        }
        Ok(AppName(text.into()))
    }
}

/// Where an instance is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Url(Arc<str>);

impl Url {
    /// The longest it may be, in bytes.
    pub(crate) const BYTES_MAX: usize = 2048;

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The url for errors: what follows the question mark may be a secret.
    pub(crate) fn without_query(&self) -> &str {
        self.0.split('?').next().unwrap_or_default()
    }
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Url> {
        let (len, max) = (text.len(), Url::BYTES_MAX);
        if len > max {
            let message = format!("url is {len} bytes, over the limit of {max}");
            return Err(Error::invalid("url", message));
        }
        // A password in it would stand in every list, and in the history of jobs.
        if names_a_user(text) {
            return Err(Error::invalid("url", "url names a user or a password; leave them out"));
        }
        if !can_be_called(text) {
            let message = format!(
                "url `{}` is none that can be called; give http://, https:// or grpc://, a host, \
                 and maybe a port and a path",
                excerpt(text)
            );
            return Err(Error::invalid("url", message));
        }
        Ok(Url(text.into()))
    }
}

fn names_a_user(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

fn can_be_called(text: &str) -> bool {
    let known = ["http://", "https://", "grpc://"].iter().any(|scheme| text.starts_with(scheme));
    // `Uri` drops a fragment without a word.
    let plain = !text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '#');
    let Some(uri) = text.parse::<Uri>().ok().filter(|_| known && plain) else { return false };
    uri.authority().is_some_and(|authority| {
        let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        !authority.host().is_empty() && (port.is_empty() || authority.port().is_some())
    })
}

/// A caller's text, short enough for a message and harmless in a log.
pub(super) fn excerpt(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(60)];
    cut.chars().flat_map(|c| if c.is_control() { vec!['?'] } else { vec![c] }).collect()
}

/// What a worker says when it registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Its name; without, the one it had or one that is made.
    pub(super) id: Option<Id>,
    pub(super) app: AppName,
    pub(super) topics: Arc<[Topic]>,
    pub(super) url: Url,
    pub(super) lease: Duration,
}

impl Registration {
    /// What it is registered for.
    pub(crate) fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// Refuses no or too many topics, and a lease out of bounds.
    pub(crate) fn new(
        id: Option<Id>,
        app: AppName,
        mut topics: Vec<Topic>,
        url: Url,
        lease: Duration,
    ) -> Result<Registration> {
        let given = topics.len();
        if given == 0 {
            return Err(Error::invalid("topics", "topics is empty; name at least one"));
        }
        if given > TOPICS_MAX {
            let message = format!("topics names {given}, over the limit of {TOPICS_MAX}");
            return Err(Error::new(Code::TooLarge, message).field("topics"));
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            let [lease, min, max] = [lease, LEASE_MIN, LEASE_MAX].map(format_duration);
            return Err(Error::invalid("lease", format!("lease is {lease}; give {min} to {max}")));
        }
        topics.sort();
        topics.dedup();
        Ok(Registration { id, app, topics: topics.into(), url, lease })
    }

    /// What makes it one instance and no other.
    pub(crate) fn place(&self) -> (AppName, Url) {
        (self.app.clone(), self.url.clone())
    }
}

/// Whether a worker is given jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It is.
    Live,
    /// No more: it ends what it has.
    Draining,
}

impl State {
    /// Every state there is.
    pub(crate) const ALL: [State; 2] = [State::Live, State::Draining];

    /// The state as it is written on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            State::Live => "live",
            State::Draining => "draining",
        }
    }
}

/// By whom a worker is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// It registered here.
    Itself,
    /// It is registered in Eureka.
    Eureka,
}

/// What a worker has said. Of those that registered here, all of it outlives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) by: By,
    pub(crate) app: AppName,
    pub(crate) topics: Arc<[Topic]>,
    pub(crate) url: Url,
    pub(crate) lease: Duration,
    pub(crate) registered: Time,
    pub(crate) state: State,
}

impl Said {
    /// A registration as it is kept from now on.
    pub(super) fn new(new: Registration, now: Time) -> Said {
        let Registration { id: _, app, topics, url, lease } = new;
        Said { by: By::Itself, app, topics, url, lease, registered: now, state: State::Live }
    }

    /// Whether one that was found in Eureka is still what it was.
    pub(super) fn is_still(&self, found: &Registration) -> bool {
        (self.by, &self.app, &self.topics, &self.url)
            == (By::Eureka, &found.app, &found.topics, &found.url)
    }

    /// The names of its application. Eureka writes them in capitals, whatever they were; those who
    /// add jobs need not.
    pub(super) fn apps(&self) -> impl Iterator<Item = AppName> {
        let lower = match self.by {
            By::Itself => None,
            By::Eureka => Some(AppName(self.app.as_str().to_lowercase().into())),
        };
        [self.app.clone()].into_iter().chain(lower.filter(|lower| *lower != self.app))
    }

    /// As it is stored.
    pub(super) fn encode(&self) -> Bytes {
        let stored = Stored {
            app: self.app.as_str().into(),
            topics: self.topics.iter().map(|topic| topic.as_str().to_owned()).collect(),
            url: self.url.as_str().into(),
            lease_ms: self.lease.as_millis() as u64,
            registered_ms: self.registered.as_ms(),
            state: self.state,
        };
        serde_json::to_vec(&stored).expect("names and numbers can be written").into()
    }

    /// What was stored; refused if it is none of ours.
    pub(super) fn decode(bytes: &[u8]) -> Result<Said> {
        let stored: Stored = serde_json::from_slice(bytes).map_err(|cause| {
            Error::new(Code::Invalid, format!("it is not a worker: {cause}")).because(cause)
        })?;
        let topics = stored.topics.iter().map(|topic| topic.parse()).collect::<Result<_>>()?;
        let (app, url) = (stored.app.parse()?, stored.url.parse()?);
        let lease = Duration::from_millis(stored.lease_ms);
        let registered = Time::from_ms(stored.registered_ms).unwrap_or(Time::MAX);
        let said = Said::new(Registration::new(None, app, topics, url, lease)?, registered);
        Ok(Said { state: stored.state, ..said })
    }
}

/// A worker in the store's key-value side.
#[derive(Serialize, Deserialize)]
struct Stored {
    app: String,
    topics: Vec<String>,
    url: String,
    lease_ms: u64,
    registered_ms: u64,
    state: State,
}

/// How a worker has done since this server started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Deliveries that it has not answered yet.
    pub(crate) under_way: u64,
    /// Deliveries that have ended.
    pub(crate) deliveries: u64,
    /// Those of them that it is at fault for.
    pub(crate) failures: u64,
    /// Why the last of these failed.
    pub(crate) last_error: Option<Arc<str>>,
    /// When that was.
    pub(crate) last_failure: Option<Time>,
    /// When it last answered as it should.
    pub(crate) last_success: Option<Time>,
}

/// A registered worker, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Worker {
    pub(crate) id: Id,
    pub(crate) said: Said,
    /// When it is forgotten unless a heartbeat comes.
    pub(crate) expires: Time,
    pub(crate) health: Health,
}

/// One of those who may be called for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) id: Id,
    pub(crate) url: Url,
}

/// How a call to an instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It answered.
    Answered,
    /// It is at fault: it could not be reached, took too long, or could not serve.
    Down(Arc<str>),
}

/// An application has an instance for these topics that it did not have before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) apps: Vec<AppName>,
    pub(super) topics: Arc<[Topic]>,
}

impl Came {
    /// Where jobs go that it may be called for.
    pub(super) fn destinations(&self) -> impl Iterator<Item = Destination> {
        self.topics.iter().flat_map(|topic| {
            let apps = [None].into_iter().chain(self.apps.iter().map(Some));
            apps.map(|app| destination(app, topic))
        })
    }
}

/// Where jobs of this topic go that are for one application, or for any.
pub(super) fn destination(app: Option<&AppName>, topic: &Topic) -> Destination {
    let target = format!("worker:{}", app.map_or("", AppName::as_str));
    Destination::of(topic, &target.parse().expect("a name fits into a target"))
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_has_a_name_that_fits_into_a_target() {
        for good in ["shop", "支付", "a.b-c_d:1", &"a".repeat(128)] {
            assert_eq!(good.parse::<AppName>().unwrap().as_str(), good);
        }
        for (bad, why) in [
            ("", "app is empty; give 1 to 128 bytes"),
            (&"a".repeat(129), "app is 129 bytes, over the limit of 128"),
            ("a b", "app `a b` has blanks"),
            ("a/b", "app `a/b` has blanks, control characters or slashes"),
            ("a\nb", "app `a?b` has"),
            ("a\u{3000}b", "has blanks"),
        ] {
            let refused = bad.parse::<AppName>().unwrap_err();
            assert_eq!(refused.at_field(), Some("app"), "{bad:?}");
            assert!(refused.message().contains(why), "{bad:?}: {refused}");
        }
    }

    #[test]
    fn a_url_can_be_called_or_says_why_not() {
        for good in [
            "http://a",
            "https://shop.example:8443/jobs?x=1",
            "grpc://10.0.0.1:9000",
            "http://[::1]:80/",
            "http://a/x@y",
        ] {
            assert_eq!(good.parse::<Url>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "a",
            "ftp://a",
            "HTTP//a",
            "http:/a",
            "http://",
            "http:///a",
            "http://:80",
            "http://a:",
            "http://a:99999",
            "http://a b",
            "http://a/\n",
            "http://a/#x",
            "worker:shop",
        ] {
            let refused = bad.parse::<Url>().unwrap_err();
            assert_eq!(refused.at_field(), Some("url"), "{bad:?}");
            assert!(refused.message().contains("is none that can be called"), "{bad:?}: {refused}");
        }
        let long = format!("http://a/{}", "x".repeat(2040));
        assert!(long.parse::<Url>().unwrap_err().message().contains("over the limit of 2048"));
    }

    #[test]
    fn a_url_with_a_password_is_refused_without_a_word_of_it() {
        for bad in ["http://u:secret@a", "https://secret@a/x", "secret@a"] {
            let refused = bad.parse::<Url>().unwrap_err();
            assert!(refused.message().contains("names a user"), "{refused}");
            assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
        }
    }

    fn topics(names: &[&str]) -> Vec<Topic> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn registration(names: Vec<Topic>, lease: Duration) -> Result<Registration> {
        let (app, url) = ("shop".parse().unwrap(), "http://a".parse().unwrap());
        Registration::new(None, app, names, url, lease)
    }

    #[test]
    fn a_registration_has_topics_and_a_lease_within_bounds() {
        let right = registration(topics(&["b", "a", "b"]), SECOND).unwrap();
        assert_eq!(*right.topics, topics(&["a", "b"]));
        let many: Vec<String> = (0..=TOPICS_MAX).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(registration(topics(&many[1..]), LEASE_MAX).is_ok());
        for (names, lease, code, field, why) in [
            (&[][..], SECOND, Code::Invalid, "topics", "topics is empty"),
            (&many, SECOND, Code::TooLarge, "topics", "names 101, over the limit of 100"),
            (&["a"], SECOND / 2, Code::Invalid, "lease", "lease is 500ms; give 1s to 10m"),
            (&["a"], 11 * MINUTE, Code::Invalid, "lease", "lease is 11m; give 1s to 10m"),
        ] {
            let refused = registration(topics(names), lease).unwrap_err();
            assert_eq!((refused.code(), refused.at_field()), (code, Some(field)));
            assert!(refused.message().contains(why), "{refused}");
        }
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let new = registration(topics(&["支付宝", "a\"b"]), 90 * SECOND).unwrap();
        let said = Said::new(new, Time::from_ms(1_793_577_600_000).unwrap());
        let said = Said { state: State::Draining, ..said };
        assert_eq!(Said::decode(&said.encode()).unwrap(), said);
        let text = String::from_utf8(said.encode().to_vec()).unwrap();
        for bad in ["", "{}", &text.replace("90000", "1"), &text.replace("http://a", "a")] {
            assert!(Said::decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
