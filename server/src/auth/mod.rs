//! Who is let in, and to what: the one place that decides.
//!
//! Keys are asked for as soon as there is one, and always where the server is reachable from
//! elsewhere, unless that was agreed to. Every front asks [`Auth::admit`] with what its call needs
//! by the [`table`], and passes the [`Caller`] on; what a call names in its body is checked where it
//! is read.

pub(crate) mod audit;
mod caller;
mod failures;
mod key;
mod scope;
pub(crate) mod table;
mod topics;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use linger::error::{Code, Error, Result};
use linger::queue::{Expect, KvQuery, KvWrite, PAGE_MAX, Queue};
use linger::time::{Clock, SystemClock, Time};
use tokio::sync::Mutex;

pub(crate) use caller::Caller;
pub(crate) use key::{Key, KeyId, New, written};
pub(crate) use scope::{Scope, Scopes};
pub(crate) use topics::Topics;

use crate::config::{Config, Limits};
use crate::store::loading;
use failures::{Failed, Failures};
use key::{Digest, Live};
use table::{Needs, Of};

/// How the keys of the store begin.
pub(crate) const PREFIX: &str = "keys/";
/// The most keys there may be.
const KEYS_MAX: usize = 10_000;
/// What the key by the settings is called.
const BOOTSTRAP: &str = "bootstrap";

/// Every key there is.
pub(crate) struct Auth {
    /// None until they are loaded.
    kept: ArcSwapOption<Kept>,
    /// The one by the settings.
    bootstrap: Option<Arc<Live>>,
    /// Whether keys are asked for even while there are none.
    is_required: bool,
    failures: Failures,
    clock: SystemClock,
    /// Held while keys change.
    changing: Mutex<()>,
}

/// The keys of the store, with the versions at which it has them.
type Kept = HashMap<KeyId, (Arc<Live>, u64)>;

impl Auth {
    /// Nobody is let in until the keys are loaded.
    pub(crate) fn new(config: &Config) -> Auth {
        let bootstrap = config.bootstrap_key.as_ref().map(|key| {
            Arc::new(Live::new(Key {
                id: None,
                name: BOOTSTRAP.into(),
                scopes: [Scope::Admin].into_iter().collect(),
                topics: Topics::All,
                created: Time::MIN,
                expires: None,
                rate: None,
                digest: Digest::of(key.reveal()),
            }))
        });
        Auth {
            kept: ArcSwapOption::empty(),
            bootstrap,
            is_required: config.is_exposed(),
            failures: Failures::default(),
            clock: SystemClock::new(),
            changing: Mutex::default(),
        }
    }

    /// Whether there is a key to ask for.
    pub(crate) fn has_keys(&self) -> bool {
        self.bootstrap.is_some() || self.kept.load().as_ref().is_some_and(|kept| !kept.is_empty())
    }

    /// Whether keys are asked for.
    pub(crate) fn asks(&self) -> bool {
        self.is_required || self.has_keys()
    }

    /// Lets a call in that needs this, or refuses it; answers who it is.
    pub(crate) fn admit(
        &self,
        needs: Needs,
        headers: &HeaderMap,
        address: IpAddr,
        limits: &Limits,
    ) -> Result<Caller> {
        if needs == Needs::Nothing {
            return Ok(Caller::anyone(address));
        }
        let caller = self.identify(headers, address, limits)?;
        let Some(live) = caller.live() else { return Ok(caller) };
        if let Some(rate) = live.key.rate.or(limits.key_rate) {
            live.count(rate, self.clock.now().tick)?;
        }
        if let Needs::One(scopes, of) = needs {
            caller.check(scopes)?;
            if of == Of::All {
                caller.check_all_topics()?;
            }
        }
        Ok(caller)
    }

    fn identify(&self, headers: &HeaderMap, address: IpAddr, limits: &Limits) -> Result<Caller> {
        let kept = self.kept.load();
        // What a store that is still loaded asks for is not known.
        let Some(kept) = &*kept else { return Err(loading()) };
        if !self.is_required && self.bootstrap.is_none() && kept.is_empty() {
            return Ok(Caller::anyone(address));
        }
        let Some(given) = headers.get(AUTHORIZATION) else {
            let message = "this server asks for an API key; send it as `Authorization: Bearer KEY`";
            return Err(Error::new(Code::Unauthorized, message));
        };
        let text = given.to_str().ok().and_then(bearer);
        match text.and_then(|text| self.find(kept, text, address, limits)) {
            Some(live) if live.key.has_expired(self.clock.now().time()) => {
                Err(caller::over(&live.key))
            }
            Some(live) => Ok(Caller::with(live, address)),
            None => Err(self.failed(text, address, limits)),
        }
    }

    /// The key of this text: found by the part of it that is no secret, then compared.
    fn find(&self, kept: &Kept, text: &str, address: IpAddr, limits: &Limits) -> Option<Arc<Live>> {
        if let Some((live, _)) = Key::id_in(text).and_then(|id| kept.get(&id)) {
            return live.key.digest.is_of(text).then(|| live.clone());
        }
        let live = self.bootstrap.as_ref()?;
        // Keys that are made cannot be guessed; this one was chosen by somebody. So it is not even
        // looked at for those who have tried too often, while others' keys go on.
        let now = self.clock.now().tick;
        let may_try = !self.failures.are_too_many(address, limits.failed_keys, now);
        (may_try && live.key.digest.is_of(text)).then(|| live.clone())
    }

