//! What the fronts on the common port share: the store, the settings, and who is let in.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use axum::http::HeaderMap;
use linger::error::{Code, Error, Result};
use linger::queue::{
    Ask, Bodies, Delivery, Page, Query, Queue, Settle, TopicInfo, Topics, Verdict,
};
use linger::store::embedded::Progress;
use linger::store::redis::{Fleet, Node, NodeInfo};
use linger::time::{Clock, SystemClock, Time, format_duration};
use linger::topic::Topic;
use linger::worker::Runner;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::limit::Gates;
use super::names::Names;
use super::oldest::Oldest;
use crate::alarms::Alarms;
use crate::auth::audit::{About, Audit, Entry};
use crate::auth::table::Needs;
use crate::auth::{self, Auth, Caller};
use crate::author::{Author, Front};
use crate::common::Commons;
use crate::config::Config;
use crate::eureka::Eureka;
use crate::events::Events;
use crate::listen::Most;
use crate::registry::Registry;
use crate::secrets::Secrets;
use crate::silence;
use crate::store::{Store, loading};

/// What every request needs.
pub(crate) struct App {
    /// The store, once all that is in it is loaded.
    store: OnceLock<Arc<Store>>,
    /// Its workers, there before it is.
    registry: OnceLock<Arc<Registry>>,
    /// Who pushes its jobs, if this instance does.
    runner: OnceLock<Arc<Runner<Store>>>,
    /// What looks whether all is well.
    alarms: OnceLock<Arc<Alarms>>,
    /// Who asks Eureka for workers, if there is one.
    eureka: OnceLock<Arc<Eureka>>,
    /// What happened, if that is logged.
    events: OnceLock<Arc<Events>>,
    /// How much of it is loaded until then.
    loading: Progress,
    config: ArcSwap<Config>,
    /// Held while settings change.
    changing: Mutex<()>,
    /// When it started, and what it is called where it shares no store.
    started: Time,
    id: String,
    /// The settings that all who share its store have.
    commons: Commons,
    /// What others that share its store are told of it.
    node: Node,
    pub(super) gates: Arc<Gates>,
    pub(super) names: Names,
    /// The job that has been due for longest.
    pub(super) oldest: Oldest,
    /// Ends what waits when the server stops.
    pub(super) stopping: CancellationToken,
    seen_to: TaskTracker,
    secrets: Arc<Secrets>,
    auth: Arc<Auth>,
    audit: Audit,
}

impl App {
    /// A front without a store yet: it answers that it is not ready.
    pub(crate) fn new(config: Config, address: SocketAddr, stopping: CancellationToken) -> App {
        let (id, node) = (format!("{:016x}", super::somewhere()), node(&config, address));
        App {
            commons: Commons::new(id.clone(), node.name.clone()),
            started: SystemClock::new().now().time(),
            id,
            node,
            secrets: Arc::new(Secrets::new(config.webhooks.secret.clone())),
            auth: Arc::new(Auth::new(&config)),
            audit: Audit::default(),
            store: OnceLock::new(),
            registry: OnceLock::new(),
            runner: OnceLock::new(),
            alarms: OnceLock::new(),
            eureka: OnceLock::new(),
            events: OnceLock::new(),
            loading: Progress::default(),
            config: ArcSwap::from_pointee(config),
            changing: Mutex::default(),
            gates: Arc::default(),
            names: Names::new(),
            oldest: Oldest::default(),
            stopping,
            seen_to: TaskTracker::new(),
        }
    }

    /// The settings that all who share its store have.
    pub(crate) fn commons(&self) -> &Commons {
        &self.commons
    }

    /// What others that share its store are told of this server.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// When this server started.
    pub(super) fn started(&self) -> Time {
        self.started
    }

    /// Tells those who share the store that this server is gone.
    pub(crate) async fn leave(&self) {
        if let Some(store) = self.store.get() {
            store.leave().await;
        }
    }

