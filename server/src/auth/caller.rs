//! Who calls, and what that one may do.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use linger::error::{Code, Error, Result};
use linger::time::{Clock, SystemClock};
use linger::topic::Topic;

use super::key::{Key, Live};
use super::{Scope, Topics};
use crate::author::Author;
use crate::front::short;

/// Whoever a request comes from. Goes along with it, so that whatever it does can be asked for.
#[derive(Clone)]
pub(crate) struct Caller {
    /// None where keys are not asked for.
    key: Option<Arc<Live>>,
    address: IpAddr,
}

impl Caller {
    /// Someone who needs no key.
    pub(crate) fn anyone(address: IpAddr) -> Caller {
        Caller { key: None, address }
    }

    pub(super) fn with(key: Arc<Live>, address: IpAddr) -> Caller {
        Caller { key: Some(key), address }
    }

    /// The key; none where keys are not asked for.
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref().map(|live| &live.key)
    }

    pub(super) fn live(&self) -> Option<&Live> {
        self.key.as_deref()
    }

    /// Where it calls from.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether it may do this.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.key().is_none_or(|key| key.scopes.has(scope))
    }

    /// Refuses whoever may do none of these.
    pub(crate) fn check(&self, any_of: &[Scope]) -> Result<()> {
        if any_of.iter().any(|scope| self.has(*scope)) {
            return Ok(());
        }
        let scopes: Vec<String> =
            any_of.iter().map(|scope| format!("`{}`", scope.as_str())).collect();
        let (scopes, name) = (scopes.join(" or "), self.name());
        let message = format!("key `{name}` has not the scope {scopes}, which this call needs");
        Err(Error::new(Code::Forbidden, message))
    }

    /// The topics that it may see.
    pub(crate) fn topics(&self) -> &Topics {
        self.key().map_or(&Topics::All, |key| &key.topics)
    }

    /// Whether it may see a topic.
    pub(crate) fn sees(&self, topic: &Topic) -> bool {
        self.topics().has(topic)
    }

    /// Refuses what is about a topic that its key is not for.
    pub(crate) fn check_topic(&self, topic: &Topic) -> Result<()> {
        if self.sees(topic) {
            return Ok(());
        }
        let (name, topic) = (self.name(), short(topic.as_str()));
        let message = format!("key `{name}` is not for topic `{topic}`");
        Err(Error::new(Code::Forbidden, message).field("topic"))
    }

    /// The same for several topics: its key must be for each of them.
    pub(crate) fn check_topics(&self, topics: &[Topic]) -> Result<()> {
        topics.iter().try_for_each(|topic| self.check_topic(topic))
    }

    /// Refuses what is about all topics to a key that is for some.
    pub(crate) fn check_all_topics(&self) -> Result<()> {
        match self.topics() {
            Topics::All => Ok(()),
            Topics::These(_) => {
                let name = self.name();
                let message =
                    format!("key `{name}` is for some topics, and this call is about all of them");
                Err(Error::new(Code::Forbidden, message))
            }
        }
    }

    /// Refuses what asks for a topic that its key is not for, or for all if it is for some.
    pub(crate) fn check_asked(&self, topic: Option<&str>) -> Result<()> {
        match topic.map(str::parse) {
            Some(Ok(topic)) => self.check_topic(&topic),
            // What is no topic has nothing to be seen of.
            Some(Err(_)) => Ok(()),
            None => self.check_all_topics(),
        }
    }

    /// What it is called in logs.
    pub(crate) fn name(&self) -> &str {
        self.key().map_or("no key", |key| &key.name)
    }

    /// Does something that is taken down with its key.
    ///
    /// No `async fn`: that would have room for what is done four times, for as long as a pop waits.
    pub(crate) fn doing<F: Future>(&self, what: F) -> impl Future<Output = F::Output> + use<F> {
        let mut author = Author::of_this_call();
        author.key = self.key().map(|key| key.name.clone()).or(author.key);
        author.scope(what)
    }

    /// Returns when its key does not hold any more, with the refusal that this is.
    pub(crate) async fn ended(&self) -> Error {
        let Some(live) = &self.key else { return std::future::pending().await };
        let expired = async {
            let Some(expires) = live.key.expires else { return std::future::pending().await };
            loop {
                let left_ms =
                    expires.as_ms().saturating_sub(SystemClock::new().now().time().as_ms());
                if left_ms == 0 {
                    return;
                }
                // In steps, since the clock may be set.
                tokio::time::sleep(Duration::from_millis(left_ms.min(STEP_MS))).await;
            }
        };
        tokio::select! {
            () = live.revoked.cancelled() => {}
            () = expired => {}
        }
        over(&live.key)
    }
}

const STEP_MS: u64 = 60_000;

/// What one is told whose key does not hold any more.
pub(super) fn over(key: &Key) -> Error {
    let name = &key.name;
    Error::new(Code::Unauthorized, format!("key `{name}` has expired or was revoked"))
}
