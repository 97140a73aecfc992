//! Settings that all who share a store have, over those of their files: kept in the store, taken on without
//! a restart, and told of who runs by them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use linger::error::{Code, Error, Result};
use linger::queue::{Expect, KvEntry, KvQuery, KvWrite, PAGE_MAX, Queue};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::config::{Common, Loaded};
use crate::store::Store;

/// Where they are kept.
const KEY: &str = "config/shared";
/// Where instances tell which they run by.
pub(crate) const NODES: &str = "config/nodes/";
/// How often they tell it, and how long that holds.
const TELL_EVERY: Duration = Duration::from_secs(20);
const TOLD_FOR: Duration = Duration::from_secs(60);

/// What an instance runs by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runs {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The version that it has taken on; 0 if none was ever stored.
    pub(crate) version: u64,
    /// Why it has not taken on the one that is stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) refused: Option<String>,
}

/// The settings that are shared, as this instance knows them.
pub(crate) struct Commons {
    /// What is in force here, with where it came from; none where nobody tells.
    loaded: ArcSwapOption<Loaded>,
    runs: Mutex<Runs>,
    /// Rung when there may be others.
    changed: Notify,
    stored: watch::Sender<Common>,
}

impl Commons {
    pub(crate) fn new(id: String, name: String) -> Commons {
        let runs = Runs { id, name, ..Runs::default() };
        let (loaded, changed) = (ArcSwapOption::empty(), Notify::new());
        let stored = watch::Sender::new(Common::default());
        Commons { loaded, runs: Mutex::new(runs), changed, stored }
    }

    /// Hears of what is stored, whenever that changes.
    pub(crate) fn stored(&self) -> watch::Receiver<Common> {
        self.stored.subscribe()
    }

    /// What is in force here.
    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        self.loaded.load_full()
    }

    /// Takes note of what is in force here.
    pub(crate) fn set_loaded(&self, loaded: Loaded) {
        self.loaded.store(Some(Arc::new(loaded)));
    }

    /// Takes note of what became of a version that was stored.
    pub(crate) fn ran(&self, version: u64, refused: Option<String>) {
        let mut runs = self.runs.lock().expect("nobody panics holding it");
        if refused.is_none() {
            runs.version = version;
        }
        runs.refused = refused;
        drop(runs);
        self.changed.notify_one();
    }

    /// What this instance runs by.
    pub(crate) fn runs(&self) -> Runs {
        self.runs.lock().expect("nobody panics holding it").clone()
    }

    /// Refuses what this instance could not run by.
    pub(crate) fn check(&self, common: &Common) -> Result<()> {
        let wrong = |why: anyhow::Error| Error::invalid("settings", format!("{why:#}"));
        match self.loaded() {
            Some(loaded) => loaded.with_common(common.clone()).map(drop).map_err(wrong),
            None => Loaded::check_common(common).map_err(wrong),
        }
    }

    /// Stores these in place of those that are there, if they are still at the version that was seen.
    pub(crate) async fn write(
        &self,
        store: &Store,
        common: &Common,
        if_version: Option<u64>,
    ) -> Result<u64> {
        self.check(common)?;
        let expect = match if_version {
            None => Expect::Any,
            Some(0) => Expect::Absent,
            Some(version) => Expect::Version(version),
        };
        let value = Some(common.encode().into());
        let write = KvWrite { key: KEY.into(), value, expect, ttl: None };
        let written = store.kv_write(write).await.map_err(|why| match why.code() {
            Code::AlreadyExists | Code::VersionMismatch => {
                let message = "the shared settings have changed; read them again";
                Error::new(Code::VersionMismatch, message).field("if_version")
            }
            _ => why,
        });
        self.changed.notify_one();
        written
    }

    /// What every instance runs by that has told so lately; this one as it is now.
    pub(crate) async fn nodes(&self, store: &Store) -> Result<Vec<Runs>> {
        let query = KvQuery::Prefix { prefix: NODES.into(), after: None, limit: PAGE_MAX };
        let this = self.runs();
        let told = store.kv_read(query).await?;
        let read = |entry: &KvEntry| serde_json::from_slice::<Runs>(&entry.value).ok();
        let mut nodes: Vec<Runs> =
            told.iter().filter_map(read).filter(|other| other.id != this.id).collect();
        nodes.push(this);
        nodes.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(nodes)
    }

    /// Looks again and again what is stored; where others may store it too, every so often.
    pub(crate) async fn follow(&self, store: &Store, every: Option<Duration>) {
        let mut told: Option<(Runs, tokio::time::Instant)> = None;
        loop {
            match read(store).await {
                Ok(common) if common.version != self.stored.borrow().version => {
                    self.stored.send_replace(common);
                }
                Ok(_) => {}
                // While it is away calls say so.
                Err(why) => tracing::debug!("the shared settings cannot be read: {why}"),
            }
            let runs = self.runs();
            let is_due = told
                .as_ref()
                .is_none_or(|(before, at)| *before != runs || at.elapsed() > TELL_EVERY);
            if every.is_some() && is_due && tell(store, &runs).await.is_ok() {
                told = Some((runs, tokio::time::Instant::now()));
            }
            match every {
                None => self.changed.notified().await,
                Some(every) => {
                    let _ = tokio::time::timeout(every, self.changed.notified()).await;
                }
            }
        }
    }
}

/// What is stored; nothing, at version 0, if nothing ever was.
pub(crate) async fn read(store: &Store) -> Result<Common> {
    let Some(entry) = store.kv_read(KvQuery::Key(KEY.into())).await?.pop() else {
        return Ok(Common::default());
    };
    Ok(Common::decode(entry.version, &entry.value))
}

async fn tell(store: &Store, runs: &Runs) -> Result<u64> {
    let value = serde_json::to_vec(runs).expect("it is plain").into();
    let key = format!("{NODES}{}", runs.id).into();
    let ttl = Some(TOLD_FOR);
    store.kv_write(KvWrite { key, value: Some(value), expect: Expect::Any, ttl }).await
}