    /// Who shares the store: this server alone if it cannot be shared.
    pub(super) async fn fleet(&self) -> Result<Fleet> {
        let store = self.store()?;
        if let Some(fleet) = store.fleet().await? {
            return Ok(fleet);
        }
        let now = store.clock().now().time();
        let alone = NodeInfo {
            id: self.id.clone(),
            node: self.node.clone(),
            // A store in a folder sees to its clock itself.
            timer: true,
            version: env!("CARGO_PKG_VERSION").into(),
            started: self.started,
            heard: now,
            until: now,
            is_this: true,
        };
        Ok(Fleet { nodes: vec![alone], buckets: Vec::new() })
    }

    /// Refuses what only a server with the role api does.
    pub(super) fn check_api(&self) -> Result<()> {
        if self.config().role.api {
            return Ok(());
        }
        let message = "this server does not have the role api, and tells only how it is; call one \
                       that has it";
        Err(Error::new(Code::Unavailable, message))
    }

    /// Where an opening says how far it has come.
    pub(crate) fn loading(&self) -> &Progress {
        &self.loading
    }

    /// Takes the workers of the store that is to come.
    pub(crate) fn set_registry(&self, registry: Arc<Registry>) {
        let _ = self.registry.set(registry);
    }

    /// Takes who pushes the store's jobs.
    pub(crate) fn set_runner(&self, runner: Arc<Runner<Store>>) {
        let _ = self.runner.set(runner);
    }

    /// Who pushes the store's jobs, if this instance does.
    pub(super) fn runner(&self) -> Option<&Arc<Runner<Store>>> {
        self.runner.get()
    }

    /// Takes what looks whether all is well.
    pub(crate) fn set_alarms(&self, alarms: Arc<Alarms>) {
        let _ = self.alarms.set(alarms);
    }

    /// What looks whether all is well; refused while the store is loaded.
    pub(super) fn alarms(&self) -> Result<&Arc<Alarms>> {
        self.alarms.get().ok_or_else(loading)
    }

    /// Takes who asks Eureka for workers.
    pub(crate) fn set_eureka(&self, eureka: Arc<Eureka>) {
        let _ = self.eureka.set(eureka);
    }

    /// Who asks Eureka for workers, if there is one.
    pub(super) fn eureka(&self) -> Option<&Arc<Eureka>> {
        self.eureka.get()
    }

    /// Takes the event log.
    pub(crate) fn set_events(&self, events: Arc<Events>) {
        let _ = self.events.set(events);
    }

    /// The event log, if there is one.
    pub(super) fn events(&self) -> Option<&Arc<Events>> {
        self.events.get()
    }

    /// The most workers that may be registered.
    pub(crate) fn workers_max(&self) -> usize {
        self.config().workers.max
    }

    /// Begins to serve from this store.
    pub(crate) fn set_store(&self, store: Arc<Store>) {
        // Held, so that settings read again in the meantime reach the store one way or the other.
        let _changing = self.changing.lock().expect("nobody panics holding it");
        store.set_defaults(self.config().defaults.clone());
        let _ = self.store.set(store);
    }

    /// Takes on other settings: those that may change while the server runs.
    pub(crate) fn set_config(&self, config: Config) {
        let _changing = self.changing.lock().expect("nobody panics holding it");
        if let Some(store) = self.store.get() {
            store.set_defaults(config.defaults.clone());
        }
        self.secrets.set_usual(config.webhooks.secret.clone());
        self.config.store(Arc::new(config));
    }

    /// What counts those who are served, for other ports.
    pub(crate) fn gates(&self) -> &Arc<Gates> {
        &self.gates
    }

    /// The keys that sign what is pushed.
    pub(crate) fn secrets(&self) -> &Arc<Secrets> {
        &self.secrets
    }

    /// Who is let in.
    pub(crate) fn auth(&self) -> &Arc<Auth> {
        &self.auth
    }

    /// Lets a call in that needs this, or refuses it; answers who it is.
    pub(super) fn admit(
        &self,
        needs: Needs,
        headers: &HeaderMap,
        address: IpAddr,
    ) -> Result<Caller> {
        self.auth.admit(needs, headers, address, &self.config().limits)
    }