    /// Counts an attempt that failed, and tells the log, without what was given.
    fn failed(&self, text: Option<&str>, address: IpAddr, limits: &Limits) -> Error {
        let key = text.and_then(Key::id_in).map_or("unknown".into(), |id| id.to_string());
        match self.failures.count(address, limits.failed_keys, self.clock.now().tick) {
            Failed::Again => tracing::warn!(%address, key, "a wrong API key was given"),
            Failed::Last => tracing::warn!(
                %address, key, "a wrong API key was given, once too often; no more is said for a minute"
            ),
            Failed::TooMany => {
                let message =
                    "too many wrong API keys came from this address; try again in a minute";
                return Error::new(Code::RateLimited, message);
            }
        }
        let message = "the API key is not known; send one as `Authorization: Bearer KEY`";
        Error::new(Code::Unauthorized, message)
    }

    /// Every key of the store, oldest first.
    pub(crate) fn list(&self) -> Vec<Key> {
        let kept = self.kept.load();
        let kept = kept.iter().flat_map(|kept| kept.values());
        let mut keys: Vec<Key> = kept.map(|(live, _)| live.key.clone()).collect();
        keys.sort_by_key(|key| (key.created, key.id.map(|id| id.0)));
        keys
    }

    /// Makes a key; its text is told this once.
    pub(crate) async fn add(&self, store: &impl Queue, new: New) -> Result<(Key, String)> {
        let _changing = self.changing.lock().await;
        let kept = self.kept.load_full().ok_or_else(loading)?;
        if kept.len() >= KEYS_MAX {
            let message = format!("there are {KEYS_MAX} keys, the most there may be; revoke some");
            return Err(Error::new(Code::TooLarge, message));
        }
        let can_administer = new.scopes.has(Scope::Admin) && new.topics == Topics::All;
        if !self.has_keys() && !can_administer {
            let message = "the first key must have the scope admin and all topics, since keys are \
                           asked for as soon as there is one";
            return Err(Error::invalid("scopes", message));
        }
        let (key, text) = Key::make(new, store.clock().now().time());
        let id = key.id.expect("it was made with one");
        let write = KvWrite {
            key: stored(id),
            value: Some(key.encode()),
            expect: Expect::Absent,
            ttl: None,
        };
        let version = store.kv_write(write).await?;
        let mut kept = Kept::clone(&kept);
        kept.insert(id, (Arc::new(Live::new(key.clone())), version));
        self.kept.store(Some(Arc::new(kept)));
        Ok((key, text))
    }

    /// Revokes a key: nobody is let in by it from here on, and what goes on by it ends.
    pub(crate) async fn revoke(&self, store: &impl Queue, id: &str) -> Result<Key> {
        let missing = || {
            let id = crate::front::short(id);
            Error::new(Code::NotFound, format!("there is no key `{id}`"))
        };
        let _changing = self.changing.lock().await;
        let kept = self.kept.load_full().ok_or_else(loading)?;
        let id = KeyId::parse(id).ok_or_else(missing)?;
        let (gone, _) = kept.get(&id).ok_or_else(missing)?;
        let mut left = Kept::clone(&kept);
        left.remove(&id);
        let now = self.clock.now().time();
        let administers = |live: &Live| {
            let Key { scopes, topics, .. } = &live.key;
            scopes.has(Scope::Admin) && *topics == Topics::All && !live.key.has_expired(now)
        };
        if administers(gone)
            && self.bootstrap.is_none()
            && !left.is_empty()
            && !left.values().any(|(live, _)| administers(live))
        {
            let message = "this is the last key that may administer, and nobody could revoke the \
                           others; make another first, or revoke the others";
            return Err(Error::new(Code::WrongState, message));
        }
        let write = KvWrite { key: stored(id), value: None, expect: Expect::Any, ttl: None };
        match store.kv_write(write).await {
            // Someone else has done it.
            Err(why) if why.code() != Code::NotFound => return Err(why),
            _ => {}
        }
        self.kept.store(Some(Arc::new(left)));
        gone.revoked.cancel();
        Ok(gone.key.clone())
    }

    /// Reads those that a store has, which others may have changed.
    pub(crate) async fn load(&self, store: &impl Queue) -> Result<()> {
        let _changing = self.changing.lock().await;
        let before = self.kept.load_full().unwrap_or_default();
        let (mut kept, mut after) = (Kept::new(), None);
        loop {
            let prefix = PREFIX.into();
            let page = store.kv_read(KvQuery::Prefix { prefix, after, limit: PAGE_MAX }).await?;
            let (read, last) = (page.len(), page.last().map(|entry| entry.key.clone()));
            for entry in page {
                let id = KeyId::parse(&entry.key[PREFIX.len()..]);
                let known = id.and_then(|id| before.get(&id)).filter(|at| at.1 == entry.version);
                let live = match known {
                    Some((live, _)) => Some(live.clone()),
                    None => {
                        id.and_then(|id| Key::decode(id, &entry.value)).map(Live::new).map(Arc::new)
                    }
                };
                match (id, live) {
                    (Some(id), Some(live)) => _ = kept.insert(id, (live, entry.version)),
                    _ => tracing::error!(key = %entry.key, "a stored API key cannot be read"),
                }
            }
            if read < PAGE_MAX {
                break;
            }
            after = last;
        }
        for (id, (live, _)) in before.iter() {
            if !kept.contains_key(id) {
                live.revoked.cancel();
            }
        }
        self.kept.store(Some(Arc::new(kept)));
        Ok(())
    }
}

fn stored(id: KeyId) -> Arc<str> {
    format!("{PREFIX}{id}").into()
}

/// What stands behind `Bearer`.
fn bearer(text: &str) -> Option<&str> {
    let (scheme, key) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

#[cfg(test)]
mod tests;