    /// Takes down what somebody who administers has changed.
    pub(super) fn changed(self: &Arc<App>, caller: &Caller, call: String, about: Option<About>) {
        let now = SystemClock::new().now().time();
        let entry = Entry::new(caller, call, about.map(|About(text)| text), now);
        entry.tell();
        let app = self.clone();
        self.see_to(async move {
            let Ok(store) = app.store() else { return };
            if let Err(why) = app.audit.keep(&**store, &entry).await {
                tracing::warn!("what was changed is in the log alone: {why}");
            }
        });
    }

    /// The topics that a caller may see, by name: a page of them.
    pub(super) async fn topics_for(
        &self,
        caller: &Caller,
        prefix: Arc<str>,
        after: Option<Topic>,
        limit: usize,
    ) -> Result<Vec<TopicInfo>> {
        let store = self.store()?;
        let patterns = match caller.topics() {
            auth::Topics::All => return store.topics(Topics::Page { prefix, after, limit }).await,
            auth::Topics::These(patterns) => patterns,
        };
        let mut found = Vec::new();
        for pattern in patterns {
            if let Some(name) = pattern.one() {
                let topic: Topic = name.parse()?;
                let is_asked =
                    name.starts_with(&*prefix) && after.as_ref().is_none_or(|a| topic > *a);
                if is_asked {
                    found.extend(store.topics(Topics::One(topic)).await?);
                }
                continue;
            }
            let beginning = pattern.as_str().trim_end_matches('*');
            // Of two beginnings the longer one is asked for, if it begins with the other.
            let prefix = match (beginning.starts_with(&*prefix), prefix.starts_with(beginning)) {
                (true, _) => beginning.into(),
                (_, true) => prefix.clone(),
                _ => continue,
            };
            found.extend(store.topics(Topics::Page { prefix, after: after.clone(), limit }).await?);
        }
        found.sort_by(|a, b| a.topic.cmp(&b.topic));
        found.dedup_by(|a, b| a.topic == b.topic);
        found.truncate(limit);
        Ok(found)
    }

    /// The most connections at once, and how long each may be silent.
    pub(crate) fn connection_limits(&self) -> (Most, silence::Limits) {
        let limits = &self.config().limits;
        let silent = silence::Limits { head: limits.header_time, idle: limits.idle_time };
        (limits.most_connections(), silent)
    }

    /// How long a stop waits for requests under way.
    pub(crate) fn drain(&self) -> Duration {
        self.config().drain
    }

    /// The settings in force.
    pub(super) fn config(&self) -> Guard<Arc<Config>> {
        self.config.load()
    }

    /// The store; refused while it is loaded.
    pub(super) fn store(&self) -> Result<&Arc<Store>> {
        self.store.get().ok_or_else(loading)
    }

    /// The workers; refused while the store is loaded.
    pub(super) fn registry(&self) -> Result<&Arc<Registry>> {
        self.store()?;
        self.registry.get().ok_or_else(loading)
    }

    /// Why the store takes no changes any more, if it does not.
    pub(super) fn halted(&self) -> Option<Error> {
        self.store.get().and_then(|store| store.halted())
    }

    /// Why the store cannot be reached at present, if it cannot.
    pub(super) fn away(&self) -> Option<Error> {
        self.store.get().and_then(|store| store.away())
    }

    /// Whether calls are answered.
    pub(super) fn is_ready(&self) -> bool {
        let well = self.halted().is_none() && self.away().is_none();
        self.store().is_ok() && well && !self.stopping.is_cancelled()
    }

    /// Refuses to wait for longer than is allowed.
    pub(super) fn check_wait(&self, wait: Duration) -> Result<()> {
        let most = self.config().limits.wait;
        if wait > most {
            let (wait, most) = (format_duration(wait), format_duration(most));
            let message = format!("wait is {wait}, over the limit of {most}");
            return Err(Error::invalid("wait", message));
        }
        Ok(())
    }

    /// Refuses to look into more topics than is allowed.
    pub(super) fn check_topics(&self, topics: &[Topic]) -> Result<()> {
        let (given, most) = (topics.len(), self.config().limits.batch_jobs);
        if given > most {
            let message = format!("the request names {given} topics, over the limit of {most}");
            return Err(Error::new(Code::TooLarge, message).field("topics"));
        }
        Ok(())
    }

    /// The page that was asked for, or as much of it as an answer may carry: with bodies it is put
    /// together from smaller ones. One that the store has cut short is answered as it is, so that no
    /// filter makes one call look at a whole topic.
    pub(super) async fn page(&self, query: Query, bytes_max: usize) -> Result<Page> {
        let at_once = match query.bodies {
            Bodies::Without => query.limit,
            Bodies::With => (bytes_max / self.config().limits.body_bytes.max(1)).max(1),
        };
        let (mut page, mut bytes) = (Page { jobs: Vec::new(), cursor: query.cursor.clone() }, 0);
        loop {
            let limit = at_once.min(query.limit - page.jobs.len());
            let part = Query { limit, cursor: page.cursor.take(), ..query.clone() };
            let part = self.store()?.browse(part).await?;
            let bodies = part.jobs.iter().filter_map(|job| job.body.as_ref());
            bytes += bodies.map(|body| body.as_bytes().len()).sum::<usize>();
            let is_short = part.jobs.len() < limit;
            page.jobs.extend(part.jobs);
            page.cursor = part.cursor;
            let is_full = page.jobs.len() >= query.limit || bytes >= bytes_max;
            if is_full || is_short || page.cursor.is_none() {
                return Ok(page);
            }
        }
    }

    /// Has something done that nobody waits for but a stop.
    pub(super) fn see_to(&self, what: impl Future<Output = ()> + Send + 'static) {
        self.seen_to.spawn(what);
    }

    /// Waits for what nobody else waits for.
    pub(crate) async fn all_seen_to(&self) {
        self.seen_to.close();
        self.seen_to.wait().await;
    }

    /// Leases jobs, counted among those who wait if it may; a stop answers those with none.
    pub(super) async fn take(&self, caller: &Caller, ask: Ask) -> Result<Vec<Delivery>> {
        let config = self.config();
        let limits = &config.limits;
        let may_wait = !ask.wait.is_zero();
        let _stay = match !may_wait {
            true => self.gates.calls.enter(limits.requests, "requests")?,
            false => self.gates.waits.enter(limits.waiting, "waiting pops")?,
        };
        if !may_wait {
            return self.store()?.pop(ask).await;
        }
        tokio::select! {
            jobs = self.store()?.pop(ask) => jobs,
            // A pop that is dropped has leased nothing.
            () = self.stopping.cancelled() => Ok(Vec::new()),
            why = caller.ended() => Err(why),
        }
    }

    /// Gives back what its caller will not see.
    pub(super) async fn give_back(&self, jobs: &[Delivery]) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let release = Verdict::Release { delay: Duration::ZERO, priority: None };
        let settles = jobs.iter().map(|job| Settle::delivery(job, release.clone())).collect();
        let mut author = Author::of_this_call();
        author.front = author.front.or(Some(Front::Server));
        // Seldom, and small for those who carry it along.
        Box::pin(author.scope(self.store()?.settle(settles))).await?;
        Ok(())
    }
}

fn node(config: &Config, address: SocketAddr) -> Node {
    let usual = Node::default();
    let said = &config.node;
    // The store says itself whether it sees to its clock.
    let roles = config.role.words().into_iter().filter(|role| *role != "timer");
    Node {
        name: said.name.as_ref().map_or(usual.name, |name| name.as_str().to_owned()),
        group: said.group.as_str().to_owned(),
        weight: said.weight as u32,
        threshold: Some(said.threshold as u64).filter(|threshold| *threshold > 0),
        roles: roles.map(str::to_owned).collect(),
        address: Some(address.to_string()),
    }
}
